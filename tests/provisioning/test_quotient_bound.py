"""The quotient of the lattice: a bound always, and the optimum where nothing is confused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioning.provisioning_problems import by_enumeration, problems
from streamtune.provisioning import Problem
from streamtune.provisioning.plans import ProvisionPlan
from streamtune.provisioning.programme import Instance
from streamtune.provisioning.quotient import Quotient


def bound_of(problem: Problem, images: float, modulus: int, seed: int = 0) -> float:
    instance = Instance.of(problem)
    return Quotient.of(instance, instance.limits(), images, modulus, seed).bound()


@given(problems(), st.sampled_from([8.0, 60.0, 500.0, 20_000.0]), st.integers(1, 7), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_no_plan_is_below_the_bound(problem: Problem, images: float, modulus: int, seed: int) -> None:
    assert bound_of(problem, images, modulus, seed) <= by_enumeration(problem) + 1e-9


@given(problems(most_sizes=1, most_epochs=10))
@settings(max_examples=60, deadline=None)
def test_one_size_is_never_confused(problem: Problem) -> None:
    assert bound_of(problem, 5000.0, 3) == pytest.approx(by_enumeration(problem), rel=1e-6, abs=1e-9)


def test_finer_images_tell_more() -> None:
    generator = np.random.default_rng(3)
    rates = (100 * np.arange(1, 6) * generator.uniform(0.9, 1.1, 5)).tolist()
    sizes = [
        {"name": f"s{k}", "cpu": 1, "memory_mb": 1, "performance_per_s": rate, "price": rate**0.9}
        for k, rate in enumerate(rates)
    ]
    workload = (800 + 600 * np.sin(np.arange(40) / 6) + generator.normal(0, 40, 40)).tolist()
    problem = Problem.model_validate({"sizes": sizes, "start_cost": 300, "stop_cost": 60, "workload": workload})
    coarse, fine = bound_of(problem, 400.0, 1), bound_of(problem, 100_000.0, 16)
    optimum = _exact(problem).costs.total
    assert coarse < fine <= optimum + 1e-6
    assert (optimum - fine) / optimum < 0.002


def _exact(problem: Problem) -> ProvisionPlan:
    from streamtune.provisioning import plan_exact

    return plan_exact(problem)
