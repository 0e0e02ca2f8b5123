"""Simulated clusters: jobs that live by the clock, with daily patterns and faults, whether anybody looks or not."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from streamtune.clock import Steps, run_steps
from streamtune.dataflow import Job, Observation, Plan
from streamtune.engines.base import (
    Capabilities,
    Deployment,
    Engine,
    MeasurementWindow,
    NotReady,
    RescaleFailedError,
)
from streamtune.engines.simulator import SimulatorSettings
from streamtune.engines.simulator.metrics import observation_of
from streamtune.engines.simulator.model import Simulation
from streamtune.errors import EngineError
from streamtune.service.clocks import ServiceClock
from streamtune.service.clusters.base import Cluster, FoundJob
from streamtune.service.views import JobState
from streamtune.workloads.workload import Workload

# A job that nobody looked at for longer is brought up to date by its last minutes alone.
_CATCH_UP_S = 300.0


@dataclass(frozen=True)
class Pattern:
    """How a job's rate moves over a day: multiples of its unit, and where in the day its peak is."""

    low: float = 2.0
    high: float = 8.0
    peak_hour: float = 14.0
    burst: float = 0.0
    burst_every_s: float = 5400.0

    def multiple(self, moment: datetime) -> float:
        """Smooth over the day, with a burst now and then.

        >>> from datetime import UTC
        >>> Pattern(2, 8, 14).multiple(datetime(2026, 1, 1, 14, tzinfo=UTC))
        8.0
        """
        hours = moment.hour + moment.minute / 60 + moment.second / 3600
        day = (1 + math.cos(2 * math.pi * (hours - self.peak_hour) / 24)) / 2
        level = self.low + (self.high - self.low) * day
        if self.burst and moment.timestamp() % self.burst_every_s < 900:
            level += self.burst
        return level


@dataclass(frozen=True)
class Fault:
    """A time in which a job, or its whole cluster, is away: again and again, at first after ``first_s``."""

    kind: JobState
    every_s: float
    for_s: float
    first_s: float

    def holds(self, age_s: float) -> bool:
        return age_s >= self.first_s and (age_s - self.first_s) % self.every_s < self.for_s


@dataclass(frozen=True)
class SimulatedJob:
    """One job of the fleet."""

    workload: Workload
    pattern: Pattern = Pattern()
    start: Plan | None = None
    faults: tuple[Fault, ...] = ()
    refuses_rescale: bool = False


@dataclass
class _Living:
    job: SimulatedJob
    simulation: Simulation
    random: np.random.Generator
    reached: float
    changed: float = -1e9
    restarts: int = 0
    applied: list[dict[str, int]] = field(default_factory=list)


