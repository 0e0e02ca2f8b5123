"""Finishing a stop-and-restart rescale that was interrupted, so that its job runs: once, and from where it was stopped.

A job is alive until Flink says that it has ended: nothing is ever started beside one that restarts or is just coming.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from streamtune.clock import Clock, Steps, SystemClock, run_steps
from streamtune.engines.base import JobEndedError
from streamtune.engines.flink.client import FlinkClient, FlinkNotFoundError, FlinkRefusedError
from streamtune.engines.flink.journal import Journal, Underway, fresh_id
from streamtune.engines.flink.rescaling import Rescaler
from streamtune.engines.flink.responses import ENDED, FINISHED, RUNNING, JobSummary
from streamtune.engines.flink.settings import RescaleSettings
from streamtune.errors import EngineError

# A request to stop may be on its way when its process is killed; so long it may take until Flink shows that it has it.
_SETTLE_S = 15.0


def resume(
    client: FlinkClient,
    journal: Journal,
    entry: Underway,
    *,
    clock: Clock | None = None,
    settings: RescaleSettings | None = None,
) -> str:
    """Bring a job back whose rescale was interrupted; what was found or done, in one sentence.

    A stop under way is waited for. Nothing is started beside a job that is alive. The new plan is tried first, then the
    last one. An error leaves the entry where it is, and says how to be rid of it.
    """
    resumption = _Resumption(client, journal, entry, settings or RescaleSettings())
    try:
        return run_steps(resumption.steps(), clock or SystemClock())
    except EngineError as error:
        journal.leave(entry)
        raise EngineError(f"{error}; {journal.way_out(entry)}") from error


def resume_all(
    client: FlinkClient,
    journal: Journal,
    tell: Callable[[str], None],
    *,
    needed: Callable[[Underway], bool] = lambda _entry: False,
    clock: Clock | None = None,
    settings: RescaleSettings | None = None,
) -> list[Underway]:
    """Finish every interrupted rescale of a cluster that no living process is at; returns those that could not be.

    An error is told, and stands in no other job's way; of a job that is ``needed`` it is raised.
    """
    failed = []
    for entry in journal.entries(client.url):
        if entry.owner is not None and entry.owner.is_somebody_else_alive:
            tell(
                f"job {entry.job_id} ({entry.job_name}) is being restarted by process {entry.owner.process}: left to it"
            )
            continue
        try:
            tell(resume(client, journal, entry, clock=clock, settings=settings))
        except EngineError as error:
            if needed(entry):
                raise
            tell(f"warning: {error}")
            failed.append(entry)
    return failed


class _Resumption:
    """One entry, and what is known about its jobs while it is being finished."""

    def __init__(self, client: FlinkClient, journal: Journal, entry: Underway, settings: RescaleSettings) -> None:
        self._client = client
        self._journal = journal
        self._entry = journal.write(entry)  # from here on nobody else is to be at it
        self._settings = settings
        self._rescaler = Rescaler(client, settings)
        self._old = f"job {entry.job_id} ({entry.job_name})"

    def steps(self) -> Steps[str]:
        said = yield from self._look_for_another()
        if said is None:
            said = yield from self._follow_the_stop()
        if said is None:  # which has taken its time
            said = yield from self._look_for_another()
        if said is None:
            said = yield from self._start()
        return said

    def _done(self, said: str) -> str:
        self._journal.done(self._entry)
        return said

    # What is there

    def _look_for_another(self) -> Steps[str | None]:
        """What has become of the job that runs in the place of the old one; None where there is none."""
        entry, jobs = self._entry, self._client.jobs()
        done = next((job for job in jobs if _is_done(job, entry, jobs)), None)
        if done is not None:
            return self._done(f"job {done.id} ({done.name}) has done its work since: nothing was left to do")
        other = next((job for job in jobs if job.state not in ENDED and _is_in_its_place(job, entry, jobs)), None)
        if other is None:
            return None
        state, waited_s = other.state, 0.0
        while state != RUNNING and state not in ENDED and waited_s < self._settings.timeout_s:
            yield self._settings.poll_s
            waited_s += self._settings.poll_s
            state = self._state_of(other.id)
        if state == RUNNING:
            return self._done(f"job {other.id} ({other.name}) runs: nothing was left to do")
        if state == FINISHED:
            return self._done(f"job {other.id} ({other.name}) has done its work since: nothing was left to do")
        if state not in ENDED:
            self._journal.leave(entry)
            return (
                f"job {other.id} ({other.name}) is {state}: nothing is started beside it, look again later with "
                "'streamtune flink resume'"
            )
        return None

    def _state_of(self, job_id: str) -> str:
        """A job's state; of one that is gone, what comes nearest to it."""
        try:
            return self._client.status(job_id).state
        except FlinkNotFoundError:
            return "FAILED"

    def _follow_the_stop(self) -> Steps[str | None]:
        """Wait until the old job is stopped (None), or it is clear that it will not be."""
        job_id, waited_s, seen_s = self._entry.job_id, 0.0, 0.0
        while (state := self._state_of(job_id)) not in ENDED:
            failure = self._take_the_savepoint()
            if failure is not None:
                return self._done(f"{self._old} was not stopped, its savepoint failed: {failure}")
            if self._entry.savepoint is not None or self._is_being_stopped():
                seen_s = waited_s
                if waited_s >= self._settings.savepoint_timeout_s:
                    raise EngineError(f"{self._old} is still being stopped after {waited_s:g} s: look again later")
            elif waited_s - seen_s >= _SETTLE_S:
                return self._done(f"{self._old} is {state} and was not stopped: nothing was left to do")
            yield self._settings.poll_s
            waited_s += self._settings.poll_s
        return None

    def _take_the_savepoint(self) -> str | None:
        """Note where the savepoint is, once it is there; why it failed, where it did."""
        entry = self._entry
        if entry.savepoint is not None or entry.trigger is None:
            return None
        try:
            found = self._client.savepoint(entry.job_id, entry.trigger)
        except FlinkRefusedError:
            return None
        if found.location is not None:
            self._entry = self._journal.write(entry.model_copy(update={"savepoint": found.location}))
        return found.failure

    def _is_being_stopped(self) -> bool:
        entry = self._entry
        try:
            if entry.trigger is not None:
                self._client.savepoint(entry.job_id, entry.trigger)
                return True
        except FlinkRefusedError:  # nobody has heard of it, or it was answered long ago
            pass
        try:
            return self._client.checkpoints(entry.job_id).has_savepoint_under_way
        except FlinkRefusedError:
            return False

    # Starting it

    def _start(self) -> Steps[str]:
        savepoint = self._savepoint()
        if savepoint is None:
            raise EngineError(
                f"{self._old} does not run, and Flink knows no savepoint that it was stopped with: start it by hand "
                "from its last checkpoint or savepoint"
            )
        self._check_that_nothing_is_lost(savepoint)
        trouble: EngineError | None = None
        entry = self._entry
        for arguments, configuration in (
            (entry.arguments, entry.configuration),
            (entry.last_arguments, entry.last_configuration),
        ):
            new_id = self._fresh_id()
            try:
                new_id = self._submit(new_id, arguments, configuration, savepoint)
                yield from self._rescaler.wait_until_running(
                    new_id, self._settings.timeout_s, lambda: f"job {entry.job_name} did not start"
                )
            except JobEndedError:
                return self._done(f"job {new_id} ({entry.job_name}) was started from {savepoint} and has done its work")
            except EngineError as error:
                trouble = error
                if any(job.id == new_id and job.state not in ENDED for job in self._client.jobs()):
                    yield from self._rescaler.end(new_id)  # before anything else is started
            else:
                return self._done(f"job {entry.job_name} runs again as {new_id}, from {savepoint}")
        raise EngineError(
            f"job {entry.job_name} could not be started from {savepoint}: {trouble}. Start it by hand from there"
        )

    def _submit(self, new_id: str, arguments: Sequence[str], configuration: Mapping[str, str], savepoint: str) -> str:
        job_id = self._client.run_jar(
            self._entry.jar_id,
            entry_class=self._entry.entry_class,
            arguments=arguments,
            savepoint=savepoint,
            configuration=configuration,
            job_id=new_id,
        )
        self._entry = self._journal.write(self._entry.model_copy(update={"new_job_id": job_id}))
        return job_id

    def _fresh_id(self) -> str:
        """The id that the new job was to have, unless a job of that id has ended: Flink takes none twice."""
        known, noted = {job.id for job in self._client.jobs()}, self._entry.new_job_id
        chosen = fresh_id() if noted is None or noted in known else noted
        self._entry = self._journal.write(self._entry.model_copy(update={"new_job_id": chosen}))
        return chosen

    def _savepoint(self) -> str | None:
        """The savepoint that the job was stopped with; not an older one, after which it has done more."""
        self._take_the_savepoint()
        if self._entry.savepoint is not None:
            return self._entry.savepoint
        if any(job.id == self._entry.job_id and job.state != FINISHED for job in self._client.jobs()):
            return None  # it was not stopped, but failed or was cancelled
        try:
            latest = self._client.checkpoints(self._entry.job_id).latest
        except FlinkRefusedError:
            return None
        if latest.savepoint is None:
            return None
        is_last = latest.completed is None or latest.completed.trigger_ms <= latest.savepoint.trigger_ms
        return latest.savepoint.path if is_last else None

    def _check_that_nothing_is_lost(self, savepoint: str) -> None:
        """A new job that has ended again may have gone on from the savepoint: what it did would be done twice."""
        new_id = self._entry.new_job_id
        if new_id is None:
            return
        try:
            last = self._client.checkpoints(new_id).latest.completed
        except FlinkRefusedError:
            return
        if last is not None:
            raise EngineError(
                f"job {new_id} ({self._entry.job_name}) went on from {savepoint} and has ended since: start it by hand "
                f"from its last checkpoint, {last.path or 'which Flink shows in its web page'}"
            )


def _is_in_its_place(job: JobSummary, entry: Underway, jobs: Sequence[JobSummary]) -> bool:
    """Whether this is the job as it was started again, or one of its name that somebody has started since."""
    if job.id in (entry.job_id, entry.new_job_id):
        return job.id == entry.new_job_id
    stopped = next((one.start_ms for one in jobs if one.id == entry.job_id), None)
    return job.name == entry.job_name and (stopped is None or job.start_ms > stopped)


def _is_done(job: JobSummary, entry: Underway, jobs: Sequence[JobSummary]) -> bool:
    """Whether this is the job as it was started again, and has finished: from the savepoint all would be done twice."""
    if job.state != FINISHED or job.id == entry.job_id:
        return False
    stopped = next((one.start_ms for one in jobs if one.id == entry.job_id), None)
    is_later = stopped is not None and job.start_ms > stopped
    return job.id == entry.new_job_id or (job.name == entry.job_name and is_later)
