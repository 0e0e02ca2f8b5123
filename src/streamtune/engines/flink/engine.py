"""``FlinkEngine``: jobs on a real Flink, behind the same interface as the simulator."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from streamtune.clock import Clock, Steps, SystemClock, run_steps
from streamtune.dataflow import Dataflow, Job, Observation, Plan
from streamtune.dataflow.spec import parse_spec
from streamtune.engines.base import (
    Capabilities,
    Deployment,
    Engine,
    JobEndedError,
    JobNotYetRunningError,
    MeasurementWindow,
    NotReady,
)
from streamtune.engines.flink.client import FlinkClient, FlinkNotFoundError, FlinkUnreachableError
from streamtune.engines.flink.journal import Journal
from streamtune.engines.flink.metrics import Snapshot, observation_between
from streamtune.engines.flink.overrides import Overrides
from streamtune.engines.flink.plan import (
    ImportedJob,
    carried_over,
    finished_operators,
    import_job,
    resolved,
    slots_needed,
)
from streamtune.engines.flink.polling import COVERED_SHARE, Poller, state_of
from streamtune.engines.flink.preflight import Preflight
from streamtune.engines.flink.published import JOB_PARAMETER, RATES_PARAMETER, read_rates, write_rates
from streamtune.engines.flink.rescaling import FlinkRescaleFailedError, Program, Rescaler
from streamtune.engines.flink.responses import ENDED, FAILED, FINISHED, RUNNING, JobDetails, JobSummary
from streamtune.engines.flink.resuming import resume
from streamtune.engines.flink.settings import FlinkSettings as FlinkSettings
from streamtune.errors import EngineError

# What fails three times does not go away by itself, and every attempt leaves a failed job in Flink's list.
_MOST_RESUMES = 3


@dataclass
class _Attached:
    """One deployment: the Flink job it is now, and what is known about it."""

    job_id: str
    imported: ImportedJob
    as_told: Dataflow  # by the job and Flink alone, without the overrides
    overrides: Overrides  # by operator id
    program: Program | None
    rates_file: Path | None
    known_rates: dict[str, float] = field(default_factory=dict)
    changed_s: float | None = None  # by the steady clock
    finished: frozenset[str] = frozenset()  # operators, at the last look


class Submitter(Protocol):
    """Starts job specs as Flink jobs; ``streamtune.labs.flink`` has one that emulates them."""

    def program(self, job: Job) -> tuple[Program, Path]:
        """How to start this job, and the file its rates are read from."""

    def offer(self, rates_file: Path, rates: Mapping[str, float]) -> None:
        """Set the rates that the job's sources are offered."""


