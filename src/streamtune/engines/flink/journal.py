"""What a stop-and-restart rescale is about to do, written down before it is done, so that a killed one can be finished.

One file per job in a folder of the user's: which job was to be stopped, how it is started again, how far it came, and
which process is at it. The ids that Flink will know the stop and the new job by are chosen beforehand: who finishes it
can ask Flink how far the stop came, and Flink takes a job of one id once, however often it is submitted.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import quote

from pydantic import Field

from streamtune.dataflow.documents import DocumentError, in_whole_letters
from streamtune.errors import EngineError
from streamtune.frozen import Frozen
from streamtune.outputs import is_alive, sweep_unfinished, unfinished_file

_LONGEST_NAME = 200


class Owner(Frozen):
    """The process that is in the middle of a rescale; ``started`` tells it from a later one of the same number."""

    host: str
    process: int
    started: str = ""

    @classmethod
    def of(cls, process: int) -> Self:
        return cls(host=socket.gethostname(), process=process, started=_start_of(process))

    @classmethod
    def this_process(cls) -> Self:
        return cls.of(os.getpid())

    @property
    def is_somebody_else_alive(self) -> bool:
        """Whether another process of this machine is at it; of other machines that cannot be known."""
        if self.host != socket.gethostname() or self.process == os.getpid() or not is_alive(self.process):
            return False
        return self.started in ("", _start_of(self.process))


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
    owner: Owner | None = None

    def is_called(self, job: str | None) -> bool:
        """Whether that is an id of the job or its name."""
        return job is not None and job in (self.job_id, self.job_name, self.new_job_id)


class Journal:
    """The rescales that are under way. Without a folder nothing is written."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def write(self, entry: Underway) -> Underway:
        """Write it down as what this process is at; returns it so."""
        return self._write(entry.model_copy(update={"owner": Owner.this_process()}))

    def leave(self, entry: Underway) -> None:
        """This process gives up on it: whoever comes next may finish it."""
        written = None if self._folder is None else _read(self.path_of(entry))
        if written is not None:
            with suppress(EngineError):  # then it is free when this process ends
                self._write(written.model_copy(update={"owner": None}))

    def _write(self, entry: Underway) -> Underway:
        if self._folder is None:
            return entry
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            scratch = unfinished_file(self.path_of(entry))
            # For the user alone: the arguments of a job may hold its passwords.
            with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(entry.model_dump_json(indent=1))
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(self.path_of(entry))
        except OSError as error:
            raise EngineError(
                f"what is about to be done cannot be written to {self._folder}: {error.strerror}. Nothing was changed"
            ) from error
        return entry

    def done(self, entry: Underway) -> None:
        if self._folder is not None:
            self.path_of(entry).unlink(missing_ok=True)

    def entries(self, url: str) -> list[Underway]:
        """All rescales of that cluster that were not finished; files that cannot be read are left alone."""
        if self._folder is None:
            return []
        sweep_unfinished(self._folder, "*.json")
        read = ((path, _read(path)) for path in sorted(self._folder.glob("*.json")))
        return [entry for path, entry in read if entry and entry.url == url and self.path_of(entry) == path]

    def left(self, url: str, job_id: str) -> Underway | None:
        """What was begun with a job and not finished, unless another process is at it."""
        found = next((entry for entry in self.entries(url) if entry.job_id == job_id), None)
        is_others = found is not None and found.owner is not None and found.owner.is_somebody_else_alive
        return None if is_others else found

    def path_of(self, entry: Underway) -> Path:
        assert self._folder is not None
        # Whoever answers instead of Flink chooses the id: it must not lead out of the folder.
        return self._folder / f"{quote(entry.job_id, safe='')[:_LONGEST_NAME]}.json"

    def way_out(self, entry: Underway) -> str:
        """Where an entry lies and how to be rid of it, for errors."""
        where = "" if self._folder is None else f" (noted in {self.path_of(entry)})"
        return f"once it runs, or is not wanted any more: streamtune flink resume --forget {entry.job_id}{where}"


def fresh_id() -> str:
    """An id of the kind that Flink gives to jobs and triggers."""
    return uuid.uuid4().hex


def _read(path: Path) -> Underway | None:
    try:
        text = path.read_text(encoding="utf-8")
        return Underway.model_validate(in_whole_letters(json.loads(text), text))
    except (OSError, ValueError, RecursionError, DocumentError):  # a ValidationError is a ValueError
        return None


def _start_of(process: int) -> str:
    """When a process started, in the kernel's ticks since this boot; empty where that cannot be read."""
    try:
        # The name in parentheses may hold anything, spaces and parentheses too.
        after_name = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{after_name.split()[19]}"
    except (OSError, IndexError):
        return ""
