"""What a stop-and-restart rescale is about to do, written down before it is done, so that a killed one can be finished.

One file per job in a folder of the user's: which job was to be stopped, how it is started again, and how far it came.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import Field, ValidationError

from streamtune.clock import Clock, SystemClock, run_steps
from streamtune.engines.flink.client import FlinkClient, FlinkRefusedError
from streamtune.engines.flink.responses import FINISHED, RUNNING, JobSummary
from streamtune.errors import EngineError
from streamtune.frozen import Frozen
from streamtune.outputs import sweep_unfinished, unfinished_file


class Underway(Frozen):
    """One rescale: the job as it was, what it is to become, and what is known so far."""

    url: str
    job_id: str
    job_name: str
    jar_id: str
    entry_class: str | None = None
    arguments: tuple[str, ...] = ()
    last_arguments: tuple[str, ...] = ()
    configuration: Mapping[str, str] = Field(default_factory=dict)
    last_configuration: Mapping[str, str] = Field(default_factory=dict)
    trigger: str | None = None
    savepoint: str | None = None
    new_job_id: str | None = None


class Journal:
    """The rescales that are under way. Without a folder nothing is written."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def write(self, entry: Underway) -> None:
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            scratch = unfinished_file(self._path(entry))
            # For the user alone: the arguments of a job may hold its passwords.
            with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(entry.model_dump_json(indent=1))
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(self._path(entry))
        except OSError as error:
            raise EngineError(
                f"what is about to be done cannot be written to {self._folder}: {error.strerror}. Nothing was changed"
            ) from error

    def done(self, entry: Underway) -> None:
        if self._folder is not None:
            self._path(entry).unlink(missing_ok=True)

    def entries(self, url: str) -> list[Underway]:
        """All rescales of that cluster that were not finished; files that cannot be read are left alone."""
        found: list[Underway] = []
        if self._folder is None:
            return found
        sweep_unfinished(self._folder, "*.json")
        for path in sorted(self._folder.glob("*.json")):
            try:
                entry = Underway.model_validate(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, ValidationError):
                continue
            if entry.url == url:
                found.append(entry)
        return found

    def _path(self, entry: Underway) -> Path:
        assert self._folder is not None
        return self._folder / f"{entry.job_id}.json"


def resume(
    client: FlinkClient, journal: Journal, entry: Underway, *, clock: Clock | None = None, timeout_s: float = 120.0
) -> str:
    """Bring a job back whose rescale was interrupted; what was found or done, in one sentence.

    Nothing is started beside a job that runs. The new plan is tried first, then the last one.
    """
    jobs = client.jobs()
    done = next((job for job in jobs if _is_done(job, entry, jobs)), None)
    if done is not None:
        journal.done(entry)
        return f"job {done.id} ({done.name}) has done its work since: nothing was left to do"
    running = [job for job in jobs if job.state == RUNNING]
    for one in running:
        if one.id in (entry.job_id, entry.new_job_id) or one.name == entry.job_name:
            journal.done(entry)
            return f"job {one.id} ({one.name}) runs: nothing was left to do"
    savepoint = entry.savepoint or _savepoint_of(client, entry)
    if savepoint is None:
        raise EngineError(
            f"job {entry.job_id} ({entry.job_name}) does not run, and Flink knows no savepoint of it: start it by hand "
            "from its last checkpoint or savepoint"
        )
    trouble: EngineError | None = None
    for arguments, configuration in (
        (entry.arguments, entry.configuration),
        (entry.last_arguments, entry.last_configuration),
    ):
        try:
            job_id = client.run_jar(
                entry.jar_id,
                entry_class=entry.entry_class,
                arguments=arguments,
                savepoint=savepoint,
                configuration=configuration,
            )
            _wait(client, job_id, clock or SystemClock(), timeout_s)
            journal.done(entry)
            return f"job {entry.job_name} runs again as {job_id}, from {savepoint}"
        except EngineError as error:
            trouble = error
    raise EngineError(
        f"job {entry.job_name} could not be started from {savepoint}: {trouble}. Start it by hand from there"
    )


def _is_done(job: JobSummary, entry: Underway, jobs: Sequence[JobSummary]) -> bool:
    """Whether this is the job as it was started again, and has finished: from the savepoint all would be done twice."""
    if job.state != FINISHED or job.id == entry.job_id:
        return False
    stopped = next((one.start_ms for one in jobs if one.id == entry.job_id), None)
    is_later = stopped is not None and job.start_ms > stopped
    return job.id == entry.new_job_id or (job.name == entry.job_name and is_later)


def _savepoint_of(client: FlinkClient, entry: Underway) -> str | None:
    if entry.trigger is not None:
        try:
            found = client.savepoint(entry.job_id, entry.trigger).location
            if found is not None:
                return found
        except FlinkRefusedError:
            pass
    try:
        latest = client.checkpoints(entry.job_id).latest.savepoint
    except FlinkRefusedError:
        return None
    return None if latest is None else latest.path


def _wait(client: FlinkClient, job_id: str, clock: Clock, timeout_s: float) -> None:
    from streamtune.engines.flink.rescaling import Rescaler
    from streamtune.engines.flink.settings import RescaleSettings

    waiting = Rescaler(client, RescaleSettings()).wait_until_running(
        job_id, timeout_s, lambda: f"job {job_id} did not start"
    )
    try:
        run_steps(waiting, clock)
    except EngineError:
        with suppress(FlinkRefusedError):  # it has ended by itself
            client.cancel(job_id)
        raise
