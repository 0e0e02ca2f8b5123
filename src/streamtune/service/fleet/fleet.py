"""``Fleet``: clusters, their loops, and a keeper for every job that is found."""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from streamtune.clock import Steps
from streamtune.errors import StreamTuneError
from streamtune.service.clusters.base import Cluster, FoundJob, job_key
from streamtune.service.fleet.context import Context
from streamtune.service.fleet.keeper import Keeper
from streamtune.service.fleet.loop import Loop, Task
from streamtune.service.views import ClusterView, JobSummary

log = logging.getLogger("streamtune.service")

_FORGET_REAL_S = 3600.0
_MANY_JOBS = 100


def _offset_s(job: str, jobs: int, window_s: float) -> float:
    """When within a window a job is asked: the more jobs a cluster has, the more of the window they are spread over.

    >>> _offset_s("a", 1, 60.0) < 0.6, 0 < _offset_s("a", 1000, 60.0) < 60
    (True, True)
    """
    return zlib.crc32(job.encode()) / 2**32 * window_s * min(1.0, jobs / _MANY_JOBS)


@dataclass
class _Watched:
    """One cluster: its loop, its jobs, and what is wrong with it."""

    cluster: Cluster
    loop: Loop
    keepers: dict[str, tuple[Keeper, Task]] = field(default_factory=dict)
    error: str | None = None
    looked: bool = False