class SimulatedEngine(Engine):
    """Jobs whose time is the service's clock; rates follow their pattern."""

    def __init__(self, jobs: Sequence[SimulatedJob], clock: ServiceClock, seed: int = 0) -> None:
        self._clock = clock
        self._settings = SimulatorSettings()
        self._began = clock.steady()
        self._lock = threading.Lock()
        self.living = {job.workload.name: self._born(job, number + 1000 * seed) for number, job in enumerate(jobs)}

    def _born(self, job: SimulatedJob, seed: int) -> _Living:
        spec = job.workload.spec
        plan = job.start or spec.job.initial_plan
        simulation = Simulation(spec.job, job.workload.physics, plan, self._settings, seed=seed)
        simulation.start(0.0)
        return _Living(job, simulation, np.random.default_rng(seed), self._clock.steady())

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(name="simulator", reports_backpressure=True, live_rescale=True, drives_sources=True)

    def state(self, name: str) -> JobState:
        """What the faults of a job make of it now."""
        age_s = self._clock.steady() - self._began
        faults = self.living[name].job.faults
        return next((fault.kind for fault in faults if fault.holds(age_s)), "running")

    def deploy(self, job: Job, plan: Plan) -> Deployment:  # noqa: ARG002
        raise EngineError(f"job '{job.name}' cannot be started here: a simulated fleet has the jobs it began with")

    def stop(self, deployment: Deployment) -> None:
        raise EngineError(f"job '{deployment.job.name}' cannot be stopped here: a simulated fleet keeps its jobs")

    def attach(self, name: str) -> Deployment:
        living = self.living[name]
        return Deployment(name, living.job.workload.spec.job, living.simulation.plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation | NotReady:
        return run_steps(self.observing(deployment, window), self._clock)

    def observing(self, deployment: Deployment, window: MeasurementWindow) -> Steps[Observation | NotReady]:
        living = self.living[deployment.id]
        yield max(0.0, living.changed + window.settle_s - self._clock.steady())
        trouble = self._trouble(deployment)
        if trouble is not None:
            return trouble
        with self._lock:
            self._bring_up_to_date(living)
            living.simulation.reset_totals()
        yield window.length_s
        trouble = self._trouble(deployment)
        if trouble is not None:
            return trouble
        with self._lock:
            self._bring_up_to_date(living)
            if not living.simulation.totals.elapsed_s:
                return NotReady("nothing was measured yet", 1.0)
            seen = observation_of(living.simulation, living.random)
        return seen.model_copy(update={"observed_at": self._clock.now()})

    def _trouble(self, deployment: Deployment) -> NotReady | None:
        state = self.state(deployment.id)
        if state == "failed":
            raise EngineError(f"job '{deployment.id}' is FAILED: OutOfMemoryError: Java heap space")
        if state != "running":
            return NotReady(f"the job is {state.upper()}", 20.0)
        if self.living[deployment.id].simulation.plan != deployment.plan:
            return NotReady("the job runs with another plan than ours", 1.0)
        return None

    def _bring_up_to_date(self, living: _Living) -> None:
        now = self._clock.steady()
        multiple = living.job.pattern.multiple(self._clock.now())
        living.simulation.set_rates(living.job.workload.rates_at(multiple))
        living.simulation.advance(min(_CATCH_UP_S, max(0.0, now - living.reached)))
        living.reached = now

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        return run_steps(self.rescaling(deployment, plan), self._clock)

    def rescaling(self, deployment: Deployment, plan: Plan) -> Steps[Deployment]:
        deployment.job.check_plan(plan)
        living = self.living[deployment.id]
        if self.state(deployment.id) != "running":
            raise RescaleFailedError(f"job '{deployment.id}' does not run: nothing was changed", is_running=False)
        if living.job.refuses_rescale:
            yield 10.0
            raise RescaleFailedError(
                "the job could not take its new plan within 120 s (NoResourceAvailableException): it runs on as before",
                is_running=True,
            )
        yield 5.0
        with self._lock:
            self._bring_up_to_date(living)
            living.simulation.rescale(plan, self._settings.restart_s)
            living.changed = self._clock.steady()
            living.restarts += 1
            living.applied.append(dict(plan))
        yield 5.0
        return replace(deployment, plan=plan)

    def set_source_rates(self, deployment: Deployment, rates: Mapping[str, float]) -> None:  # noqa: ARG002
        raise EngineError("the rates of a simulated fleet follow their patterns")


class SimulatedCluster(Cluster):
    """Some jobs of the simulated fleet, and faults of the whole cluster."""

    def __init__(
        self,
        name: str,
        jobs: Sequence[SimulatedJob],
        window: MeasurementWindow,
        clock: ServiceClock,
        *,
        away: Fault | None = None,
        seed: int = 0,
    ) -> None:
        self.name = name
        self.url = f"simulated://{name}"
        self.window = window
        self._engine = SimulatedEngine(jobs, clock, seed)
        self._clock = clock
        self._began = clock.steady()
        self._away = away
        self._calls = 0

    @property
    def engine(self) -> SimulatedEngine:
        return self._engine

    @property
    def calls(self) -> int:
        return self._calls

    def jobs(self) -> Sequence[FoundJob]:
        self._calls += 1
        if self._away is not None and self._away.holds(self._clock.steady() - self._began):
            raise EngineError(f"{self.url} cannot be reached (connection refused): check that the JobManager runs")
        return [FoundJob(name, name, self._engine.state(name)) for name in self._engine.living]

    def attach(self, found: FoundJob) -> Deployment:
        return self._engine.attach(found.id)
