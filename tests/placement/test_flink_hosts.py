"""A real Flink over hosts: slot sharing groups put every task where the assignment says. The bytes prove it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from streamtune.experiments.placement.flows import task_flows
from streamtune.labs.hosts import HostNetwork, HostsUnavailableError, guard
from streamtune.labs.hosts.flink import FlinkOnHosts
from streamtune.labs.hosts.network import check_allowed
from streamtune.labs.hosts.work import TaskWork
from streamtune.workloads.placement_topologies import payload


def _allowed() -> bool:
    try:
        check_allowed()
    except HostsUnavailableError:
        return False
    return shutil.which("javac") is not None


@pytest.mark.realtime
@pytest.mark.slow
@pytest.mark.flaky(reruns=2)
@pytest.mark.skipif(not _allowed(), reason="needs network namespaces and a JDK")
def test_flink_runs_tasks_where_they_are_placed() -> None:
    flows = task_flows(payload(2, depth=1, tuple_bytes=2000))  # spout-0 spout-1 metrics-0 bolt1-0 bolt1-1
    with HostNetwork(2, mbit_per_s=1000) as network:
        with FlinkOnHosts(network) as flink:
            sent = {}
            for name, part in (("together", [0, 1, 0, 0, 1]), ("apart", [0, 1, 0, 1, 0])):
                work = TaskWork.of(flows, np.array(part), rate=800, count=2400)
                sent[name] = flink.run(work, timeout_s=120).sent_bytes
        # 4,800 tuples of 2,000 bytes cross the network, and a few per cent of headers; together none does.
        assert sent["apart"] - sent["together"] == pytest.approx(4800 * 2000 * 1.04, rel=0.05)
        assert sent["together"] < 2_000_000  # the job itself, heartbeats
        assert guard.namespaces(network.prefix)
    assert not guard.namespaces(network.prefix)
