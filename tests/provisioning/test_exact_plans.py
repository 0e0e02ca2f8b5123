"""The optimiser against enumeration, HiGHS, and its own laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioning.provisioning_problems import by_enumeration, by_milp, is_served, problems
from streamtune.provisioning import Problem, Size, SolverSettings, plan_by, plan_exact
from streamtune.provisioning.levels import needed_counts, plan_one_size
from streamtune.provisioning.qcesa import plan_qcesa
from streamtune.provisioning.rivals import plan_cba, plan_peak

SEARCH = SolverSettings(exact_steps=1.0, seconds=0.4)  # no whole lattice: descent and bounds alone


def sizes_of(*pairs: tuple[float, float]) -> tuple[Size, ...]:
    return tuple(
        Size(name=f"s{k}", cpu=1, memory_mb=64, performance_per_s=rate, price=price)
        for k, (rate, price) in enumerate(pairs)
    )


@given(problems())
@settings(max_examples=150, deadline=None)
def test_the_exact_plan_is_the_optimum_by_enumeration(problem: Problem) -> None:
    plan = plan_exact(problem)
    assert is_served(problem, plan.counts)
    assert plan.is_optimal
    assert plan.costs.total == pytest.approx(by_enumeration(problem), abs=1e-9)


@given(problems(most_sizes=1, most_epochs=14, most_instances=6))
@settings(max_examples=150, deadline=None)
def test_one_size_in_closed_form_is_the_optimum(problem: Problem) -> None:
    assert plan_exact(problem).costs.total == pytest.approx(by_enumeration(problem), abs=1e-9)


@given(problems(most_sizes=5, most_epochs=10))
@settings(max_examples=15, deadline=None)
def test_the_exact_plan_is_the_optimum_by_milp(problem: Problem) -> None:
    assert plan_exact(problem).costs.total == pytest.approx(by_milp(problem), abs=1e-6)


@given(problems())
@settings(max_examples=15, deadline=None)
def test_the_search_brackets_the_optimum(problem: Problem) -> None:
    plan, optimum = plan_exact(problem, SEARCH), by_enumeration(problem)
    assert is_served(problem, plan.counts)
    assert plan.bound <= optimum + 1e-6
    assert plan.costs.total >= optimum - 1e-9


@given(problems(most_epochs=9))
@settings(max_examples=15, deadline=None)
def test_a_search_that_is_content_with_little_is_no_worse_than_the_paper(problem: Problem) -> None:
    plan = plan_exact(problem, SolverSettings(exact_steps=1.0, seconds=0.02, gap=0.9))
    assert plan.costs.total <= plan_by("qcesa", problem).costs.total + 1e-9
    assert plan.bound <= by_enumeration(problem) + 1e-6


@given(problems(most_epochs=9))
@settings(max_examples=40, deadline=None)
def test_no_rival_is_cheaper(problem: Problem) -> None:
    best = plan_exact(problem).costs.total
    for method in ("qcesa", "peak", *(f"cba:{size.name}" for size in problem.sizes)):
        rival = plan_by(method, problem)
        assert is_served(problem, rival.counts)
        assert best <= rival.costs.total + 1e-9, method
        assert rival.gap >= 0
        assert rival.bound <= best + 1e-9


@st.composite
def long_problems(draw: st.DrawFn) -> Problem:
    """Six sizes over 200 epochs: too many steps for the whole programme where steps are few."""
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    cpu = np.arange(1, 7) * 0.6
    sizes = sizes_of(*zip((100 * cpu * generator.uniform(0.8, 1.2, 6)).tolist(), (cpu + 0.05).tolist(), strict=True))
    day = 220 + 150 * np.sin(np.arange(200) / 15) + generator.normal(0, 40, 200)
    start = draw(st.sampled_from([0.0, 0.2, 5.0, 300.0]))
    rates = tuple(np.maximum(day, 0).tolist())
    initial = draw(st.none() | st.just({"s1": 3, "s5": 1}))
    return Problem(sizes=sizes, start_cost=start, stop_cost=start / 4, workload=rates, initial=initial)


@given(long_problems())
@settings(max_examples=8, deadline=None)
def test_no_rival_is_cheaper_than_a_search_that_stopped_short(problem: Problem) -> None:
    plan = plan_exact(problem, SolverSettings(exact_steps=1e4, seconds=0.2, gap=0.9))
    for rival in (
        plan_qcesa(problem),
        plan_peak(problem),
        *(plan_cba(problem, size.name) for size in problem.sizes),
    ):
        assert plan.costs.total <= rival.costs.total * (1 + 1e-9), rival.method


@given(problems(), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_dearer_starts_are_never_more(problem: Problem, quarters_more: int) -> None:
    # Two optima of equal cost may differ in their starts, so compare what any optimum must satisfy: with costs
    # a < b and starts m, n of the optima, exchange gives (b - a)(n - m) <= 0. Stops count for nothing extra here.
    dearer = problem.model_copy(update={"start_cost": problem.start_cost + quarters_more / 4})
    assert plan_exact(dearer).costs.starts <= plan_exact(problem).costs.starts


@given(problems(), st.sampled_from([0.5, 3.0, 1024.0, 7.3, 1e-7, 0.1]))
@settings(max_examples=100, deadline=None)
def test_scaling_all_prices_changes_nothing_but_the_cost(problem: Problem, factor: float) -> None:
    scaled = problem.model_copy(
        update={
            "sizes": tuple(size.model_copy(update={"price": size.price * factor}) for size in problem.sizes),
            "start_cost": problem.start_cost * factor,
            "stop_cost": problem.stop_cost * factor,
        }
    )
    before, after = plan_exact(problem), plan_exact(scaled)
    assert after.costs.total == pytest.approx(before.costs.total * factor)
    assert after.counts.tolist() == before.counts.tolist()


@given(problems(), st.integers(0, 6), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_more_workload_is_never_cheaper(problem: Problem, epoch: int, more: int) -> None:
    workload = list(problem.workload)
    workload[epoch % len(workload)] += more
    assert (
        plan_exact(problem.model_copy(update={"workload": tuple(workload)})).costs.total
        >= plan_exact(problem).costs.total - 1e-9
    )


def test_a_gap_is_bridged_iff_that_is_no_dearer() -> None:
    # Price 2, start 3, stop 1: a gap of g idle epochs costs 2 g to bridge and 4 to stop and start again: g <= 2.
    needed = needed_counts(np.array([100.0, 0, 0, 100, 0, 0, 0, 100]), 100.0)
    assert plan_one_size(needed, 2.0, 3.0, 1.0).tolist() == [1, 1, 1, 1, 0, 0, 0, 1]


def test_the_first_epoch_is_free_and_the_end_charges_no_stop() -> None:
    # Start 3: two instances in epoch 0 (2 · price 1) save the start of epoch 1: 1 + 0 < 3.
    problem = Problem(sizes=sizes_of((100, 1)), start_cost=3, stop_cost=2, workload=(100, 200, 100))
    plan = plan_exact(problem)
    # Epoch 2 keeps the second one: running on costs 1, stopping 2.
    assert plan.counts.ravel().tolist() == [2, 2, 2]
    assert plan.as_dict() | {"seconds": 0} == {
        "method": "exact",
        "cost": 6.0,
        "running_cost": 6.0,
        "starts": 0,
        "stops": 0,
        "optimal": True,
        "gap": 0.0,
        "seconds": 0,
        "plan": [{"s0": 2}, {"s0": 2}, {"s0": 2}],
    }


def test_initial_instances_are_paid_for() -> None:
    # Three run, one is needed: stopping two costs 2 · 0.5, keeping them 2 · 2 epochs · 1.
    problem = Problem(sizes=sizes_of((100, 1)), start_cost=3, stop_cost=0.5, workload=(50, 50), initial={"s0": 3})
    plan = plan_exact(problem)
    assert (plan.costs.starts, plan.costs.stops, plan.costs.total) == (0, 2, 3.0)


def test_the_papers_candidates_can_miss_the_optimum() -> None:
    # W_max = 6. Sizes of 4 (price 4) and 5 (price 5) records/s: {4, 4} and {5, 4} exceed 6, and {4} and {5} fall short,
    # so candidates beyond W_max must stand in at the peak; in between the paper may not keep what it holds.
    problem = Problem(sizes=sizes_of((4, 4), (3, 3.5)), start_cost=9, stop_cost=0, workload=(6, 5, 6))
    ours, papers = plan_exact(problem), plan_by("qcesa", problem)
    assert ours.costs.total <= papers.costs.total
    assert papers.gap >= 0


def test_a_free_size_costs_nothing() -> None:
    problem = Problem(sizes=sizes_of((10, 0)), start_cost=1, stop_cost=1, workload=(5, 25, 5))
    plan = plan_exact(problem)
    assert plan.costs.total == 0
    assert plan.counts.ravel().tolist() == [3, 3, 3]
    assert plan.is_optimal


def test_constant_zero_needs_nothing() -> None:
    plan = plan_exact(Problem(sizes=sizes_of((10, 1), (20, 1.5)), start_cost=1, stop_cost=1, workload=(0, 0, 0)))
    assert plan.costs.total == 0
    assert plan.counts.sum() == 0


def test_one_epoch_is_a_knapsack() -> None:
    # 11 records/s by sizes of 5 (price 3) and 3 (price 2): 5 + 3 + 3 costs 7, 5 + 5 + 3 costs 8, 4 · 3 costs 8.
    plan = plan_exact(Problem(sizes=sizes_of((5, 3), (3, 2)), start_cost=9, stop_cost=9, workload=(11,)))
    assert plan.counts.tolist() == [[1, 2]]


def test_rounded_numbers_do_not_cost_an_instance() -> None:
    # 11 · 0.1 is 1.1 although 1.1 / 0.1 is 11.000000000000002 in floating point.
    plan = plan_exact(Problem(sizes=sizes_of((0.1, 1)), start_cost=0, stop_cost=0, workload=(1.1,)))
    assert plan.counts.tolist() == [[11]]


@pytest.mark.slow
def test_many_sizes_have_a_small_proven_gap() -> None:
    generator = np.random.default_rng(7)
    cpu = np.linspace(0.5, 5, 10)
    rates = 100 * cpu**0.9 * generator.uniform(0.9, 1.1, 10)
    sizes = sizes_of(*zip(rates.tolist(), (cpu + 0.1).tolist(), strict=True))
    day = 1200 + 700 * np.sin(np.arange(48) / 48 * 2 * np.pi) + generator.normal(0, 60, 48)
    problem = Problem(sizes=sizes, start_cost=0.5, stop_cost=0.1, workload=tuple(day.tolist()))
    exact = plan_exact(problem)
    searched = plan_exact(problem, SolverSettings(exact_steps=1e5, seconds=3))
    assert exact.is_optimal
    assert searched.bound <= exact.costs.total <= searched.costs.total + 1e-9
    assert searched.gap < 0.05


def test_a_hundred_thousand_instances_have_a_small_proven_gap() -> None:
    workload = tuple((1e5 * (0.5 + 0.4 * np.sin(np.arange(24) / 4))).tolist())
    plan = plan_exact(Problem(sizes=sizes_of((1, 1), (3.3, 3)), start_cost=2, stop_cost=1, workload=workload))
    assert plan.gap < 0.001


def test_running_instances_that_serve_nothing_are_stopped_or_kept_whichever_is_cheaper() -> None:
    sizes = sizes_of((0, 1), (5, 2))
    problem = Problem(sizes=sizes, start_cost=1, stop_cost=4, workload=(5, 5), initial={"s0": 1, "s1": 1})
    # Keeping the useless one costs 2 epochs · 1, stopping it 4; the useful one runs for 2 · 2.
    plan = plan_exact(problem)
    assert plan.counts.tolist() == [[1, 1], [1, 1]]
    assert (plan.costs.total, plan.is_optimal) == (6.0, True)
