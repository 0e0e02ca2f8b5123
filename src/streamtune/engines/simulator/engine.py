"""``Simulator``: the embedded default engine, on simulated time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from streamtune.dataflow import Job, Observation, Plan
from streamtune.dataflow.hosts import Cluster
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.plan import PlanPart
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import (
    PARALLELISM_ALONE,
    Capabilities,
    Deployment,
    Engine,
    MeasurementWindow,
    ObservedPart,
)
from streamtune.engines.simulator.metrics import observation_of, traffic_between_hosts
from streamtune.engines.simulator.model import Floats, Simulation
from streamtune.engines.simulator.settings import SimulatorSettings
from streamtune.errors import EngineError


@dataclass
class _Running:
    simulation: Simulation
    random: np.random.Generator
    changed_s: float


class Simulator(Engine):
    """Runs jobs whose physics it was given, by job name; that physics is visible to nothing else.

    Time passes only inside ``observe``, and in the downtime of deployments. Without a ``cluster`` every instance has a
    core of its own, or the cores and memory that the plan's ``resources`` give it, mixed sizes included; with one,
    hosts, links and chaining matter (see ``hosts``).

    >>> from streamtune.workloads import load
    >>> spec = load("nexmark-q1").spec
    >>> engine = Simulator.of(spec)
    >>> deployment = engine.deploy(spec.job, Plan(dict.fromkeys(spec.job.dataflow.index, 1)))
    >>> engine.observe(deployment, MeasurementWindow()).has_backpressure
    True
    >>> deployment = engine.rescale(deployment, Plan(dict.fromkeys(spec.job.dataflow.index, 60)))
    >>> engine.observe(deployment, MeasurementWindow()).has_backpressure
    False
    """

    def __init__(
        self,
        physics: Mapping[str, Mapping[str, OperatorPhysics]],
        settings: SimulatorSettings | None = None,
        *,
        seed: int = 0,
        cluster: Cluster | None = None,
    ) -> None:
        self._physics = physics
        self._cluster = cluster
        self._settings = settings or SimulatorSettings()
        self._seed = seed
        self._running: dict[str, _Running] = {}
        self._deployed = 0

    @classmethod
    def of(
        cls,
        *specs: JobSpec,
        settings: SimulatorSettings | None = None,
        seed: int = 0,
        cluster: Cluster | None = None,
    ) -> Simulator:
        """A simulator that knows the physics of the given specs."""
        return cls({spec.job.name: spec.physics or {} for spec in specs}, settings, seed=seed, cluster=cluster)

    @property
    def capabilities(self) -> Capabilities:
        """Sizes can be applied always, a placement where there are hosts to place instances on."""
        on_hosts = self._cluster is not None
        parts: frozenset[PlanPart] = PARALLELISM_ALONE | {"resources"}
        parts = parts | {"placement"} if on_hosts else parts
        observes: frozenset[ObservedPart] = frozenset({"instance_pairs", "hosts"}) if on_hosts else frozenset()
        return Capabilities(
            name="simulator",
            reports_backpressure=True,
            live_rescale=False,
            drives_sources=True,
            applies=parts,
            observes=observes,
        )

    def deploy(self, job: Job, plan: Plan) -> Deployment:
        physics = self._physics.get(job.name)
        if not physics:
            raise EngineError(
                f"job '{job.name}' has no physics: the simulator needs it to run a job; add it to the spec"
            )
        job.check_plan(plan)
        self.capabilities.check(plan)
        self._deployed += 1
        deployment = Deployment(f"{job.name}-{self._deployed}", job, plan)
        seeds = np.random.SeedSequence([self._seed, self._deployed]).generate_state(2)
        simulation = Simulation(job, physics, plan, self._settings, seed=int(seeds[0]), cluster=self._cluster)
        simulation.start(self._settings.startup_s)
        self._running[deployment.id] = _Running(simulation, np.random.default_rng(int(seeds[1])), 0.0)
        return deployment

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        running = self._find(deployment)
        deployment.job.check_plan(plan)
        self.capabilities.check(plan)
        if self._cluster is not None:
            self._cluster.check_plan(plan)
        running.simulation.rescale(plan, self._settings.restart_s)
        running.changed_s = running.simulation.now_s
        return replace(deployment, plan=plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation:
        running = self._find(deployment)
        simulation = running.simulation
        simulation.advance(max(0.0, running.changed_s + window.settle_s - simulation.now_s))
        simulation.reset_totals()
        simulation.advance(window.length_s)
        return observation_of(simulation, running.random)

    def traffic(self, deployment: Deployment) -> Floats:
        """hosts × hosts: bytes/s on the wire in the last window, under a plan with a placement."""
        return traffic_between_hosts(self._find(deployment).simulation)

    def set_source_rates(self, deployment: Deployment, rates: Mapping[str, float]) -> None:
        running = self._find(deployment)
        running.simulation.set_rates(rates)
        running.changed_s = running.simulation.now_s

    def stop(self, deployment: Deployment) -> None:
        self._find(deployment)
        del self._running[deployment.id]

    def _find(self, deployment: Deployment) -> _Running:
        try:
            return self._running[deployment.id]
        except KeyError:
            known = ", ".join(self._running) or "none"
            raise EngineError(f"no running deployment '{deployment.id}': running are {known}") from None


def simulate_once(
    job: Job,
    physics: Mapping[str, OperatorPhysics],
    plan: Plan,
    rates: Mapping[str, float],
    *,
    window: MeasurementWindow | None = None,
    settings: SimulatorSettings | None = None,
    seed: int = 0,
    cluster: Cluster | None = None,
) -> Observation:
    """Deploy, observe once, stop: one history record, in well under a millisecond once compiled."""
    engine = Simulator({job.name: physics}, settings, seed=seed, cluster=cluster)
    deployment = engine.deploy(job, plan)
    engine.set_source_rates(deployment, rates)
    return engine.observe(deployment, window or MeasurementWindow())
