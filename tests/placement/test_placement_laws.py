"""What every scheduler must do, and what ours promises on top."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.placement_strategies import graphs, problems
from streamtune.placement import SCHEDULERS, CommunicationGraph, Even, Exact, Hosts, Ours, Problem, scheduler
from streamtune.placement.exact import balance_by_milp

BOUNDED = settings(max_examples=40, deadline=None)
HEURISTICS = [name for name in SCHEDULERS if name not in ("exact", "flink")]


@pytest.mark.parametrize("name", HEURISTICS)
@given(problem=problems())
@settings(max_examples=20, deadline=None)
def test_a_placement_covers_all_tasks_and_costs_the_sum_of_its_remote_edges(name: str, problem: Problem) -> None:
    placed = scheduler(name).place(problem)
    graph = problem.graph
    assert set(placed.assignment) == set(graph.tasks)  # covers all; a mapping is disjoint by itself
    assert set(placed.assignment.values()) <= set(problem.hosts.names)
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), graph.bytes_per_s.tolist(), strict=True)
    by_hand = sum(w for a, b, w in ends if placed.assignment[graph.tasks[a]] != placed.assignment[graph.tasks[b]])
    assert placed.remote_bytes_per_s == pytest.approx(by_hand)
    between_hosts = placed.traffic.sum() - np.trace(placed.traffic)
    assert between_hosts == pytest.approx(by_hand)


@pytest.mark.parametrize("name", HEURISTICS)
@given(graph=graphs())
@settings(max_examples=15, deadline=None)
def test_names_do_not_matter(name: str, graph: CommunicationGraph) -> None:
    renamed = dataclasses.replace(graph, tasks=tuple(f"other-{task}" for task in reversed(graph.tasks)))
    problem, other = Problem(graph, Hosts.equal(3)), Problem(renamed, Hosts.equal(3))
    first, second = scheduler(name).place(problem), scheduler(name).place(other)
    assert first.remote_bytes_per_s == second.remote_bytes_per_s
    assert first.imbalance == second.imbalance


@given(problem=problems(9), order=st.randoms(use_true_random=False))
@BOUNDED
def test_the_cost_of_a_placement_does_not_depend_on_the_order_of_tasks(problem: Problem, order: object) -> None:
    graph = problem.graph
    shuffled = list(range(len(graph)))
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    place = {old: new for new, old in enumerate(shuffled)}
    mixed = CommunicationGraph.from_arrays(
        [graph.tasks[old] for old in shuffled],
        graph.loads[shuffled],
        [place[int(a)] for a in graph.sources],
        [place[int(b)] for b in graph.targets],
        graph.bytes_per_s,
    )
    placed = Ours().place(problem)
    again = dataclasses.replace(problem, graph=mixed, current=None)
    part = placed.part[shuffled]
    assert again.place(part, "same", 0.0).remote_bytes_per_s == pytest.approx(placed.remote_bytes_per_s)
    assert again.imbalance_of(part) == pytest.approx(placed.imbalance)


@given(problem=problems())
@BOUNDED
def test_ours_is_never_worse_than_even_at_equal_balance(problem: Problem) -> None:
    even = Even().place(problem)
    same_balance = dataclasses.replace(problem, imbalance=max(1.0, even.imbalance))
    ours = Ours().place(same_balance)
    assert ours.imbalance <= same_balance.imbalance * (1 + 1e-8)
    assert problem.cost(ours.part) <= problem.cost(even.part) * (1 + 1e-9)


@given(problem=problems(10))
@settings(max_examples=30, deadline=None)
def test_ours_equals_the_exact_optimum_on_small_graphs(problem: Problem) -> None:
    ours = Ours().place(problem)
    allowed = max(problem.imbalance, ours.imbalance) if not ours.imbalance_kept else problem.imbalance
    best = Exact(target=allowed).place(problem)
    assert problem.cost(ours.part) <= problem.cost(best.part) * 1.02 + 1e-6


@given(problem=problems(10))
@settings(max_examples=30, deadline=None)
def test_the_imbalance_asked_for_is_kept_whenever_it_can_be_kept_at_all(problem: Problem) -> None:
    ours = Ours().place(problem)
    best = balance_by_milp(problem, problem.imbalance, seconds=20)
    assert best is not None
    possible = max(problem.imbalance, problem.imbalance_of(best))
    assert ours.imbalance <= possible * (1 + 1e-6)
    assert ours.imbalance_kept == (not any("cannot be kept" in note for note in ours.notes))


@given(problem=problems(), seed=st.integers(0, 99))
@BOUNDED
def test_the_same_problem_gives_the_same_answer(problem: Problem, seed: int) -> None:
    assert Ours().place(problem).assignment == Ours().place(problem).assignment
    once, again = Even(shuffled=True, seed=seed).place(problem), Even(shuffled=True, seed=seed).place(problem)
    assert once.assignment == again.assignment


@given(problem=problems(), where=st.lists(st.integers(0, 3), min_size=14, max_size=14))
@BOUNDED
def test_tasks_never_move_for_a_worse_objective(problem: Problem, where: list[int]) -> None:
    names = problem.hosts.names
    current = {task: names[where[n] % len(names)] for n, task in enumerate(problem.graph.tasks)}
    running = dataclasses.replace(problem, current=current)
    placed = Ours().place(running)
    if running.fits(running.home, running.imbalance):
        assert running.cost(placed.part) <= running.cost(running.home) * (1 + 1e-9)
        if placed.moves:
            assert running.cost(placed.part) <= running.cost(running.home) * 0.99 + 1e-9


@given(problem=problems(), pinned=st.lists(st.integers(0, 3), min_size=3, max_size=3))
@BOUNDED
def test_pins_are_kept_by_every_scheduler(problem: Problem, pinned: list[int]) -> None:
    names = problem.hosts.names
    pins = {task: names[pinned[n] % len(names)] for n, task in enumerate(problem.graph.tasks[:3])}
    wanted = dataclasses.replace(problem, pins=pins)
    for name in HEURISTICS:
        placed = scheduler(name).place(wanted)
        assert {task: placed.assignment[task] for task in pins} == pins
