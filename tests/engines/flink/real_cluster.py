"""Scenarios on a real cluster, side by side: they mostly wait, so together they take little longer than the longest."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from streamtune.dataflow import Observation, Plan
from streamtune.dataflow.spec import JobSpec, parse_spec
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings
from streamtune.engines.flink.settings import RescaleSettings
from streamtune.labs.flink import FlinkDistribution, LocalCluster, Submitter, WorkloadSettings

WINDOW = MeasurementWindow(settle_s=5.0, length_s=6.0)
# A busy machine takes its time; nothing below depends on how much.
PATIENCE_S = 150.0


@dataclass(frozen=True)
class Site:
    """What a scenario needs to know about its cluster."""

    cluster: LocalCluster
    distribution: FlinkDistribution
    folder: Path

    def engine(self, *specs: JobSpec, mode: str = "auto", **workload: Any) -> FlinkEngine:
        """An engine of its own, with a client of its own."""
        client = FlinkClient(self.cluster.url, timeout_s=30.0)
        submitter = Submitter(
            client,
            *specs,
            folder=self.folder,
            distribution=self.distribution,
            settings=WorkloadSettings.model_validate({"checkpoint_s": 2.0, **workload}),
        )
        rescale = RescaleSettings.model_validate({"mode": mode, "timeout_s": PATIENCE_S})
        settings = FlinkSettings(start_timeout_s=PATIENCE_S, fetch_patience_s=PATIENCE_S / 3, rescale=rescale)
        return FlinkEngine(client, submitter=submitter, settings=settings)


Scenario = Callable[[Site], None]


class SideBySide:
    """Runs scenarios in threads on one cluster; ``wait`` gives a scenario's verdict to its test.

    A verdict is given once: a test that is tried again runs its scenario anew, by itself.
    """

    def __init__(self, site: Site, scenarios: dict[str, Scenario]) -> None:
        self.site = site
        self._scenarios = scenarios
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(scenarios)))
        self._running: dict[str, Future[None]] = {}
        for name, scenario in scenarios.items():
            self._running[name] = self._pool.submit(scenario, site)
            time.sleep(0.3)  # submissions compile a job graph each: not all in the same moment

    def wait(self, name: str) -> None:
        running = self._running.pop(name, None)
        if running is not None:
            running.result(timeout=330)
        else:
            self._scenarios[name](self.site)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def chain(name: str, *, rate: float = 400.0, work_us: float = 10_000.0, max_parallelism: int = 20) -> JobSpec:
    """source → work → sink; ``work`` needs rate · work_us / 10⁶ instances."""
    return parse_spec(
        {
            "name": name,
            "max_parallelism": max_parallelism,
            "operators": [
                {"id": "source", "type": "source", "rate": rate},
                {"id": "work", "type": "map", "inputs": ["source"]},
                {"id": "sink", "type": "sink", "inputs": ["work"]},
            ],
            "physics": {
                "source": {"service_us": 50},
                "work": {"service_us": work_us},
                "sink": {"service_us": 50},
            },
        }
    )


def plan_of(work: int, source: int = 1, sink: int = 1) -> Plan:
    return Plan({"source": source, "work": work, "sink": sink})


def observe(engine: FlinkEngine, deployment: Deployment, window: MeasurementWindow = WINDOW) -> Observation:
    """The next usable observation."""
    deadline = time.monotonic() + PATIENCE_S
    reasons = []
    while time.monotonic() < deadline:
        seen = engine.observe(deployment, window)
        if isinstance(seen, Observation):
            return seen
        reasons.append(seen.reason)
        time.sleep(1.0)
    raise AssertionError(f"never ready: {reasons[-3:]}")


def sink_sums(engine: FlinkEngine, deployment: Deployment) -> tuple[float, float, float]:
    """Records, ids and squares of ids that the sink has seen, over all its incarnations."""
    job_id = engine.job_id(deployment)
    details = engine.client.job(job_id)
    sink = next(vertex.id for vertex in details.vertices if vertex.name.startswith("Sink: "))
    names = [f"Sink__sink.{name}" for name in ("seenRecords", "seenIds", "seenIdSquares")]
    found = engine.client.vertex_metrics(job_id, sink, names, "sum")
    nan = float("nan")
    count, ids, squares = (found[name].total if name in found else nan for name in names)
    return count, ids, squares


def wait_for(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S, every_s: float = 0.5) -> None:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(every_s)
    raise AssertionError(f"{what} did not happen within {patience_s:g} s")
