"""The paper's workloads at the scale of one small machine, and a cluster that runs several of them side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from streamtune.dataflow import Plan
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, RescaleSettings
from streamtune.labs.flink import ClusterSettings, FlinkDistribution, LocalCluster, Submitter, WorkloadSettings
from streamtune.labs.flink.cluster import free_port
from streamtune.labs.flink.scaling import scale_workload
from streamtune.workloads import Workload, load

# At ten times W_u no operator gets more records/s, and none needs more instances.
MAX_RATE_PER_S = 400.0
MAX_NEED = 12
LIMIT = 20
_PATIENCE_S = 120.0


@cache
def small_workload(name: str) -> Workload:
    """A workload of the catalogue with rates and service times of this machine.

    >>> small_workload("nexmark-q1").rates_at(10)
    {'bids': 400.0}
    """
    return scale_workload(load(name), max_rate_per_s=MAX_RATE_PER_S, max_need=MAX_NEED, limit=LIMIT)


def bounded(plan: Plan) -> Plan:
    """A plan that fits the slots one job may have."""
    return Plan({key: min(degree, LIMIT) for key, degree in plan.items()})


@contextmanager
def small_cluster(lanes: int, distribution: FlinkDistribution | None = None) -> Iterator[LocalCluster]:
    """A temporary cluster with room for ``lanes`` jobs; gone with the block."""
    settings = ClusterSettings(
        port=free_port(), slots=lanes * LIMIT, task_heap_mb=512, network_mb=256, start_timeout_s=_PATIENCE_S
    )
    with LocalCluster.temporary(settings, distribution or FlinkDistribution.find()) as cluster:
        yield cluster


@contextmanager
def wide_cluster(slots: int) -> Iterator[LocalCluster]:
    """A temporary cluster for one job with thousands of subtasks, on two cores: whatever only costs time is off.

    Every subtask has a thread that flushes its output ten times a second and one that adapts its buffers five times a
    second, and all are started within what one process waits for another.
    """
    settings = ClusterSettings(
        port=free_port(),
        slots=slots,
        task_heap_mb=max(1536, 40 * slots),
        network_mb=max(2048, 30 * slots),
        rpc_timeout_s=300,
        start_timeout_s=_PATIENCE_S,
        options={
            "taskmanager.network.memory.buffer-debloat.enabled": False,
            "execution.buffer-timeout.interval": "30 s",
            "metrics.latency.interval": 0,
        },
    )
    with LocalCluster.temporary(settings, FlinkDistribution.find()) as cluster:
        yield cluster


@contextmanager
def engine_on(
    url: str,
    folder: Path,
    *specs: JobSpec,
    mode: str = "auto",
    patience_s: float = _PATIENCE_S,
    checkpoint_s: float = 3.0,
    distribution: FlinkDistribution | None = None,
) -> Iterator[FlinkEngine]:
    """An engine that can deploy the given specs on a cluster."""
    with FlinkClient(url, timeout_s=30.0) as client:
        workload = WorkloadSettings(checkpoint_s=checkpoint_s)
        submitter = Submitter(client, *specs, folder=folder, distribution=distribution, settings=workload)
        rescale = RescaleSettings.model_validate({"mode": mode, "timeout_s": patience_s})
        settings = FlinkSettings(start_timeout_s=patience_s, fetch_patience_s=40.0, rescale=rescale)
        yield FlinkEngine(client, submitter=submitter, settings=settings)
