"""The fast distance against brute force, against an integer program, and against the laws of a metric."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similarity.graphs import random_dag, renumbered, sparse_dag
from similarity.references import bounds_along, brute_force, integer_program, mapping_costs, partial_mappings
from strategies import typed_dags
from streamtune.dataflow import Dataflow
from streamtune.similarity import edit_distance, edit_distances, pack, within

SMALL = typed_dags(max_size=5)


MANY_TYPES = tuple(f"kind_{number}" for number in range(40))  # more than the bound can tell apart


@pytest.mark.parametrize("types", [("map",), ("map", "filter"), ("map", "filter", "join", "sink"), MANY_TYPES], ids=len)
def test_brute_force_agrees_on_thousands_of_random_pairs(types: tuple[str, ...]) -> None:
    rng = random.Random(len(types))
    flows = [random_dag(rng, rng.randint(0, 6), rng.choice((0.2, 0.4, 0.7)), types) for _ in range(120)]
    pairs = [(rng.randrange(len(flows)), rng.randrange(len(flows))) for _ in range(1000)]
    found = edit_distances(pack(flows), pairs)
    for (first, second), distance in zip(pairs, found, strict=True):
        assert distance == brute_force(flows[first], flows[second]), (flows[first], flows[second])


@settings(max_examples=300)
@given(typed_dags(max_size=6), SMALL)
def test_brute_force_agrees_with_hypothesis(a: Dataflow, b: Dataflow) -> None:
    assert edit_distance(a, b) == brute_force(a, b)


@pytest.mark.parametrize("size", [8, 9, 10, 11, 12])
def test_an_integer_program_agrees(size: int) -> None:
    rng = random.Random(size)
    for _ in range(4):
        a, b = sparse_dag(rng, size), sparse_dag(rng, rng.randint(size - 3, size))
        assert edit_distance(a, b) == integer_program(a, b), (a, b)


@given(SMALL, SMALL)
def test_the_references_agree_with_each_other(a: Dataflow, b: Dataflow) -> None:
    assert integer_program(a, b) == brute_force(a, b)


@settings(max_examples=300)
@given(typed_dags(max_size=8), typed_dags(max_size=8), st.randoms(use_true_random=False))
def test_symmetry_and_renumbering(a: Dataflow, b: Dataflow, rng: random.Random) -> None:
    distance = edit_distance(a, b)
    assert distance == edit_distance(b, a)
    assert distance == edit_distance(renumbered(rng, a), renumbered(rng, b))


@given(typed_dags(max_size=9), typed_dags(max_size=9), st.randoms(use_true_random=False))
def test_zero_means_isomorphic(a: Dataflow, b: Dataflow, rng: random.Random) -> None:
    assert edit_distance(a, renumbered(rng, a)) == 0
    assert (edit_distance(a, b) == 0) == (a.canonical_form == b.canonical_form)


@settings(max_examples=300)
@given(typed_dags(max_size=7), typed_dags(max_size=7), typed_dags(max_size=7))
def test_triangle_inequality(a: Dataflow, b: Dataflow, c: Dataflow) -> None:
    direct, first, second = edit_distances(pack((a, b, c)), [(0, 2), (0, 1), (1, 2)])
    assert direct <= first + second


@settings(max_examples=300)
@given(typed_dags(max_size=7), typed_dags(max_size=7), st.integers(0, 12))
def test_a_limit_changes_speed_and_nothing_else(a: Dataflow, b: Dataflow, limit: int) -> None:
    distance = edit_distance(a, b)
    assert distance is not None
    assert edit_distance(a, b, limit) == (distance if distance <= limit else None)
    assert within(pack((a, b)), [(0, 1)], limit).tolist() == [distance <= limit]


def test_a_batch_gives_what_single_calls_give() -> None:
    rng = random.Random(5)
    flows = [sparse_dag(rng, rng.randint(0, 14)) for _ in range(20)]
    pairs = [(i, j) for i in range(20) for j in range(20)]
    singles = [edit_distance(flows[i], flows[j]) for i, j in pairs]
    assert edit_distances(pack(flows), pairs).tolist() == singles


@st.composite
def partly_mapped_pairs(draw: st.DrawFn) -> tuple[Dataflow, Dataflow, list[tuple[int, int]]]:
    """Two graphs, the first not the larger one, and a way into the search."""
    a, b = sorted((draw(typed_dags(max_size=5)), draw(typed_dags(max_size=5))), key=lambda flow: len(flow.types))
    rows = draw(st.permutations(range(len(a.types))))
    columns = draw(st.permutations(range(len(b.types))))
    return a, b, list(zip(rows, columns, strict=False))


@settings(max_examples=600)
@given(partly_mapped_pairs())
@pytest.mark.slow
def test_no_bound_exceeds_the_best_completion(case: tuple[Dataflow, Dataflow, list[tuple[int, int]]]) -> None:
    """Every pitfall that makes a bound inadmissible fails here: see test_pitfalls.py for one example each."""
    a, b, steps = case
    if not a.types:
        return
    mappings = partial_mappings(len(a.types), len(b.types))
    costs = mapping_costs(a, b, mappings)
    for (row, column), (label_set, assignment) in zip(steps, bounds_along(a, b, steps), strict=True):
        below = mappings[:, row] == column
        mappings, costs = mappings[below], costs[below]
        assert label_set <= costs.min()
        assert assignment <= costs.min()
    assert label_set == assignment == costs.min()  # all mapped: nothing left to estimate
