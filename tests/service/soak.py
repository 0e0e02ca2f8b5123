"""Two services over one fleet, with faults of every kind and kills at random moments; what must never happen is checked
at the moment it would.

A kill is an exception that nothing in the service catches, raised at a random point: before, within or after a
transaction, or at any step of a rescale. Of the killed service nothing is left but the clusters and the store, where
the transaction under way is rolled back, as a database does when its client is gone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from streamtune.clock import Steps
from streamtune.dataflow import Observation, Plan
from streamtune.engines.base import Deployment, MeasurementWindow, NotReady
from streamtune.errors import EngineError
from streamtune.service.clocks import HandClock
from streamtune.service.clusters.base import FoundJob, job_key
from streamtune.service.clusters.simulated import SimulatedCluster, SimulatedEngine, SimulatedJob
from streamtune.service.demo import demo_clusters
from streamtune.service.errors import StoreError
from streamtune.service.fleet.context import Context
from streamtune.service.fleet.fleet import Fleet
from streamtune.service.fleet.loop import Loop
from streamtune.service.fleet.tuners import Tuners
from streamtune.service.settings import MaintenanceWindow, Policy, ServiceSettings
from streamtune.service.store import Store
from streamtune.service.store.lease_clock import LeaseClock

START = datetime(2026, 3, 2, tzinfo=UTC)


class Killed(BaseException):
    """The end of a service, at any moment."""


@dataclass
class Chaos:
    """What goes wrong, and when; one seed, one story."""

    random: random.Random
    clock: HandClock
    kill_in: int | None = None
    disk_full_until: float = 0.0
    away_until: dict[str, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def point(self) -> None:
        """A moment at which a service may die."""
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in <= 0:
                self.kill_in = None
                raise Killed

    @property
    def disk_is_full(self) -> bool:
        return self.clock.steady() < self.disk_full_until


class ChaoticStore(Store):
    """A store whose disk can be full, and within whose transactions a service can die."""

    def __init__(self, url: str, chaos: Chaos) -> None:
        super().__init__(url)
        read, write = self.database.read, self.database.write

        @contextmanager
        def dying_read() -> Iterator[Connection]:
            chaos.point()
            with read() as connection:
                yield connection

        @contextmanager
        def dying_write() -> Iterator[Connection]:
            chaos.point()
            with write() as connection:
                yield connection
                chaos.point()  # all was said, nothing is committed
                if chaos.disk_is_full:
                    chaos.counts["writes on a full disk"] += 1
                    raise StoreError("the store cannot be used: database or disk is full")
            chaos.point()  # committed, and nobody knows

        self.database.read = dying_read  # type: ignore[method-assign]
        self.database.write = dying_write  # type: ignore[method-assign]


@dataclass(frozen=True)
class Rescale:
    """One change that an engine was asked for."""

    job: str
    by: str
    decision: str
    wall: datetime
    began: float
    ended: list[float]


class ChaoticEngine(SimulatedEngine):
    """An engine that is away, answers nonsense, and lets the inspector look at every rescale before it happens."""

    chaos: Chaos
    inspector: Inspector
    service: str = ""
    cluster: str = ""

    def observing(self, deployment: Deployment, window: MeasurementWindow) -> Steps[Observation | NotReady]:
        found = yield from super().observing(deployment, window)
        if self.chaos.clock.steady() < self.chaos.away_until.get(self.cluster, 0.0):
            raise EngineError("connection refused")
        if self.chaos.random.random() < 0.002:
            self.chaos.counts["garbage"] += 1
            kind = self.chaos.random.randrange(3)
            if kind == 0:
                raise EngineError("expected JSON, but got <html>")
            if kind == 1 or isinstance(found, NotReady):
                return NotReady("no metrics")
            some = dict(list(found.operators.items())[:-1])
            return found.model_copy(update={"operators": some})
        return found

    def rescaling(self, deployment: Deployment, plan: Plan) -> Steps[Deployment]:
        seen = self.inspector.before(self.service, self.cluster, deployment, plan)
        steps = super().rescaling(deployment, plan)
        try:
            while True:
                self.chaos.point()
                yield next(steps)
                self.chaos.point()
        except StopIteration as done:
            result: Deployment = done.value
            return result
        finally:
            seen.ended.append(self.chaos.clock.steady())


class ChaoticCluster(SimulatedCluster):
    """A cluster as one service sees it; several see the same jobs."""

    def seen_by(self, service: str) -> ChaoticCluster:
        """The same jobs for another service."""
        twin = object.__new__(ChaoticCluster)
        twin.__dict__.update(self.__dict__)
        engine = object.__new__(ChaoticEngine)
        engine.__dict__.update(self._engine.__dict__)
        engine.service = service
        twin._engine = engine
        return twin

    def jobs(self) -> Sequence[FoundJob]:
        chaos = self._engine.chaos  # type: ignore[attr-defined]
        if chaos.clock.steady() < chaos.away_until.get(self.name, 0.0):
            raise EngineError("connection refused")
        return super().jobs()


@dataclass
class Inspector:
    """Knows the laws, and looks at every change by itself: by the store and by the engines, not by the service."""

    store: Store
    settings: ServiceSettings
    clock: HandClock
    clusters: dict[str, ChaoticCluster] = field(default_factory=dict)
    rescales: list[Rescale] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def before(self, service: str, cluster: str, deployment: Deployment, plan: Plan) -> Rescale:
        """A change is about to be made: is it recorded, allowed, new, and by the holder of the lease?"""
        name = deployment.job.name
        job = job_key("simulator", f"simulated://{cluster}", name)
        wall = self.clock.now()
        found = self.store.decisions.of_job(job, status=("applying",), limit=5)
        if len(found) != 1 or found[0].after != dict(plan):
            self.fault(f"{name}: a change without its record ({len(found)} open)")
        decision = found[0].id if found else "none"
        if decision in self.used:
            self.fault(f"{name}: decision {decision} applied twice")
        self.used.add(decision)
        lease = self.store.leases.all(self.store.lease_clock.now()).get(job)
        if lease is None or lease.holder != service:
            self.fault(f"{name}: {service} acts, the lease is {lease}")
        for other in self.rescales:
            if other.job == job and not other.ended and other.by != service:
                self.fault(f"{name}: {service} and {other.by} at the same time")
        self._check_policy(cluster, job, deployment, plan, wall)
        one = Rescale(job, service, decision, wall, self.clock.steady(), [])
        self.rescales.append(one)
        return one

    def _check_policy(self, cluster: str, job: str, deployment: Deployment, plan: Plan, wall: datetime) -> None:
        policy = self.settings.policy_for(cluster, deployment.job.name)
        name = deployment.job.name
        runs = self.clusters[cluster].engine.living[name].simulation.plan
        if policy.mode not in ("auto", "approve"):
            self.fault(f"{name}: changed under mode {policy.mode}")
        shrinks = any(plan[key] < runs[key] for key in plan)
        for window in policy.maintenance:
            if window.covers(wall) and (window.allow == "nothing" or shrinks):
                self.fault(f"{name}: changed in its maintenance window")
        for hours, most in ((1, policy.max_per_hour), (24, policy.max_per_day)):
            since = wall - timedelta(hours=hours)
            recent = [one for one in self.rescales if one.job == job and one.wall > since]
            if len(recent) >= most:
                self.fault(f"{name}: {len(recent) + 1} changes within {hours} h, {most} are allowed")
        for key in plan:
            if deployment.job.dataflow.operator(key).is_source and plan[key] != runs[key]:
                self.fault(f"{name}: the source {key} was changed")
            if policy.max_parallelism is not None and plan[key] > max(policy.max_parallelism, runs[key]):
                self.fault(f"{name}: {key} above its limit")
        if policy.group is not None:
            self._check_budget(policy.group, name, plan, runs)

    def _check_budget(self, group: str, name: str, plan: Plan, runs: Plan) -> None:
        total = sum(
            living.simulation.plan.total
            for cluster in self.clusters.values()
            for job, living in cluster.engine.living.items()
            if self.settings.policy_for(cluster.name, job).group == group
        )
        if plan.total > runs.total and total - runs.total + plan.total > self.settings.budgets[group]:
            self.fault(f"{name}: the budget of {group} is exceeded")

    def fault(self, text: str) -> None:
        self.faults.append(f"{self.clock.now():%a %H:%M} {text}")


@dataclass
class One:
    """One of the services."""

    holder: str
    store: ChaoticStore
    fleet: Fleet
    loop: Loop


class Soak:
    """The whole story. ``run`` it for some time, then ``report``."""

    def __init__(
        self, folder: Path, *, seed: int = 0, jobs: int | None = None, window_s: float = 60.0, tuner: str = "ds2"
    ) -> None:
        self.clock = HandClock(START)
        self.chaos = Chaos(random.Random(seed), self.clock)
        self._url = f"sqlite:///{folder}/soak.db"
        self.settings = soak_settings(tuner)
        self._watching = Store(self._url)
        self._watching.lease_clock = LeaseClock(self._watching.database, steady=self.clock.steady, boot="soak")
        self.inspector = Inspector(self._watching, self.settings, self.clock)
        window = MeasurementWindow(window_s, window_s)
        for made in demo_clusters(self.clock, window):
            some = [living.job for living in made.engine.living.values()][:jobs]
            self.inspector.clusters[made.name] = self._chaotic(made, some, window)
        self.services = [self._start(f"serve@{name}#1") for name in ("a", "b")]
        self.kills = 0

    def _chaotic(
        self, made: SimulatedCluster, jobs: Sequence[SimulatedJob], window: MeasurementWindow
    ) -> ChaoticCluster:
        cluster = ChaoticCluster(made.name, jobs, window, self.clock)
        engine = ChaoticEngine(jobs, self.clock)
        engine.chaos, engine.inspector, engine.cluster = self.chaos, self.inspector, made.name
        cluster._engine = engine
        return cluster

    def _start(self, holder: str) -> One:
        store = ChaoticStore(self._url, self.chaos)
        store.lease_clock = LeaseClock(store.database, steady=self.clock.steady, boot="soak")
        loop = Loop(self.clock, holder)
        context = Context(store, self.clock, holder, self.settings, Tuners(store))
        clusters = [cluster.seen_by(holder) for cluster in self.inspector.clusters.values()]
        return One(holder, store, Fleet(context, clusters, one_loop=loop, poll_s=60.0), loop)

    def run(self, seconds: float, kills: int, slice_s: float = 30.0) -> None:
        """Let both services live in turns, and let things go wrong meanwhile."""
        end = self.clock.steady() + seconds
        every = seconds / (kills + 1) if kills else seconds * 2
        next_kill = self.clock.steady() + every * self.chaos.random.uniform(0.5, 1.5)
        while self.clock.steady() < end:
            self._misfortune(slice_s)
            if self.clock.steady() >= next_kill and self.kills < kills:
                self.chaos.kill_in = self.chaos.random.randrange(1, 120)
                next_kill += every * self.chaos.random.uniform(0.6, 1.2)
            for place in range(len(self.services)):
                self._live(place, slice_s / len(self.services))

    def _live(self, place: int, seconds: float) -> None:
        one = self.services[place]
        until = self.clock.steady() + seconds
        while True:
            try:
                one.loop.run_until(until)
                return
            except Killed:
                self.kills += 1
                one.store.close()
                for rescale in self.inspector.rescales:
                    if rescale.by == one.holder and not rescale.ended:
                        rescale.ended.append(self.clock.steady())
                self.clock.sleep(self.chaos.random.choice((0.0, 2.0, 90.0)))
                one = self.services[place] = self._restart(one.holder)

    def _restart(self, holder: str) -> One:
        """Started again, as often as it takes: it may be killed while it starts."""
        while True:
            try:
                return self._start(holder)
            except Killed:
                self.kills += 1
            except StoreError:  # a full disk
                self.clock.sleep(10.0)

    def _misfortune(self, slice_s: float) -> None:
        chance, chaos = self.chaos.random.random, self.chaos
        hour = slice_s / 3600
        if chance() < hour / 6:
            name = chaos.random.choice(list(self.inspector.clusters))
            chaos.away_until[name] = self.clock.steady() + chaos.random.uniform(30, 1200)
            chaos.counts["clusters away"] += 1
        if chance() < hour / 12:
            chaos.disk_full_until = self.clock.steady() + chaos.random.uniform(5, 300)
            chaos.counts["disk full"] += 1
        if chance() < hour / 12:
            self.clock.jump(chaos.random.choice((-7200, -600, -30, 30, 600, 7200)))
            chaos.counts["clock jumps"] += 1
        if chance() < hour / 3:
            self._restart_a_job()
            chaos.counts["jobs restarted by others"] += 1
        if chance() < hour * 2:
            self._approve_something()

    def _restart_a_job(self) -> None:
        """Somebody starts a job again, with the plan that it had at first."""
        cluster = self.chaos.random.choice(list(self.inspector.clusters.values()))
        living = self.chaos.random.choice(list(cluster.engine.living.values()))
        plan = living.job.start or living.job.workload.spec.job.initial_plan
        living.simulation.rescale(plan, 10.0)
        living.changed = self.clock.steady()

    def _approve_something(self) -> None:
        opened = [
            (job, one) for job, (one, status) in self._watching.decisions.open_ones().items() if status == "proposed"
        ]
        if opened:
            job, decision = self.chaos.random.choice(opened)
            self._watching.decisions.answer(job, decision, "approved", "alice", self.clock.now())
            self.chaos.counts["approvals"] += 1

    def settle(self) -> None:
        """Some quiet time at the end: what was under way is closed."""
        self.chaos.kill_in, self.chaos.disk_full_until = None, 0.0
        self.chaos.away_until.clear()
        for _ in range(240):
            for place in range(len(self.services)):
                self._live(place, 15.0)

    def report(self) -> dict[str, Any]:
        """Figures, and every law that was broken."""
        faults = list(self.inspector.faults)
        statuses = self._watching.decisions.counts()
        if statuses.get("applying"):
            faults.append(f"{statuses['applying']} decisions were never closed")
        return {
            "simulated_hours": round(self.clock.steady() / 3600, 1),
            "jobs": sum(len(cluster.engine.living) for cluster in self.inspector.clusters.values()),
            "kills": self.kills,
            "rescales": len(self.inspector.rescales),
            "decisions": statuses,
            "misfortunes": dict(self.chaos.counts),
            "faults": faults,
        }


def soak_settings(tuner: str) -> ServiceSettings:
    """Policies of every kind, tight enough to be broken by whoever is careless."""
    night = MaintenanceWindow(start=time(2), end=time(4), allow="nothing")
    evening = MaintenanceWindow(start=time(18), end=time(20), allow="scale_up")
    return ServiceSettings(
        policies=(
            Policy(
                pattern="payments/*", mode="auto", tuner=tuner, maintenance=(night, evening), group="payments",
                max_per_hour=2, max_per_day=10,
            ),
            Policy(pattern="adverts/*", mode="approve", tuner=tuner, max_per_hour=3, max_parallelism=60),
            Policy(pattern="vehicle-*", mode="auto", tuner=tuner, max_per_hour=2),
            Policy(pattern="sensors/*", mode="recommend", tuner=tuner),
        ),
        budgets={"payments": 450},
        lease_s=120.0,
    )  # fmt: skip
