"""What happens when a search is too large: bounds that hold, or a clear refusal, never a wrong number."""

from __future__ import annotations

import random

import pytest

from similarity.graphs import renumbered, sparse_dag
from streamtune.errors import StreamTuneError
from streamtune.similarity import (
    SEARCHABLE_OPERATORS,
    UndecidedDistanceError,
    apply_script,
    best_mapping,
    edit_distance,
    edit_distance_bounds,
    edit_distances,
    measure_pairs,
    pack,
    script_of_mapping,
    within,
)


def test_bounds_close_in_on_the_distance_as_the_budget_grows() -> None:
    rng = random.Random(2)
    for _ in range(15):
        a, b = sparse_dag(rng, 14, 4), sparse_dag(rng, 13, 4)
        distance = edit_distance(a, b)
        assert distance is not None
        lowers = []
        for budget in (1, 10, 100, 1000, 10**7):
            found = edit_distance_bounds(a, b, budget=budget)
            assert found.upper is not None
            assert found.lower <= distance <= found.upper
            lowers.append(found.lower)
        assert lowers == sorted(lowers)
        assert found.exact
        assert found.lower == distance


def test_an_exhausted_budget_is_said_and_not_hidden() -> None:
    rng = random.Random(1)
    a, b = sparse_dag(rng, 40, 10), sparse_dag(rng, 40, 10)
    with pytest.raises(UndecidedDistanceError, match="raise the budget") as caught:
        edit_distance(a, b, budget=50)
    assert caught.value.lower < caught.value.upper
    assert edit_distance(a, b, limit=caught.value.lower - 1, budget=50) is None
    with pytest.raises(UndecidedDistanceError, match="of dataflows 0 and 1"):
        edit_distances(pack((a, b)), [(0, 0), (0, 1)], budget=50)
    with pytest.raises(UndecidedDistanceError, match="of dataflows 0 and 1"):
        within(pack((a, b)), [(0, 1)], tau=(caught.value.lower + caught.value.upper) // 2, budget=50)


@pytest.mark.parametrize("size", [63, 64, 65, 100, SEARCHABLE_OPERATORS])
def test_large_dataflows_that_are_near_are_measured(size: int) -> None:
    rng = random.Random(size)
    flow = sparse_dag(rng, size, size // 8, ("filter", "map", "join", "aggregate", "flat_map"))
    mapping = tuple(range(size - 1))  # drop the last operator, with its edges
    smaller = type(flow).from_edges(flow.types[:-1], [edge for edge in flow.edge_indices if max(edge) < size - 1])
    degree = sum(size - 1 in edge for edge in flow.edge_indices)
    assert edit_distance(flow, renumbered(rng, flow)) == 0
    assert edit_distance(flow, renumbered(rng, smaller)) == 1 + degree
    assert len(script_of_mapping(smaller, flow, mapping)) == 1 + degree


def test_large_dataflows_that_are_far_get_bounds() -> None:
    rng = random.Random(9)
    a, b = sparse_dag(rng, 64, 16), sparse_dag(rng, 64, 16)
    found, mapping = best_mapping(a, b, budget=2000)
    script = script_of_mapping(a, b, mapping)
    assert found.lower <= len(script) == found.upper
    assert apply_script(a, script).canonical_form == b.canonical_form


def test_beyond_the_searchable_size_there_are_bounds_without_a_search() -> None:
    rng = random.Random(4)
    size = SEARCHABLE_OPERATORS + 20
    a, b, small = sparse_dag(rng, size, 20), sparse_dag(rng, size, 20), sparse_dag(rng, 6)
    found = edit_distance_bounds(a, b)
    assert found.states == 1
    assert found.upper is not None
    assert 0 < found.lower <= found.upper
    assert edit_distance(a, renumbered(rng, a)) == 0
    mixed = measure_pairs(pack((a, b, small, small)), [(0, 1), (2, 3), (0, 2)])
    assert mixed[0] == found
    assert mixed[1].lower == mixed[1].upper == 0
    assert mixed[2].lower >= size - 6


@pytest.mark.parametrize(
    ("pairs", "limit", "budget"), [([(0, 2)], None, 9), ([(-1, 0)], None, 9), ([(0, 1)], -1, 9), ([(0, 1)], 3, 0)]
)
def test_questions_without_an_answer_are_refused(pairs: list[tuple[int, int]], limit: int | None, budget: int) -> None:
    flow = sparse_dag(random.Random(0), 3)
    with pytest.raises(StreamTuneError, match="but got"):
        measure_pairs(pack((flow, flow)), pairs, limit=limit, budget=budget)
