"""Two services over one fleet, with faults of every kind and kills at random moments; what must never happen is checked
at the moment it would.

A kill is an exception that nothing in the service catches, raised at a random point: before, within or after a
transaction, or at any step of a rescale. Of the killed service nothing is left but the clusters and the store, where
the transaction under way is rolled back, as a database does when its client is gone.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event

from service.inspector import Inspector, key_of
from streamtune.clock import Steps
from streamtune.dataflow import Observation, Plan
from streamtune.engines.base import Deployment, MeasurementWindow, NotReady
from streamtune.errors import EngineError
from streamtune.service.clocks import HandClock
from streamtune.service.clusters.base import FoundJob
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
# What is said to be flat has grown by no more than this share from one week to the next.
FLAT = 0.1


def growth(sizes: Sequence[dict[str, float]], name: str, days: float = 7.0) -> float | None:
    """By which share the last days are above the same number of days before them; None where it was shorter.

    The store keeps observations for two weeks: until then it fills.
    """
    end = sizes[-1]["hour"] if sizes else 0.0
    if end < 24 * (14 + 2 * days):
        return None
    last = [one[name] for one in sizes if one["hour"] > end - 24 * days]
    before = [one[name] for one in sizes if end - 48 * days < one["hour"] <= end - 24 * days]
    return (sum(last) / len(last)) / (sum(before) / len(before)) - 1


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
        # A kill of a process loses nothing that is committed, whether it has reached the disk or not.
        event.listen(self.database.engine, "connect", lambda one, _: one.execute("PRAGMA synchronous=OFF"))
        self.database.engine.dispose()
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
class One:
    """One of the services."""

    holder: str
    store: ChaoticStore
    fleet: Fleet
    loop: Loop


class Soak:
    """The whole story. ``run`` it for some time, then ``report``."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int = 0,
        jobs: int | None = None,
        window_s: float = 60.0,
        tuner: str = "ds2",
        evidence: Path | None = None,
    ) -> None:
        self.clock = HandClock(START)
        self.chaos = Chaos(random.Random(seed), self.clock)
        self._folder = folder
        self._url = f"sqlite:///{folder}/soak.db"
        self.settings = soak_settings(tuner)
        self._watching = Store(self._url)
        self._watching.lease_clock = LeaseClock(self._watching.database, steady=self.clock.steady, boot="soak")
        self.inspector = Inspector(self._watching, self.settings, self.clock, evidence or folder / "faults.jsonl")
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

    def run(
        self, seconds: float, kills: int, slice_s: float = 30.0, progress: Callable[[float], None] = lambda _hours: None
    ) -> None:
        """Let both services live in turns, and let things go wrong meanwhile; kills at random moments of the time."""
        begin = self.clock.steady()
        moments = sorted(begin + self.chaos.random.uniform(0, 0.99 * seconds) for _ in range(kills))
        told = begin
        while self.clock.steady() < begin + seconds:
            self._misfortune(slice_s)
            if moments and self.clock.steady() >= moments[0] and self.chaos.kill_in is None:
                del moments[0]
                self.chaos.kill_in = self.chaos.random.randrange(1, 120)
            for place in range(len(self.services)):
                self._live(place, slice_s / len(self.services))
            self._look_at_leases()
            if self.clock.steady() - told >= 6 * 3600:
                told = self.clock.steady()
                progress((told - begin) / 3600)

    def _look_at_leases(self) -> None:
        """Who believes to hold which lease, at one moment."""
        now = self._watching.lease_clock.now()
        believed: dict[str, list[str]] = {}
        for one in self.services:
            for job, lease in one.fleet.context.leases.items():
                if lease.holder == one.holder and lease.until > now:
                    believed.setdefault(job, []).append(one.holder)
        self.inspector.check_leases(believed)

    def _live(self, place: int, seconds: float) -> None:
        one = self.services[place]
        until = self.clock.steady() + seconds
        while True:
            try:
                one.loop.run_until(until)
                return
            except Killed:
                self.kills += 1
                self.inspector.note(f"{one.holder} is killed")
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
            self.inspector.note(f"{name} is away until {chaos.away_until[name]:.0f} s")
        if chance() < hour / 12:
            chaos.disk_full_until = self.clock.steady() + chaos.random.uniform(5, 300)
            chaos.counts["disk full"] += 1
            self.inspector.note(f"the disk is full until {chaos.disk_full_until:.0f} s")
        if chance() < hour / 12:
            self.clock.jump(chaos.random.choice((-7200, -600, -30, 30, 600, 7200)))
            chaos.counts["clock jumps"] += 1
            self.inspector.note("the clock was set")
        if chance() < hour / 3:
            self._restart_a_job()
            chaos.counts["jobs restarted by others"] += 1
        if chance() < hour * 2:
            self._approve_something()

    def _restart_a_job(self) -> None:
        """Somebody starts a job again, with the plan that it had at first."""
        cluster = self.chaos.random.choice(list(self.inspector.clusters.values()))
        name, living = self.chaos.random.choice(list(cluster.engine.living.items()))
        plan = living.job.start or living.job.workload.spec.job.initial_plan
        self.inspector.restarted[key_of(cluster.name, name)] = (self.clock.steady(), living.simulation.plan.total)
        self.inspector.note(f"others restart {name}: {living.simulation.plan.total} instances become {plan.total}")
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
        for job, (decision, status) in self._watching.decisions.open_ones().items():
            if status == "applying":
                self.inspector.fault("every decision is closed", job, decision=decision)

    def sizes(self) -> dict[str, float]:
        """What must not grow for ever: this process, and the files of the store."""
        rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        files = sum(file.stat().st_size for file in self._folder.glob("soak.db*"))
        return {
            "hour": round(self.clock.steady() / 3600, 1),
            "memory_mb": round(rss / 2**20, 1),
            "store_mb": round(files / 2**20, 2),
            "changes": len(self.inspector.rescales),
        }

    def report(self) -> dict[str, Any]:
        """Figures, and every law that was broken."""
        faults = list(self.inspector.faults)
        statuses = self._watching.decisions.counts()
        return {
            "simulated_hours": round(self.clock.steady() / 3600, 1),
            "jobs": sum(len(cluster.engine.living) for cluster in self.inspector.clusters.values()),
            "kills": self.kills,
            "rescales": len(self.inspector.rescales),
            "decisions": statuses,
            "misfortunes": dict(self.chaos.counts),
            "checks": dict(self.inspector.checks),
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