class FlinkEngine(Engine):
    """Attaches to running jobs, or submits specs through ``submitter`` as emulated jobs.

    ``program`` says how an attached job can be submitted again, for clusters that cannot rescale live.

    >>> with FlinkClient("http://127.0.0.1:1", retries=0) as client:  # nobody listens there
    ...     FlinkEngine(client).attach("my-job")
    Traceback (most recent call last):
    streamtune.engines.flink.refusals.FlinkUnreachableError: ...
    """

    def __init__(
        self,
        client: FlinkClient,
        *,
        submitter: Submitter | None = None,
        program: Program | None = None,
        overrides: Overrides | None = None,
        settings: FlinkSettings | None = None,
        clock: Clock | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.client = client
        self._submitter = submitter
        self._program = program
        self._overrides = overrides or Overrides()
        self._settings = settings or FlinkSettings()
        self._clock = clock or SystemClock()
        self._poller = Poller(client, self._clock)
        self._journal = journal or Journal(None)
        self._rescaler = Rescaler(client, self._settings.rescale, self._journal)
        self._resumed: Counter[str] = Counter()
        self._attached: dict[str, _Attached] = {}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name="flink",
            reports_backpressure=True,
            live_rescale=self._rescaler.is_live_cluster,
            drives_sources=self._submitter is not None or any(one.rates_file for one in self._attached.values()),
        )

    # Attach and deploy

    def find_job(self, job_id: str | None = None) -> JobSummary:
        """The running job of that id or name; without one, the only job that runs."""
        jobs = self.client.jobs()
        running = [job for job in jobs if job.state == RUNNING]
        wanted = [job for job in running if job_id is None or job_id in (job.id, job.name)]
        if len(wanted) == 1:
            return wanted[0]
        names = ", ".join(f"{job.id} ({job.name})" for job in running) or "none"
        if wanted and job_id is not None:
            raise EngineError(f"{len(wanted)} running jobs are called '{job_id}': running are {names}")
        if running and job_id is None:
            raise EngineError(f"say which job with --job: running are {names}")
        others = [job for job in jobs if job_id is None or job_id in (job.id, job.name)]
        coming = [job for job in others if job.state not in ENDED]
        if coming:
            raise self._not_yet(max(coming, key=lambda job: job.start_ms))
        if job_id is None:
            raise EngineError(f"no job runs at {self.client.url}: start one first")
        if not others:
            raise EngineError(f"no running job '{job_id}': running are {names}")
        newest = max(others, key=lambda job: job.start_ms)
        raise self._ended(newest.id, newest.state)

    def _not_yet(self, job: JobSummary) -> JobNotYetRunningError:
        try:
            cause = self.client.failure(job.id)
        except EngineError:  # one that is just being made has no history
            cause = None
        said = f"job {job.id} ({job.name}) is {job.state}" + (f": {cause}" if cause else "")
        return JobNotYetRunningError(f"{said}. Wait until it runs, or watch it (--watch-s), which waits for it")

    def _ended(self, job_id: str, state: str) -> JobEndedError:
        if self._journal.left(self.client.url, job_id) is not None:
            return JobEndedError(
                f"job {job_id} is {state}: it was stopped to be started again, which has not happened yet. 'streamtune "
                "flink resume' does it, and so does a watch"
            )
        if state == FINISHED:
            return JobEndedError(
                f"job {job_id} is FINISHED: it has done its work, nothing is left to tune", is_done=True
            )
        cause = self.client.failure(job_id) if state == FAILED else None
        to_do = "Fix it and start it again" if state == FAILED else "Start it again"
        said = f": {cause}" if cause else ""
        return JobEndedError(f"job {job_id} is {state}{said}. {to_do}, then attach again")

    def successor(self, deployment: Deployment) -> Deployment | None:
        """A running job of the same name that is not the one that has ended.

        Where that one was stopped to be started again, and is not yet, it is started now.
        """
        attached = self._find(deployment)
        try:
            self._finish_restart(attached.job_id)
            running = [job for job in self.client.jobs() if job.state == RUNNING and job.name == deployment.job.name]
        except FlinkUnreachableError:
            return None
        others = [job for job in running if job.id != attached.job_id]
        if len(others) != 1 or len(running) != 1:
            return None
        return self._take(self.client.job(others[0].id), self._program, changed_s=None, before=attached)

    def _finish_restart(self, job_id: str) -> None:
        entry = self._journal.left(self.client.url, job_id)
        if entry is None or self._resumed[job_id] >= _MOST_RESUMES:
            return
        self.client.jobs()  # an attempt counts where Flink answers
        self._resumed[job_id] += 1
        resume(self.client, self._journal, entry, clock=self._clock, settings=self._settings.rescale)

    def attach(self, job_id: str | None = None) -> Deployment:
        """Take a running job as it is; nothing about it is changed."""
        found = self.find_job(job_id)
        details = self.client.job(found.id)
        return self._take(details, self._program, changed_s=None)

    def deploy(self, job: Job, plan: Plan) -> Deployment:
        if self._submitter is None:
            raise EngineError(
                f"job '{job.name}' cannot be started: the engine was given no specs to emulate; attach to a running job"
            )
        job.check_plan(plan)
        free = self.client.overview().slots_available
        if max(plan.values()) > free:
            raise EngineError(
                f"job '{job.name}' needs {max(plan.values())} slots, {free} are free: stop other jobs, or start more "
                "TaskManagers"
            )
        program, rates_file = self._submitter.program(job)
        self._submitter.offer(rates_file, job.source_rates)
        job_id = self._rescaler.submit(program, plan, vertex_of={})
        deadline_s = self._settings.start_timeout_s
        starting = self._rescaler.wait_until_running(job_id, deadline_s, lambda: f"job '{job.name}' did not start")
        details = run_steps(starting, self._clock)
        deployment = self._take(details, program, changed_s=self._clock.steady())
        if deployment.plan != plan:
            raise EngineError(f"job '{job.name}' was started with {dict(plan)}, but runs with {dict(deployment.plan)}")
        attached = self._attached[deployment.id]
        attached.imported = replace(attached.imported, job=job)
        return replace(deployment, job=job)

    def _take(
        self, details: JobDetails, program: Program | None, changed_s: float | None, before: _Attached | None = None
    ) -> Deployment:
        """``before`` is the job in whose place this one came: what was said of its operators is said of this one's."""
        parameters = self.client.user_parameters(details.id)
        rates_file = Path(parameters[RATES_PARAMETER]) if RATES_PARAMETER in parameters else None
        rates = read_rates(rates_file) if rates_file else None
        published = parameters.get(JOB_PARAMETER)
        as_told = import_job(details, published=published, rates=rates).job.dataflow
        overrides = self._overrides
        if before is not None:
            overrides = carried_over(before.overrides, before.as_told, as_told)
        overrides = resolved(overrides, details)
        imported = import_job(details, overrides=overrides, published=published, rates=rates)
        self._attached[details.id] = _Attached(
            details.id,
            imported,
            as_told,
            overrides,
            program,
            rates_file if rates is not None else None,
            dict(imported.said_rates),
            changed_s,
            finished_operators(details, imported.vertex_of),
        )
        return Deployment(details.id, imported.job, imported.plan)

    # Observe

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation | NotReady:
        return run_steps(self.observing(deployment, window), self._clock)

    def observing(self, deployment: Deployment, window: MeasurementWindow) -> Steps[Observation | NotReady]:
        attached = self._find(deployment)
        try:
            details = self._running_details(attached)
            if isinstance(details, NotReady):
                return details
            yield self._unsettled_s(attached, details, window.settle_s)
            first = yield from self._fresh_snapshot(attached)
            if isinstance(first, NotReady):
                return first
            if first.degrees != dict(deployment.plan):
                return NotReady(f"the job runs with {first.degrees}, not with the plan {dict(deployment.plan)}")
            yield window.length_s
            last = yield from self._later_snapshot(attached, first, window.length_s)
            if isinstance(last, NotReady):
                return last
            latency_ms = self._poller.latency_ms(attached.job_id, attached.imported, last)
        except FlinkUnreachableError as error:
            return NotReady(str(error))
        except FlinkNotFoundError as error:  # gone within the window, or between two attempts: the next poll will show
            return NotReady(str(error), retry_after_s=1.0)
        return observation_between(
            first,
            last,
            deployment.job,
            self._offered(attached),
            latency_ms,
            largest_guess=self._settings.largest_guess,
        )

    def _running_details(self, attached: _Attached) -> JobDetails | NotReady:
        """The job's details, ``NotReady`` while it starts or restarts, an error once it has ended."""
        try:
            details = self.client.job(attached.job_id)
        except FlinkNotFoundError as error:
            raise JobEndedError(
                f"job {attached.job_id} is gone: it was removed, or the JobManager was restarted without high "
                "availability. Start it again, from its last checkpoint or savepoint, and attach again"
            ) from error
        attached.finished = finished_operators(details, attached.imported.vertex_of)
        state = state_of(details)
        if details.has_ended:
            raise self._ended(attached.job_id, details.state)
        if state is not None and not details.is_running:
            cause = self.client.failure(attached.job_id)
            state = f"{state}: {cause}" if cause else state
        return details if state is None else NotReady(state, is_unhealthy=True)

    def _unsettled_s(self, attached: _Attached, details: JobDetails, settle_s: float) -> float:
        """Seconds until the last change, ours or a restart of the job's own, lies far enough back."""
        elapsed_s = min((details.now_ms - vertex.start_ms) / 1000 for vertex in details.vertices)
        if attached.changed_s is not None:
            elapsed_s = min(elapsed_s, self._clock.steady() - attached.changed_s)
        return min(settle_s, max(0.0, settle_s - elapsed_s))

    def _fresh_snapshot(self, attached: _Attached) -> Steps[Snapshot | NotReady]:
        """A snapshot that the JobManager fetched just now: asking makes it fetch, the next answer has the result."""
        earlier = self._poller.totals(attached.job_id)
        waited_s = 0.0
        while waited_s < self._settings.fetch_patience_s:
            yield self._settings.poll_s
            waited_s += self._settings.poll_s
            if self._poller.totals(attached.job_id) != earlier:
                return self._poller.snapshot(attached.job_id, attached.imported)
        return NotReady(f"no new metrics for {waited_s:.0f} s: the JobManager cannot reach the TaskManagers")

    def _later_snapshot(self, attached: _Attached, first: Snapshot, length_s: float) -> Steps[Snapshot | NotReady]:
        """The first snapshot whose counters have covered the window, as far as patience goes."""
        waited_s = 0.0
        while True:
            last = self._poller.snapshot(attached.job_id, attached.imported)
            if isinstance(last, NotReady) or waited_s >= self._settings.fetch_patience_s:
                return last
            if self._poller.covered_s(first, last) >= COVERED_SHARE * length_s:
                return last
            yield self._settings.poll_s
            waited_s += self._settings.poll_s

    def _offered(self, attached: _Attached) -> dict[str, float | None]:
        rates: dict[str, float | None] = dict(attached.known_rates)
        if attached.rates_file is not None:
            rates.update(read_rates(attached.rates_file) or {})
        return rates

    # Change

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        return run_steps(self.rescaling(deployment, plan), self._clock)

    def rescaling(self, deployment: Deployment, plan: Plan) -> Steps[Deployment]:
        self.capabilities.check(plan)
        attached = self._find(deployment)
        deployment.job.check_plan(plan)
        for key in attached.imported.exclude:
            if plan[key] != deployment.plan[key]:
                raise EngineError(f"operator '{key}' is excluded by the overrides and keeps its parallelism")
        changes = {key: degree for key, degree in plan.items() if degree != deployment.plan[key]}
        if changes:
            try:
                attached.job_id = yield from self._rescaler.rescale(
                    attached.job_id, attached.imported.vertex_of, deployment.plan, plan, attached.program
                )
            except FlinkRescaleFailedError as error:
                attached.job_id = error.job_id or attached.job_id
                raise
            finally:
                attached.changed_s = self._clock.steady()
        return replace(deployment, plan=plan)

    def set_source_rates(self, deployment: Deployment, rates: Mapping[str, float]) -> None:
        attached = self._find(deployment)
        if attached.rates_file is None:
            raise EngineError("StreamTune does not drive the job's sources: rates come from outside")
        deployment.job.check_rates(rates)
        write_rates(attached.rates_file, rates)
        attached.changed_s = self._clock.steady()

    def stop(self, deployment: Deployment) -> None:
        attached = self._find(deployment)
        self.client.cancel(attached.job_id)
        run_steps(self._rescaler.wait_until_ended(attached.job_id), self._clock)
        del self._attached[deployment.id]

    def slots_in_reach(self, deployment: Deployment) -> int:
        """How many slots the job could have: its own and those that are free."""
        job_id = self._find(deployment).job_id
        own = max(slots_needed(self.client.job(job_id), {}), self.client.slots_held(job_id))
        return self.client.overview().slots_available + own

    def slots_needed(self, deployment: Deployment, plan: Plan) -> int:
        """How many slots a plan takes: vertices share them as the job says. Nothing is fetched for it."""
        return self._find(deployment).imported.slots_needed(plan)

    def preflight(self) -> Preflight:
        """What must be in order before a job is rescaled."""
        return Preflight(self.client, self._settings.rescale, has_program=self._program is not None)

    def imported(self, deployment: Deployment) -> ImportedJob:
        """How the job was understood, and which vertex each operator is."""
        return self._find(deployment).imported

    def excluded(self, deployment: Deployment) -> frozenset[str]:
        """Operators that the overrides forbid to touch, and those that have done all their work."""
        attached = self._find(deployment)
        return attached.imported.exclude | attached.finished

    def state_of(self, deployment: Deployment) -> Mapping[str, object]:
        job_id = self.job_id(deployment)
        details = self.client.job(job_id)
        return {
            "job_id": job_id,
            "job_state": details.state,
            "runs_with": {vertex.name: vertex.parallelism for vertex in details.vertices},
        }

    def published_job(self, deployment: Deployment) -> Job:
        """The job as its spec was submitted, with its nominal rates; the imported job where nothing was published."""
        published = self.client.user_parameters(self._find(deployment).job_id).get(JOB_PARAMETER)
        return parse_spec(json.loads(published)).job if published else deployment.job

    def job_id(self, deployment: Deployment) -> str:
        """The id that Flink knows the deployment by; a stop-and-restart rescale changes it."""
        return self._find(deployment).job_id

    def _find(self, deployment: Deployment) -> _Attached:
        try:
            return self._attached[deployment.id]
        except KeyError:
            known = ", ".join(self._attached) or "none"
            raise EngineError(f"no running deployment '{deployment.id}': attached are {known}") from None
