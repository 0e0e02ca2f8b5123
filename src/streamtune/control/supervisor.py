"""``Supervisor``: looks after many jobs at once, within bounds, and begins a tuning process when one is due."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from streamtune.clock import Clock, Steps, SystemClock
from streamtune.control.controller import Controller, Moment, Outcome
from streamtune.control.guards import Guards
from streamtune.control.settings import SupervisorSettings as SupervisorSettings
from streamtune.dataflow import Observation
from streamtune.engines.base import Deployment, JobEndedError, RescaleFailedError, RescaleRefusedError
from streamtune.errors import StreamTuneError
from streamtune.similarity.continuity import still_there

_AN_HOUR_S = 3600.0


@dataclass
class SupervisedJob:
    """One job under supervision: what was done to it so far, and why it ended where it failed."""

    controller: Controller
    deployment: Deployment
    guards: Guards
    outcomes: list[Outcome] = field(default_factory=list)
    error: StreamTuneError | None = None
    acted_at: deque[float] = field(default_factory=deque)  # by the steady clock, as all that is compared
    grown_at: float | None = None
    rates: Mapping[str, float] = field(default_factory=dict)  # in the window before this one
    trouble: StreamTuneError | None = None  # what keeps it from being looked after now
    held_in: str | None = None  # the excluded period that was told of
    noted: set[str] = field(default_factory=set)  # what was said about troubles since all was well
    remake: Callable[[Deployment, Guards], Controller] | None = None
    tell: Callable[[str], None] = lambda _line: None

    @property
    def name(self) -> str:
        return self.deployment.job.name


class Supervisor:
    """Runs the tuning processes of any number of jobs side by side, on one clock and in one thread.

    Nothing here waits for one job while another is due: engines and controllers say how long they want to wait, and the
    supervisor goes on with whatever is due next. A job that fails ends alone; its error is kept.

    >>> from streamtune.engines.simulator import Simulator
    >>> from streamtune.tuners import make_tuner
    >>> from streamtune.workloads import load
    >>> supervisor = Supervisor()
    >>> for name in ("nexmark-q1", "nexmark-q2"):
    ...     spec = load(name).spec
    ...     engine = Simulator.of(spec)
    ...     controller = Controller(engine, make_tuner("ds2", spec.job))
    ...     job = supervisor.add(controller, engine.deploy(spec.job, spec.job.initial_plan))
    >>> [(job.name, job.outcomes[0].backpressure, job.error) for job in supervisor.run()]
    [('nexmark-q1', False, None), ('nexmark-q2', False, None)]
    """

    def __init__(self, settings: SupervisorSettings | None = None, clock: Clock | None = None) -> None:
        self._settings = settings or SupervisorSettings()
        self._clock = clock or SystemClock()
        self.jobs: list[SupervisedJob] = []

    def add(
        self,
        controller: Controller,
        deployment: Deployment,
        *,
        remake: Callable[[Deployment, Guards], Controller] | None = None,
        tell: Callable[[str], None] = lambda _line: None,
    ) -> SupervisedJob:
        """Look after one more job; what its engine excludes is excluded.

        ``remake`` makes a controller for a job of another shape that was submitted in the place of this one, with the
        same guards by the names that its operators have now; ``tell`` is told what keeps a watched job from being
        looked after.
        """
        guards = _guards_of(controller, deployment)
        job = SupervisedJob(controller, deployment, guards, remake=remake, tell=tell)
        self.jobs.append(job)
        return job

    def run(self) -> list[SupervisedJob]:
        """Go on until every job has been watched for as long as the settings say, or has failed."""
        started = self._clock.steady()
        waiting = [(started, number, self._watched(job)) for number, job in enumerate(self.jobs)]
        heapq.heapify(waiting)
        try:
            while waiting:
                due, number, steps = heapq.heappop(waiting)
                self._clock.sleep(max(0.0, due - self._clock.steady()))
                wait_s = next(steps, None)
                if wait_s is not None:
                    heapq.heappush(waiting, (self._clock.steady() + wait_s, number, steps))
        finally:
            for _, _, steps in waiting:
                steps.close()
        return self.jobs

    def _watched(self, job: SupervisedJob) -> Steps[None]:
        """One job from its first tuning process to the end of its watch; never raises what a user can fix."""
        try:
            yield from self._watch(job)
        except StreamTuneError as error:
            job.error = error

    def _watch(self, job: SupervisedJob) -> Steps[None]:
        started = self._clock.steady()
        tuned_for: Mapping[str, float] | None = None
        while True:
            try:
                seen = None if tuned_for is None else (yield from self._look(job))
                if tuned_for is None or (seen is not None and self._is_due(job, tuned_for, seen)):
                    outcome = yield from self._tune(job, None if self._is_mixed(job, seen) else seen)
                    if outcome is not None:
                        job.deployment, job.rates = outcome.deployment, outcome.rates
                        # What was held is due again, whether or not its rates move meanwhile.
                        tuned_for = {} if outcome.stop_reason == "held" else outcome.rates
                        job.outcomes.append(outcome)
                elif seen is not None:
                    job.rates = seen.source_rates
                job.trouble = None
                job.noted.clear()
            except StreamTuneError as error:
                self._note(job, error)
                if not self._settings.watch_s:
                    raise
                tuned_for = yield from self._go_on(job, error, tuned_for)
            if self._clock.steady() - started >= self._settings.watch_s:
                break
        done = isinstance(job.trouble, JobEndedError) and job.trouble.is_done
        if job.trouble is not None and not done:
            raise job.trouble

    def _note(self, job: SupervisedJob, error: StreamTuneError) -> None:
        """Write a failure down, each once: a job that stays away is not a new event every few seconds."""
        is_away = isinstance(error, JobEndedError)
        told = "the job is away" if is_away else str(error)
        if told not in job.noted:
            kind = "refused" if isinstance(error, RescaleRefusedError) else "failed"
            kind = "ended" if is_away and self._settings.watch_s else kind
            job.controller.audit.write(kind, {"error": str(error), **_state(job)})
            if self._settings.watch_s:  # without a watch it is the end, and said as such
                job.tell(str(error))
        job.noted.add(told)
        job.trouble = error

    def _go_on(
        self, job: SupervisedJob, error: StreamTuneError, tuned_for: Mapping[str, float] | None
    ) -> Steps[Mapping[str, float] | None]:
        """``_after``, which may fail itself: the one in its place may have an operator less, or the cluster be busy."""
        try:
            return (yield from self._after(job, error, tuned_for))
        except StreamTuneError as second:
            self._note(job, second)
            yield self._settings.wait_s
            return tuned_for or {}

    def _after(
        self, job: SupervisedJob, error: StreamTuneError, tuned_for: Mapping[str, float] | None
    ) -> Steps[Mapping[str, float] | None]:
        """What a watch does after a failure: it goes on with the job as it is, or with the one in its place."""
        down = isinstance(error, RescaleFailedError) and not error.is_running
        if isinstance(error, JobEndedError) or down:
            found = job.controller.engine.successor(job.deployment)
            if found is not None:
                self._follow(job, found)
                return None
            yield self._settings.wait_s
            return tuned_for or {}
        if not isinstance(error, RescaleFailedError):  # that one has waited for long enough
            yield self._settings.wait_s
        return tuned_for or {}

    @staticmethod
    def _follow(job: SupervisedJob, found: Deployment) -> None:
        before, controller = job.deployment, job.controller
        then, now = before.job.dataflow, found.job.dataflow
        renamed: dict[str, str] = {}
        if job.remake is not None and not (then.index.keys() == now.index.keys() and set(then.edges) == set(now.edges)):
            renamed = {old: new for old, new in still_there(then, now).items() if old not in now.index}
            exclude = frozenset(renamed.get(key, key) for key in controller.guards.exclude)
            controller = job.remake(found, controller.guards.replace(exclude=exclude))  # which may refuse the job:
            controller.tuner.inherit(job.controller.tuner)  # then nothing has happened yet
            job.guards = _guards_of(controller, found)
        told = {"job": found.job.name, "from": before.id, "to": found.id, "plan": dict(found.plan)}
        controller.audit.write("followed", {**told, "renamed": renamed} if renamed else told)
        job.tell(f"job {before.id} was replaced by {found.id}: going on with it")
        for old, new in renamed.items():
            job.tell(f"its operator '{new}' is taken for what was '{old}'")
        job.controller, job.deployment, job.trouble = controller, found, None
        job.noted.clear()

    def _look(self, job: SupervisedJob) -> Steps[Observation | None]:
        controller = job.controller
        seen = yield from controller.engine.observing(job.deployment, controller.window)
        if not isinstance(seen, Observation):
            controller.audit.write("not_ready", {"reason": seen.reason})
            yield seen.retry_after_s
            return None
        controller.watch(Moment("watched", 0, seen.source_rates, job.deployment.plan, seen))
        return seen

    def _is_due(self, job: SupervisedJob, tuned_for: Mapping[str, float], seen: Observation) -> bool:
        """Something has happened, or the tuner looks ahead and sees that something will."""
        foreseen = job.controller.tuner.is_due(seen)
        moved = has_moved(tuned_for, seen.source_rates, self._settings.rate_change)
        return foreseen or seen.has_backpressure or moved

    def _is_mixed(self, job: SupervisedJob, seen: Observation | None) -> bool:
        """Whether the rate has jumped since the window before: then this one holds some of the old rate.

        A plan for such a mixture has to be made again one window later, so a clean window is waited for; not by a tuner
        that looks ahead, to whom the jump is no news.
        """
        if seen is None or not job.rates or job.controller.tuner.is_due(seen):
            return False
        return has_moved(job.rates, seen.source_rates, self._settings.rate_change)

    def _tune(self, job: SupervisedJob, seen: Observation | None) -> Steps[Outcome | None]:
        """One tuning process within what the hour still allows; None if nothing is left."""
        controller, left = job.controller, self._allowed_now(job)
        if not (job.guards.dry_run or self._may_change(job)):
            yield controller.window.length_s
            return None
        if left == 0 and not job.guards.dry_run:
            wait_s = job.acted_at[0] + _AN_HOUR_S - self._clock.steady()
            controller.audit.write("held", {"reason": "max_per_hour", "free_again_in_s": round(wait_s)})
            yield min(wait_s, controller.window.length_s)
            return None
        controller.may_change = partial(self._may_change, job)
        controller.guards = self._guards_now(job, left)
        if self._is_in_grace(job):
            controller.guards = controller.guards.replace(never_down=True)
        before = len(job.acted_at)
        with self._counting(job):
            try:
                return (yield from controller.tuning(job.deployment, seen))
            except RescaleFailedError:
                if len(job.acted_at) == before:
                    job.acted_at.append(self._clock.steady())  # an attempt that failed has shaken the job as well
                raise

    def _may_change(self, job: SupervisedJob) -> bool:
        """Whether no excluded period is on; each is told once when it begins to hold a job."""
        now = self._clock.now()
        period = self._settings.excluding(now)
        if period is not None:
            job.controller.audit.write("held", {"reason": "excluded_period"})
            if job.held_in != period:
                then = "it is tuned later" if self._settings.watch_s else "tune it later, or watch it (--watch-s)"
                job.tell(f"nothing is changed at {now:%H:%M} UTC, in the excluded period {period}: {then}")
        job.held_in = period
        return period is None

    def _is_in_grace(self, job: SupervisedJob) -> bool:
        grown = job.grown_at
        return grown is not None and self._clock.steady() - grown < self._settings.grace_s

    @staticmethod
    def _guards_now(job: SupervisedJob, left: int) -> Guards:
        guards = job.guards
        return guards.replace(max_reconfigurations=max(1, min(guards.max_reconfigurations, left)))

    @contextmanager
    def _counting(self, job: SupervisedJob) -> Iterator[None]:
        """Note when the job is changed, beside whoever watches it."""
        watch = job.controller.watch

        def take(moment: Moment) -> None:
            if moment.kind == "applied":
                job.acted_at.append(self._clock.steady())
                if any(degree > job.deployment.plan.get(key, degree) for key, degree in moment.plan.items()):
                    job.grown_at = self._clock.steady()
            watch(moment)

        job.controller.watch = take
        try:
            yield
        finally:
            job.controller.watch = watch

    def _allowed_now(self, job: SupervisedJob) -> int:
        now = self._clock.steady()
        while job.acted_at and now - job.acted_at[0] >= _AN_HOUR_S:
            job.acted_at.popleft()
        return max(0, self._settings.max_per_hour - len(job.acted_at))


def has_moved(before: Mapping[str, float], now: Mapping[str, float], share: float) -> bool:
    """Whether a source rate differs by more than a share of the larger one.

    >>> has_moved({"bids": 100.0}, {"bids": 109.0}, 0.1), has_moved({"bids": 100.0}, {"bids": 120.0}, 0.1)
    (False, True)
    """
    return any(
        abs(rate - before.get(source, 0.0)) > share * max(rate, before.get(source, 0.0)) for source, rate in now.items()
    )


def _guards_of(controller: Controller, deployment: Deployment) -> Guards:
    """The guards that were given, and what the engine was told never to touch."""
    excluded = controller.guards.exclude | controller.engine.excluded(deployment)
    return controller.guards.replace(exclude=excluded)


def _state(job: SupervisedJob) -> Mapping[str, object]:
    """Where the job stands after a failure, as far as its engine can be asked."""
    try:
        return job.controller.engine.state_of(job.deployment)
    except StreamTuneError as error:
        return {"job_state": f"not known: {error}"}
