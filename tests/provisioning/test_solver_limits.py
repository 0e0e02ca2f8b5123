"""What the solver must not do: spend more than it was given, or fill the memory."""

from __future__ import annotations

import random
import time

import pytest

from streamtune.provisioning import Problem, Size, SolverSettings, plan_exact
from streamtune.provisioning.exact import plan_held_peak
from streamtune.provisioning.methods import compile_kernels


def ten_sizes(peak_in_smallest: float) -> Problem:
    draw = random.Random(1)
    rates = sorted(draw.uniform(80, 800) for _ in range(10))
    sizes = tuple(
        Size(name=f"s{k}", cpu=1, memory_mb=512, performance_per_s=rate, price=(rate / 100) ** 0.9)
        for k, rate in enumerate(rates)
    )
    peak = rates[0] * peak_in_smallest
    return Problem(sizes=sizes, start_cost=1, stop_cost=0.2, workload=(0.4 * peak, peak))


@pytest.mark.slow
def test_a_lattice_is_built_within_the_time_that_was_given() -> None:
    # One epoch: nearly all of the time is that of making and sorting the vectors (10 CPU s, where it was not counted).
    compile_kernels()
    problem = ten_sizes(50.0)
    begun = time.process_time()
    plan_held_peak(problem, 2.0)
    assert time.process_time() - begun < 5.0


@pytest.mark.parametrize("price", [1.0, 1e-12])
@pytest.mark.parametrize("weak", [1e-3, 1e-6, 1e-9, 1e-12, 1e-100, 1e-300])
def test_a_very_weak_size_is_no_burden(weak: float, price: float) -> None:
    sizes = (
        Size(name="weak", cpu=1, memory_mb=1, performance_per_s=weak, price=price),
        Size(name="strong", cpu=1, memory_mb=1, performance_per_s=350, price=3),
    )
    problem = Problem(sizes=sizes, start_cost=0.5, stop_cost=0, workload=(90, 340, 120))
    plan = plan_exact(problem, SolverSettings(seconds=2))
    assert plan.is_optimal
    # One strong instance throughout, at 3 in each of 3 epochs; or weak ones at 340 + 120 + 90 over performance.
    weak_alone = price / weak * (90 + 340 + 120)
    assert plan.costs.total <= 9.0
    if weak_alone > 9.0:
        assert plan.counts.tolist() == [[0, 1]] * 3


def test_images_that_fit_into_no_memory_are_not_looked_at() -> None:
    # Three sizes whose weakest is neither weak enough to be left out nor strong enough for a lattice.
    sizes = tuple(
        Size(name=f"s{k}", cpu=1, memory_mb=1, performance_per_s=rate, price=rate**0.9)
        for k, rate in enumerate((1e-7, 200.0, 333.0))
    )
    problem = Problem(sizes=sizes, start_cost=0.5, stop_cost=0, workload=tuple(100.0 + 7 * k for k in range(40)))
    plan = plan_exact(problem, SolverSettings(seconds=1))
    assert plan.gap < 1
