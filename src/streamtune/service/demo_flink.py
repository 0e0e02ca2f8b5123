"""The demo on a real Flink: a local cluster with three emulated jobs whose rates rise and fall."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, RescaleSettings
from streamtune.errors import StreamTuneError
from streamtune.labs.flink import ClusterSettings, FlinkDistribution, LocalCluster, Submitter, WorkloadSettings
from streamtune.labs.flink.cluster import free_port
from streamtune.labs.flink.scaling import scale_workload
from streamtune.service.demo import demo_learning
from streamtune.service.settings import Policy, ServiceSettings
from streamtune.workloads import Workload, load

log = logging.getLogger("streamtune.service")

# At ten times their unit no operator gets more records/s, and none needs more instances: two cores can emulate that.
_MAX_RATE_PER_S = 400.0
_MAX_NEED = 10
_LIMIT = 16
_PATIENCE_S = 120.0
JOBS = ("nexmark-q1", "nexmark-q2", "pqp-linear-0")
MULTIPLES = (2.0, 6.0, 9.0, 4.0)


def flink_demo_settings() -> ServiceSettings:
    """One job is tuned by itself, one asks before, one is only told about."""
    return ServiceSettings(
        policies=(
            Policy(pattern="nexmark-q1", mode="auto", max_per_hour=30, max_per_day=300, rate_change=0.2),
            Policy(pattern="nexmark-q2", mode="approve", max_per_hour=30, max_per_day=300, rate_change=0.2),
            Policy(pattern="*", mode="recommend", rate_change=0.2),
        ),
        window_s=20.0,
        settle_s=15.0,
        discover_s=10.0,
        learn=demo_learning(min_runs=30),
    )


def flink_demo_window() -> MeasurementWindow:
    settings = flink_demo_settings()
    return MeasurementWindow(settings.settle_s, settings.window_s)


@dataclass(frozen=True)
class FlinkDemo:
    """The running cluster, and how to change what its jobs are offered."""

    url: str
    engine: FlinkEngine
    deployments: Mapping[str, Deployment]
    workloads: Mapping[str, Workload]

    def offer(self, name: str, multiple: float) -> None:
        """Let the sources of a job offer a multiple of their unit."""
        self.engine.set_source_rates(self.deployments[name], self.workloads[name].rates_at(multiple))


@contextmanager
def flink_demo(folder: Path, jobs: tuple[str, ...] = JOBS, *, change_s: float = 150.0) -> Iterator[FlinkDemo]:
    """A local Flink with jobs; gone with the block. Every ``change_s`` their rates move; 0: the caller moves them."""
    settings = ClusterSettings(
        port=free_port(), slots=len(jobs) * _LIMIT, task_heap_mb=512, network_mb=256, start_timeout_s=_PATIENCE_S
    )
    workloads = {
        name: scale_workload(load(name), max_rate_per_s=_MAX_RATE_PER_S, max_need=_MAX_NEED, limit=_LIMIT)
        for name in jobs
    }
    with (
        LocalCluster.temporary(settings, FlinkDistribution.find()) as cluster,
        FlinkClient(cluster.url, timeout_s=30.0) as client,
    ):
        specs = [workload.spec for workload in workloads.values()]
        submitter = Submitter(client, *specs, folder=folder / "rates", settings=WorkloadSettings(checkpoint_s=3.0))
        rescale = RescaleSettings(timeout_s=_PATIENCE_S)
        engine = FlinkEngine(
            client, submitter=submitter, settings=FlinkSettings(start_timeout_s=_PATIENCE_S, rescale=rescale)
        )
        deployments = {}
        for spec in specs:
            log.info("submitting", extra={"job": spec.job.name})
            deployments[spec.job.name] = engine.deploy(spec.job, spec.job.initial_plan)
        demo = FlinkDemo(cluster.url, engine, deployments, workloads)
        over = threading.Event()
        mover = threading.Thread(target=_move_rates, args=(demo, change_s, over), daemon=True)
        if change_s:
            mover.start()
        try:
            yield demo
        finally:
            over.set()
            if change_s:
                mover.join(10.0)


def _move_rates(demo: FlinkDemo, change_s: float, over: threading.Event) -> None:
    for turn in itertools.count():
        for place, name in enumerate(demo.deployments):
            try:
                demo.offer(name, MULTIPLES[(turn + place) % len(MULTIPLES)])
            except StreamTuneError as error:
                log.warning("rates could not be changed", extra={"job": name, "error": str(error)})
        if over.wait(change_s):
            return
