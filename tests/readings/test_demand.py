"""Rates through a dataflow, and the least parallelism that serves them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow
from streamtune.dataflow.physics import OperatorPhysics, smallest_parallelism
from streamtune.readings.demand import input_rates
from streamtune.workloads import random_job


def test_branches_copy_and_inputs_add() -> None:
    # 100/s from op0 reach both branches whole: 100·0.5 + 100·2 = 250/s arrive at the join.
    flow = Dataflow.from_edges(["source", "filter", "flat_map", "join"], [(0, 1), (0, 2), (1, 3), (2, 3)])
    rates = input_rates(flow, {"op0": 1.0, "op1": 0.5, "op2": 2.0, "op3": 1.0}, {"op0": 100.0})
    assert rates == {"op0": 100.0, "op1": 100.0, "op2": 100.0, "op3": 250.0}


@given(st.integers(0, 10**6), st.floats(0.1, 20), st.floats(1.0, 5.0))
def test_input_rates_are_linear_in_the_source_rates(seed: int, multiple: float, factor: float) -> None:
    workload = random_job(seed)
    once, more = workload.input_rates_at(multiple), workload.input_rates_at(multiple * factor)
    assert all(more[key] == pytest.approx(factor * rate) for key, rate in once.items())


@given(st.floats(1, 10_000), st.floats(0, 0.01), st.floats(0, 5e-5), st.floats(0, 0.1), st.floats(1, 1e6))
def test_the_smallest_suffices_and_one_less_does_not(
    service_us: float, contention: float, coherency: float, skew: float, rate: float
) -> None:
    physics = OperatorPhysics(service_us=service_us, contention=contention, coherency=coherency, skew=skew)
    parallelism = smallest_parallelism(physics, rate, 100)
    if parallelism is None:
        assert physics.capacity_per_s(100) < rate
    else:
        assert physics.capacity_per_s(parallelism) >= rate
        assert parallelism == 1 or physics.capacity_per_s(parallelism - 1) < rate
