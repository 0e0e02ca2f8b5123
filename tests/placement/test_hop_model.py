"""What a run on real hosts should send: frames, messages, tuples and bytes counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from streamtune.experiments.placement.flows import task_flows
from streamtune.experiments.placement.hop_model import FlinkModel, TimelyModel
from streamtune.experiments.placement.real_hosts import RealPlacementStudy, rate_for
from streamtune.labs.hosts.work import TaskWork
from streamtune.workloads.placement_topologies import payload

FLOWS = task_flows(payload(2, depth=2, tuple_bytes=100))  # spout-0 spout-1 metrics-0 bolt1-0 bolt1-1 bolt2-0 bolt2-1
FIRST_HOP_REMOTE = np.array([0, 1, 0, 1, 0, 1, 0])
ALL_LOCAL = np.array([0, 1, 0, 0, 1, 0, 1])


def work(part: np.ndarray, rate: float, count: int) -> TaskWork:  # type: ignore[type-arg]
    return TaskWork.of(FLOWS, part, rate, count)


def test_flink_sends_a_buffer_when_it_is_full_or_old() -> None:
    # Two lines with one remote hop: 1,000 tuples of 100 bytes in 10 s: 100 flushes and 100,000 / 8,192 buffers.
    frames, messages = FlinkModel().counts(work(FIRST_HOP_REMOTE, 100, 1000), 2)
    assert frames == 0
    assert messages == pytest.approx(2 * (100 + 100_000 / 8192))
    # Slower than a tuple per flush, every tuple is a buffer of its own.
    _, slow = FlinkModel().counts(work(FIRST_HOP_REMOTE, 1, 10), 2)
    assert slow == pytest.approx(2 * (10 + 1000 / 8192))
    assert FlinkModel().counts(work(ALL_LOCAL, 100, 1000), 2) == (0, 0)


def test_timely_tells_every_other_worker_of_every_message() -> None:
    assert TimelyModel().counts(work(ALL_LOCAL, 100, 1000), 2) == (0, 0)
    # 10 s are 10 batches; in each both lines send one message, and two workers tell one other.
    assert TimelyModel().counts(work(FIRST_HOP_REMOTE, 100, 1000), 2) == (pytest.approx(10 * 2 * 2 * 1), 0)


def test_coefficients_are_found_again() -> None:
    true = FlinkModel(message=300.0, overhead=20.0, factor=1.01)
    rows, values = [], []
    for part, rate, size in ((FIRST_HOP_REMOTE, 100, 16), (FIRST_HOP_REMOTE, 100, 3072), (FIRST_HOP_REMOTE, 5, 16)):
        flows = task_flows(payload(2, depth=2, tuple_bytes=size))
        short, long = (TaskWork.of(flows, part, rate, count) for count in (500, 1500))
        rows.append(true.features(short, long, 2))
        values.append(true.predicted(short, long, 2))
    found = FlinkModel().fitted(np.array(rows), np.array(values))
    assert (found.message, found.overhead, found.factor) == pytest.approx((300.0, 20.0, 1.01), rel=1e-6)


def test_large_tuples_come_more_slowly() -> None:
    scale = RealPlacementStudy(rate=1500, spout_bytes_per_s=1.5e6)
    assert rate_for(task_flows(payload(4, depth=7, tuple_bytes=16)), scale) == 1500
    # 7 hops of 3,072 bytes are 21.5 kB a tuple.
    assert rate_for(task_flows(payload(4, depth=7)), scale) == pytest.approx(1.5e6 / (7 * 3072))
