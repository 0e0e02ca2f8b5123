"""``TimelyEngine``: jobs on Timely Dataflow, which bytewax embeds, each in a child process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from streamtune.clock import Clock, SystemClock
from streamtune.dataflow import Job, Observation, Plan
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import Capabilities, Deployment, Engine, JobCrashedError, MeasurementWindow, NotReady
from streamtune.engines.timely.latency import EpochLatencies, epoch_latencies
from streamtune.engines.timely.metrics import ENGINE, Snapshot, observation_of
from streamtune.engines.timely.order import Order
from streamtune.engines.timely.placement import Placement
from streamtune.engines.timely.process import WorkerDiedError, WorkerProcess
from streamtune.engines.timely.records import SECOND_US
from streamtune.engines.timely.settings import TimelySettings
from streamtune.errors import EngineError


@dataclass
class _Running:
    spec: JobSpec
    plan: Plan
    rates: dict[str, float]
    process: WorkerProcess
    last_good: Plan
    changed_s: float
    crashes: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    latencies: EpochLatencies = field(default_factory=lambda: EpochLatencies((), ()))


class TimelyEngine(Engine):
    """Runs jobs whose physics it was given, by job name; that physics is visible to nothing else.

    A rescale is a stop and a start: state and records in flight are given up, as sources are generators here. An engine
    is a context manager; leaving it ends all its jobs.

    >>> from streamtune.workloads import load
    >>> with TimelyEngine.of(load("nexmark-q1").spec) as engine:
    ...     engine.capabilities.reports_backpressure, engine.capabilities.drives_sources
    (False, True)
    """

    def __init__(
        self, specs: Mapping[str, JobSpec], settings: TimelySettings | None = None, *, clock: Clock | None = None
    ) -> None:
        self._specs = specs
        self._settings = settings or TimelySettings()
        self._clock = clock or SystemClock()
        self._running: dict[str, _Running] = {}
        self._deployed = 0

    @classmethod
    def of(cls, *specs: JobSpec, settings: TimelySettings | None = None) -> TimelyEngine:
        """An engine that knows the physics of the given specs."""
        return cls({spec.job.name: spec for spec in specs}, settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all jobs."""
        for running in self._running.values():
            running.process.stop()
        self._running.clear()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name=ENGINE,
            reports_backpressure=False,
            live_rescale=False,
            drives_sources=True,
            max_parallelism=self._settings.max_workers,
        )

    def deploy(self, job: Job, plan: Plan) -> Deployment:
        spec = self._specs.get(job.name)
        if spec is None or not spec.physics:
            raise EngineError(
                f"job '{job.name}' has no physics: the Timely engine needs it to emulate a job; add it to the spec"
            )
        missing = [key for key in job.dataflow.index if key not in spec.physics]
        if missing:
            raise EngineError(f"job '{job.name}' has no physics for operator '{missing[0]}': add it to the spec")
        job.check_plan(plan)
        self._deployed += 1
        deployment = Deployment(f"{job.name}-{self._deployed}", job, plan)
        rates = dict(job.source_rates)
        process = self._start(spec, plan, rates)
        self._running[deployment.id] = _Running(spec, plan, rates, process, plan, time.monotonic())
        return deployment

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        running = self._find(deployment)
        deployment.job.check_plan(plan)
        Placement.of(deployment.job.dataflow, plan, self._settings.max_workers)  # refused before anything stops
        running.process.stop()
        try:
            self._restart(running, plan)
        except WorkerDiedError as death:
            raise self._recover(deployment, running, death) from death
        return replace(deployment, plan=plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation | NotReady:
        running = self._find(deployment)
        try:
            self._wait(running, running.changed_s + window.settle_s)
            samples = self._sample(running, window.length_s)
        except WorkerDiedError as death:
            raise self._recover(deployment, running, death) from death
        start_us, end_us = samples[0].now_us, samples[-1].now_us
        epoch_us = round(self._settings.epoch_s * SECOND_US)
        running.latencies = epoch_latencies(running.epochs, start_us, end_us, epoch_us)
        seen = observation_of(
            deployment.job,
            running.plan,
            running.rates,
            samples,
            running.latencies,
            self._clock.now(),
            self._settings.labels,
        )
        if not seen.throughput_per_s and any(running.rates.values()):
            return NotReady("no record has left the sources yet", retry_after_s=1.0)
        running.last_good, running.crashes = running.plan, 0
        return seen

    def set_source_rates(self, deployment: Deployment, rates: Mapping[str, float]) -> None:
        running = self._find(deployment)
        deployment.job.check_rates(rates)
        running.rates = dict(rates)
        try:
            running.process.ask("rates", rates=running.rates)
        except WorkerDiedError as death:
            raise self._recover(deployment, running, death) from death
        running.changed_s = time.monotonic()

    def stop(self, deployment: Deployment) -> None:
        self._find(deployment).process.stop()
        del self._running[deployment.id]

    def epoch_latencies(self, deployment: Deployment) -> EpochLatencies:
        """The per-epoch latencies of the window that was observed last."""
        return self._find(deployment).latencies

    def placement(self, deployment: Deployment) -> Placement:
        """Which worker runs what, and who shares one."""
        running = self._find(deployment)
        return Placement.of(deployment.job.dataflow, running.plan, self._settings.max_workers)

    def pid(self, deployment: Deployment) -> int:
        """The process that runs a job."""
        return self._find(deployment).process.pid

    def _find(self, deployment: Deployment) -> _Running:
        try:
            return self._running[deployment.id]
        except KeyError:
            known = ", ".join(self._running) or "none"
            raise EngineError(f"no running deployment '{deployment.id}': running are {known}") from None

    def _start(self, spec: JobSpec, plan: Plan, rates: Mapping[str, float]) -> WorkerProcess:
        Placement.of(spec.job.dataflow, plan, self._settings.max_workers)
        process = WorkerProcess(Order(spec, plan, rates, self._settings))
        try:
            process.wait_until_up(self._settings.start_timeout_s)
        except BaseException:
            process.stop()
            raise
        return process

    def _restart(self, running: _Running, plan: Plan) -> None:
        running.process = self._start(running.spec, plan, running.rates)
        running.plan, running.changed_s = plan, time.monotonic()
        running.epochs = []

    def _recover(self, deployment: Deployment, running: _Running, death: WorkerDiedError) -> EngineError:
        """Start a dead job again on its last good plan; returns the error that tells the caller what runs now."""
        running.process.stop()
        running.crashes += 1
        if running.crashes <= self._settings.restarts:
            try:
                self._restart(running, running.last_good)
            except WorkerDiedError as again:
                death = again
            else:
                return JobCrashedError(
                    f"{death}. '{deployment.id}' runs again on its last good plan {dict(running.last_good)}",
                    replace(deployment, plan=running.last_good),
                )
        running.process.stop()
        del self._running[deployment.id]
        return EngineError(
            f"{death}. '{deployment.id}' was started again {min(running.crashes, self._settings.restarts)} times and "
            f"is stopped now: its last good plan was {dict(running.last_good)}"
        )

    def _wait(self, running: _Running, until_s: float) -> None:
        """Wait, but notice a crash immediately."""
        while (left_s := until_s - time.monotonic()) > 0:
            self._clock.sleep(min(left_s, self._settings.sample_s))
            self._look(running)

    def _sample(self, running: _Running, length_s: float) -> list[Snapshot]:
        samples = [self._look(running)]
        end_s = time.monotonic() + length_s
        while (left_s := end_s - time.monotonic()) > 0:
            self._clock.sleep(min(left_s, self._settings.sample_s))
            samples.append(self._look(running))
        return samples

    def _look(self, running: _Running) -> Snapshot:
        snapshot = Snapshot.model_validate(running.process.ask("snapshot", epochs_from=len(running.epochs)))
        running.epochs += snapshot.epochs
        return snapshot


def run_to_the_end(
    spec: JobSpec,
    plan: Plan,
    records: int,
    settings: TimelySettings | None = None,
    *,
    timeout_s: float = 60.0,
    inspect: Callable[[WorkerProcess], None] | None = None,
) -> list[tuple[int, int, int]]:
    """Run a job over the first ``records`` records of every source and return all that reached its sinks.

    A result is (identity, event time in µs, value). Results do not depend on the plan, but for running aggregates and
    count windows, which follow the order of arrival.
    """
    settings = settings or TimelySettings()
    spec.job.check_plan(plan)
    process = WorkerProcess(Order(spec, plan, spec.job.source_rates, settings, records, keep_results=True))
    try:
        process.wait_until_up(settings.start_timeout_s)
        if inspect is not None:
            inspect(process)
        deadline_s = time.monotonic() + timeout_s
        while not process.ask("snapshot", epochs_from=0)["is_finished"]:
            if time.monotonic() > deadline_s:
                raise EngineError(f"'{spec.job.name}' did not finish within {timeout_s:g} s: give it longer")
            time.sleep(0.1)
        return [(ident, time_us, value) for ident, time_us, value in process.ask("results")["results"]]
    finally:
        process.stop()