class Fleet:
    """All clusters. ``start`` gives every cluster a thread of its own, so that one that hangs holds up no other."""

    def __init__(
        self, context: Context, clusters: Iterable[Cluster], *, one_loop: Loop | None = None, poll_s: float = 1.0
    ) -> None:
        self.context = context
        self._poll_s = poll_s
        self._one_loop = one_loop
        self._own = one_loop or Loop(context.clock, "service")
        self._watched: dict[str, _Watched] = {}
        self._threads: list[threading.Thread] = []
        self._started = False
        self._own.add("poll", self._polling())
        self._own.add("heartbeat", self._beating())
        self._own.add("flush", self._flushing())
        self._own.add("forget", self._forgetting())
        for cluster in clusters:
            self.add(cluster)

    # Clusters

    def add(self, cluster: Cluster) -> None:
        """Look after one more cluster."""
        loop = self._one_loop or Loop(self.context.clock, cluster.name)
        watched = _Watched(cluster, loop)
        self._watched[cluster.name] = watched
        loop.add(f"discover {cluster.name}", self._discovering(watched))
        if self._started:
            self._run(loop)

    def remove(self, name: str) -> None:
        """Let go of a cluster; a rescale under way is finished first."""
        watched = self._watched.pop(name)
        watched.loop.stop()
        self.context.store.leases.release(self.context.holder, list(watched.keepers))
        self.context.store.claims.drop(watched.keepers)

    @property
    def clusters(self) -> Sequence[Cluster]:
        return [watched.cluster for watched in self._watched.values()]

    def views(self) -> list[ClusterView]:
        return [
            ClusterView(
                name=one.cluster.name,
                engine=one.cluster.engine.capabilities.name,
                url=one.cluster.url,
                state="unreachable" if one.error else "ok" if one.looked else "unknown",
                jobs=len(one.keepers),
                error=one.error,
            )
            for one in list(self._watched.values())
        ]

    # Jobs

    def keepers(self) -> list[Keeper]:
        return [keeper for one in list(self._watched.values()) for keeper, _ in list(one.keepers.values())]

    def keeper(self, job_id: str) -> Keeper | None:
        for one in list(self._watched.values()):
            if job_id in one.keepers:
                return one.keepers[job_id][0]
        return None

    def summaries(self) -> list[JobSummary]:
        return sorted((keeper.state.summary() for keeper in self.keepers()), key=lambda job: (job.name, job.id))

    @staticmethod
    def json_of(job: JobSummary) -> str:
        """A summary as JSON."""
        return job.model_dump_json()

    def is_ready(self) -> bool:
        """Whether every cluster was asked at least once."""
        return all(one.looked for one in self._watched.values())

    # Running

    def start(self) -> None:
        self._started = True
        for loop in {id(loop): loop for loop in self._loops()}.values():
            self._run(loop)

    def _run(self, loop: Loop) -> None:
        thread = threading.Thread(target=loop.run, name=f"streamtune-{loop.name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self, grace_s: float) -> bool:
        """End: rescales under way are finished within the grace, then leases are given back."""
        for loop in self._loops():
            loop.stop()
        deadline = self.context.clock.steady() + grace_s * self.context.clock.speed
        for thread in self._threads:
            thread.join(max(0.1, (deadline - self.context.clock.steady()) / self.context.clock.speed))
        finished = not any(thread.is_alive() for thread in self._threads)
        self.context.flush()
        if finished:
            self.context.store.leases.release(self.context.holder)
        for watched in self._watched.values():
            watched.cluster.close()
        return finished

    def _loops(self) -> list[Loop]:
        return [self._own, *(one.loop for one in self._watched.values())]

    def wake(self, job_id: str) -> None:
        """Look at a job now, for instance since a person has approved something."""
        for one in list(self._watched.values()):
            if job_id in one.keepers:
                one.loop.wake(one.keepers[job_id][1])

    def load(self) -> dict[str, float]:
        """What polling costs: requests so far, tasks, and how late the latest step was."""
        loops = self._loops()
        return {
            "calls": float(sum(one.cluster.calls for one in list(self._watched.values()))),
            "tasks": float(sum(loop.size for loop in {id(loop): loop for loop in loops}.values())),
            "lag_s": max(loop.lag_s for loop in loops),
            "unwritten": float(self.context.unwritten),
        }

    # What is done all the time

    def _discovering(self, watched: _Watched) -> Steps[None]:
        while True:
            try:
                self._take(watched, watched.cluster.jobs())
                watched.error = None
            except StreamTuneError as error:
                if watched.error is None:
                    log.warning("a cluster is away", extra={"cluster": watched.cluster.name, "error": str(error)})
                watched.error = str(error)
            except Exception as error:
                log.exception("a defect", extra={"cluster": watched.cluster.name})
                watched.error = f"a defect of the service ({type(error).__name__}): its log has the details"
            watched.looked = True
            yield self.context.settings.discover_s

    def _take(self, watched: _Watched, found: Sequence[FoundJob]) -> None:
        there = set()
        for job in found:
            key = job_key(watched.cluster.engine.capabilities.name, watched.cluster.url, job.name + job.label)
            there.add(key)
            known = watched.keepers.get(key)
            if known is not None:
                self._renew(watched, known, job)
            elif job.state in ("running", "restarting", "failed"):
                watched.keepers[key] = self._new(watched, key, job, len(found))
        for key in set(watched.keepers) - there:
            keeper, _ = watched.keepers[key]
            keeper.found = FoundJob(keeper.found.id, keeper.found.name, "finished", keeper.found.label)

    def _new(self, watched: _Watched, key: str, job: FoundJob, jobs: int) -> tuple[Keeper, Task]:
        context, cluster = self.context, watched.cluster
        engine = cluster.engine.capabilities.name
        row = context.store.jobs.seen(key, cluster.name, job.name + job.label, engine, context.now())
        keeper = Keeper(context, cluster, job, row, offset_s=_offset_s(key, jobs, cluster.window.length_s))
        keeper.state.publish()
        return keeper, watched.loop.add(job.name, keeper.steps(), keeper.must_finish)

    @staticmethod
    def _renew(watched: _Watched, known: tuple[Keeper, Task], job: FoundJob) -> None:
        """A job that was started again has another id, and is attached to anew."""
        keeper, task = known
        started_again = job.id != keeper.found.id and not keeper.must_finish() and keeper.found.state != "running"
        came_back = job.state == "running" and keeper.found.state in ("failed", "finished")
        if started_again or keeper.state.deployment is None or job.id == keeper.found.id:
            keeper.found = job
        if (started_again or came_back) and not keeper.must_finish():
            keeper.state.deployment = None
            watched.loop.wake(task)

    def _polling(self) -> Steps[None]:
        """What people have set or approved, here or at another service with the same store."""
        while True:
            _do("what people have set cannot be read", self.poll)
            yield self._poll_s * self.context.clock.speed

    def poll(self) -> None:
        """Look for what was approved, paused or bounded."""
        opened = self.context.store.decisions.open_ones()
        rows = {row.id: row for row in self.context.store.jobs.all()}
        for keeper in self.keepers():
            row = rows.get(keeper.id)
            if row is not None:
                keeper.state.paused, keeper.state.bounds = row.paused, row.bounds
            keeper.state.set_excluded(keeper.excluded())
            if keeper.applier.set_open(*opened.get(keeper.id, (None, None))) and not keeper.must_finish():
                self.wake(keeper.id)

    def _beating(self) -> Steps[None]:
        """Renew leases, three times before they run out."""
        context = self.context
        while True:
            _do("leases cannot be renewed", self._beat)
            yield context.settings.lease_s / 3 * context.clock.speed

    def _beat(self) -> None:
        context = self.context
        now = context.lease_now()
        context.store.leases.renew(context.holder, now, context.settings.lease_s)
        leases = context.store.leases.all(now)
        context.leases.clear()
        context.leases.update(leases)
        context.tuners.refresh()  # 'streamtune learn' may have promoted another model
        self._drop_claims()

    def _drop_claims(self) -> None:
        """Jobs that have ended, or whose policy has no group any more, need nothing of a budget."""
        claims = self.context.store.claims.all()
        gone = [
            keeper.id
            for keeper in self.keepers()
            if keeper.id in claims and (keeper.state.is_over or keeper.policy.group is None)
        ]
        if gone:
            self.context.store.claims.drop(gone)

    def _flushing(self) -> Steps[None]:
        while True:
            yield self._poll_s * self.context.clock.speed
            _do("observations cannot be written", self.context.flush)

    def _forgetting(self) -> Steps[None]:
        while True:
            _do("old records cannot be deleted", self._forget)
            yield _FORGET_REAL_S * self.context.clock.speed

    def _forget(self) -> None:
        self.context.store.forget(self.context.now(), self.context.settings.retention)


def _do(problem: str, work: Callable[[], object]) -> None:
    """What is done again and again: once that it fails, for whatever reason, must not be the last time."""
    try:
        work()
    except StreamTuneError as error:
        log.error(problem, extra={"error": str(error)})
    except Exception:
        log.exception(problem)
