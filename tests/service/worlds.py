"""Small fleets on a clock that is moved by hand, for tests and for the soak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from streamtune.dataflow import Plan
from streamtune.engines.base import MeasurementWindow
from streamtune.service.clocks import HandClock
from streamtune.service.clusters.base import Cluster, job_key
from streamtune.service.clusters.simulated import Pattern, SimulatedCluster, SimulatedJob
from streamtune.service.fleet.context import Context
from streamtune.service.fleet.fleet import Fleet
from streamtune.service.fleet.keeper import Keeper
from streamtune.service.fleet.loop import Loop
from streamtune.service.fleet.tuners import Tuners
from streamtune.service.settings import Policy, ServiceSettings
from streamtune.service.store import Store
from streamtune.service.store.lease_clock import LeaseClock
from streamtune.service.views import Decision
from streamtune.workloads import load

START = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)  # a Monday
WINDOW = MeasurementWindow(60.0, 60.0)


def short_job(name: str = "nexmark-q1", multiple: float = 6.0) -> SimulatedJob:
    """A job that needs more than it has."""
    workload = load(name)
    plan = Plan(
        {
            key: 1 if not op.is_source else 30
            for key, op in zip(workload.spec.job.dataflow.index, workload.spec.job.dataflow.operators, strict=True)
        }
    )
    return SimulatedJob(workload, Pattern(multiple, multiple), plan)


@dataclass
class World:
    """One service on a hand-moved clock, over clusters that outlive it."""

    store: Store
    clock: HandClock
    clusters: Sequence[Cluster]
    settings: ServiceSettings
    holder: str = "serve@test#1"
    poll_s: float = 30.0
    context: Context = field(init=False)
    fleet: Fleet = field(init=False)
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self.store.lease_clock = LeaseClock(self.store.database, steady=self.clock.steady, boot="test")
        self.start()

    def start(self) -> None:
        """A new service, as after a crash: nothing but the store and the clusters is left of the one before."""
        self.loop = Loop(self.clock, "all")
        self.context = Context(self.store, self.clock, self.holder, self.settings, Tuners(self.store))
        self.fleet = Fleet(self.context, self.clusters, one_loop=self.loop, poll_s=self.poll_s)

    def run(self, seconds: float) -> None:
        self.loop.run_until(self.clock.steady() + seconds)

    def keeper(self, name: str) -> Keeper:
        return next(keeper for keeper in self.fleet.keepers() if keeper.state.name == name)

    def decisions(self, name: str, *status: str) -> list[Decision]:
        return self.store.decisions.of_job(self.keeper(name).id, status=status, limit=500)


def make_world(
    folder: Path, jobs: Sequence[SimulatedJob], *policies: Policy, store: Store | None = None, **more: object
) -> World:
    clock = HandClock(START)
    store = store or Store(f"sqlite:///{folder}/service.db")
    cluster = SimulatedCluster("one", jobs, WINDOW, clock)
    return World(store, clock, [cluster], ServiceSettings(policies=policies, **more))


def key_of(name: str, cluster: str = "one") -> str:
    return job_key("simulator", f"simulated://{cluster}", name)
