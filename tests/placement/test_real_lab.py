"""Throughput on real hosts is a slope over seconds, not over the time a job takes to start. On a made-up engine."""

from __future__ import annotations

import itertools

import pytest

from streamtune.experiments.placement.flows import task_flows
from streamtune.experiments.placement.journal import Journal
from streamtune.experiments.placement.real_design import RealPlacementStudy
from streamtune.experiments.placement.real_hosts import RealLab
from streamtune.labs.hosts.run import HostRun
from streamtune.labs.hosts.work import TaskWork
from streamtune.placement import Even, Hosts, Problem
from streamtune.workloads.placement_topologies import payload


@pytest.mark.parametrize("speed", [500.0, 40_000.0, 400_000.0])
def test_a_start_that_varies_does_not_count(speed: float) -> None:
    flows = task_flows(payload(2, depth=1))
    part = Even().place(Problem(flows.graph(), Hosts.equal(2))).part
    starts = itertools.cycle([1.3, 0.9, 1.1])  # seconds; the second run may well be over before the first

    def run(work: TaskWork) -> HostRun:
        emitted = sum(count for _, count in work.sources.values())
        return HostRun((), {}, emitted, next(starts) + emitted / speed)

    lab = RealLab("flink", 2, RealPlacementStudy(), Journal(None), lambda _: None)
    found = lab.tuples_per_s(run, flows, part)
    assert found["tuples_per_s"] == pytest.approx(speed, rel=0.25)
    assert found["seconds"] >= 2


def test_what_is_too_fast_to_tell_is_not_a_figure() -> None:
    flows = task_flows(payload(2, depth=1))
    part = Even().place(Problem(flows.graph(), Hosts.equal(2))).part
    lab = RealLab("flink", 2, RealPlacementStudy(), Journal(None), lambda _: None)
    found = lab.tuples_per_s(lambda work: HostRun((), {}, sum(c for _, c in work.sources.values()), 1.0), flows, part)
    assert found["tuples_per_s"] is None
