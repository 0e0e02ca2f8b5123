"""What a run on real hosts should send: buffers, acknowledgements, tuples and bytes counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from streamtune.experiments.placement.flows import task_flows
from streamtune.experiments.placement.hop_model import FlinkModel, TimelyModel
from streamtune.experiments.placement.real_design import RealPlacementStudy
from streamtune.experiments.placement.real_hosts import at_rate, rate_for
from streamtune.experiments.placement.real_tables import same_order
from streamtune.labs.hosts.work import TaskWork
from streamtune.placement.fluid import FluidHosts, HostLimits
from streamtune.placement.wire import HopCost
from streamtune.workloads.placement_topologies import payload

FLOWS = task_flows(payload(2, depth=2, tuple_bytes=100))  # spout-0 spout-1 metrics-0 bolt1-0 bolt1-1 bolt2-0 bolt2-1
FIRST_HOP_REMOTE = np.array([0, 1, 0, 1, 0, 1, 0])
ALL_LOCAL = np.array([0, 1, 0, 0, 1, 0, 1])


def work(part: np.ndarray, rate: float, count: int) -> TaskWork:  # type: ignore[type-arg]
    return TaskWork.of(FLOWS, part, rate, count)


def test_flink_sends_a_buffer_when_it_is_full_or_old() -> None:
    # Two lines with one remote hop each, on a connection of its own: 100 tuples/s of 100 bytes are 10 flushes a second
    # (a little fewer: the smaller of 100 and 10, rounded off) and 10,000 / 8,192 full buffers.
    each = (100**-4 + 10**-4) ** -0.25 + 10_000 / 8192
    messages, acknowledgements = FlinkModel().own_terms(work(FIRST_HOP_REMOTE, 100, 1000), 2)
    assert messages == pytest.approx(2 * each)
    assert acknowledgements == pytest.approx(2 * 10)
    # Slower than a tuple per flush, every tuple is a buffer of its own.
    slow, _ = FlinkModel().own_terms(work(FIRST_HOP_REMOTE, 1, 10), 2)
    assert slow == pytest.approx(2 * (1 + 100 / 8192), rel=1e-4)
    assert FlinkModel().own_terms(work(ALL_LOCAL, 100, 1000), 2) == (0, 0)


def test_channels_between_the_same_hosts_share_acknowledgements() -> None:
    cost = HopCost(overhead_bytes=0, byte_factor=0, message_bytes=0, ack_bytes=100, buffer_bytes=1e12, flushes_per_s=10)
    rates, sizes = np.array([50.0, 50.0]), np.array([8.0, 8.0])
    alone = cost.between_hosts(rates, sizes, np.array([0, 1]), np.array([1, 0]), 2)
    shared = cost.between_hosts(rates, sizes, np.array([0, 0]), np.array([1, 1]), 2)
    each = (50**-4 + 10**-4) ** -0.25  # just below 10 flushes/s
    assert alone.sum() == pytest.approx(2 * 100 * each)
    assert shared.sum() == pytest.approx(100 * 10)  # once a flush, however many channels
    assert alone.diagonal().tolist() == [0, 0]


def test_the_fluid_model_and_the_fitted_one_are_the_same() -> None:
    model = FlinkModel((120.0, 300.0, 20.0, 1.01))
    flows = at_rate(FLOWS, 40)
    run = FluidHosts(flows, 2, HostLimits(mbit_per_s=1e9, cores=1e6), model.hop_cost).run(FIRST_HOP_REMOTE)
    assert run.bytes_per_tuple == pytest.approx(model.predicted(work(FIRST_HOP_REMOTE, 40, 400), 2))


def test_timely_tells_every_other_worker_of_every_message() -> None:
    assert TimelyModel().own_terms(work(ALL_LOCAL, 100, 1000), 2) == (0, 0)
    # One batch a second; in each both lines send one message, and two workers tell one other.
    assert TimelyModel().own_terms(work(FIRST_HOP_REMOTE, 100, 1000), 2) == pytest.approx((2 * 2 * 1, 2))


def test_coefficients_are_found_again() -> None:
    true = FlinkModel((120.0, 300.0, 20.0, 1.01))
    rows, values = [], []
    for rate, size in ((100, 16), (100, 3072), (5, 16), (30, 16), (1000, 100)):
        flows = task_flows(payload(2, depth=2, tuple_bytes=size))
        run = TaskWork.of(flows, FIRST_HOP_REMOTE, rate, 10 * rate)
        rows.append(true.terms(run, 2))
        values.append(true.predicted(run, 2))
    assert FlinkModel().fitted(rows, values).coefficients == pytest.approx(true.coefficients, rel=1e-6)


def test_rates_leave_the_machine_idle_for_a_good_part() -> None:
    scale = RealPlacementStudy(rate=1500, hops_per_s=20_000, bytes_per_s=16e6)
    assert rate_for(task_flows(payload(1, depth=7, tuple_bytes=16)), scale) == 1500
    # 4 spouts and 7 hops each: 28 hops per tuple of each spout.
    assert rate_for(task_flows(payload(4, depth=7, tuple_bytes=16)), scale) == pytest.approx(20_000 / 28)
    assert rate_for(task_flows(payload(4, depth=7)), scale) == pytest.approx(16e6 / (28 * 3072))


def test_order_of_schedulers_is_that_of_those_that_differ() -> None:
    assert same_order({"a": 0.0, "b": 0.1, "c": 500.0}, {"a": 0.0, "b": 0.0, "c": 480.0})
    assert same_order({"a": -1.2, "b": 9.9, "c": 500.0}, {"a": 0.0, "b": 0.0, "c": 480.0})
    assert not same_order({"a": 0.0, "b": 10.1, "c": 500.0}, {"a": 0.0, "b": 0.0, "c": 480.0})
    assert not same_order({"a": 100.0, "b": 200.0}, {"a": 250.0, "b": 240.0})
