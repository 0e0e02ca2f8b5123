"""The memory of a session: a journal that is only ever appended to, so that no crash can lose or repeat a trial.

A line is written and synced *before* a trial is run (``asked``), after every run (``measured``) and at its end
(``told``; ``restored`` once the job is back after a failed one); ``budget`` where another one is given. After
``kill −9`` the last line may be torn: it is cut off, and what it would have said is done again or, if the run itself
had been finished by its supervisor, picked up from the run's folder. One process at a time holds the lock of a store.

Why not Optuna's storage: it loses the readings of operators, leaves an orphan behind after a kill, and its samplers
keep random state in memory, so that a resumed study is another one than an uninterrupted one. Here a strategy is a
pure function of the journal.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from streamtune.autoconfig.budget import Budget
from streamtune.autoconfig.trial import Measurement, Suggestion, Trial
from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen

VERSION = 1
_FILE, _LOCK = "journal.jsonl", "lock"


class StoreError(StreamTuneError):
    """A store that cannot be used: locked, of another session, or damaged."""


class Header(Frozen):
    """What makes a session itself: with it and the trials, everything can be computed again."""

    version: int = VERSION
    strategy: str
    seed: int
    steps: int = Field(ge=1, description="Planned at first: what a resumed session does by default.")
    fingerprint: str
    problem: dict[str, Any]
    warm: list[dict[str, Any]] = Field(default_factory=list, description="What similar jobs had learned at the start.")
    budget: Budget | None = Field(default=None, description="At first; journals of old have none.")


@dataclass
class Pending:
    """A trial that was asked for and has not ended."""

    number: int
    suggestion: Suggestion
    measurements: list[Measurement] = field(default_factory=list)


class Journal:
    """One session's journal; every method that adds to it returns after the disk has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / _FILE
        self.header: Header | None = None
        self.budget: Budget | None = None
        """The last one that a run or a resume gave."""
        self.trials: list[Trial] = []
        self.pending: Pending | None = None
        self.owes_restore = False
        self._load()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the store alone.

        :raises StoreError: when another process has it.
        """
        make_folder(self.folder)
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StoreError(
                    f"{self.folder} is in use by another session: wait for it, or choose another --store"
                ) from error
            self._load(repair=True)
            yield
        finally:
            os.close(descriptor)

    def begin(self, header: Header) -> None:
        """:raises StoreError: when the store holds another session."""
        if self.header is None:
            self._append({"kind": "session", **header.model_dump(mode="json")})
            self.header, self.budget = header, header.budget
            return
        for name in ("strategy", "seed", "fingerprint"):
            old, new = getattr(self.header, name), getattr(header, name)
            if old != new:
                what = "another space or objective" if name == "fingerprint" else f"{name} {old}, not {new}"
                raise StoreError(f"{self.folder} holds a session with {what}: choose another --store, or remove it")
        if header.budget is not None and header.budget != self.budget:
            self._append({"kind": "budget", **header.budget.model_dump(mode="json")})
            self.budget = header.budget

    def asked(self, number: int, suggestion: Suggestion) -> None:
        self._append({"kind": "asked", "number": number, **suggestion.model_dump(mode="json")})
        self.pending = Pending(number, suggestion)

    def measured(self, measurement: Measurement) -> None:
        pending = self._open()
        self._append({"kind": "measured", "number": pending.number, **measurement.model_dump(mode="json")})
        pending.measurements.append(measurement)

    def told(self) -> Trial:
        pending = self._open()
        self._append({"kind": "told", "number": pending.number})
        return self._close()

    def restored(self) -> None:
        """After a failed trial the job is back on its best configuration."""
        self._append({"kind": "restored", "number": len(self.trials) - 1})
        self.owes_restore = False

    def _open(self) -> Pending:
        if self.pending is None:
            raise StoreError(
                f"{self.path}: a measurement without a trial: the journal is damaged, choose another store"
            )
        return self.pending

    def _close(self) -> Trial:
        pending = self._open()
        trial = Trial(
            number=pending.number,
            knobs=pending.suggestion.knobs,
            why=pending.suggestion.why,
            measurements=tuple(pending.measurements),
        )
        self.trials.append(trial)
        self.pending = None
        self.owes_restore = trial.failed
        return trial

    def _append(self, record: dict[str, Any]) -> None:
        line = (json.dumps(record, allow_nan=False) + "\n").encode()
        with self.path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def _load(self, *, repair: bool = False) -> None:
        self.header, self.budget, self.trials, self.pending, self.owes_restore = None, None, [], None, False
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        for position, line in enumerate(whole.splitlines(), start=1):
            try:
                self._read(json.loads(line))
            except (ValueError, KeyError, ValidationError, TypeError) as error:
                raise StoreError(f"{self.path}, line {position} is damaged: choose another --store") from error
        if repair and len(whole) < len(data):  # torn by a crash: never acted upon, so it can go
            with self.path.open("rb+") as file:
                file.truncate(len(whole))
                os.fsync(file.fileno())

    def _read(self, record: dict[str, Any]) -> None:
        kind = record.pop("kind")
        if kind == "session":
            self.header = Header(**record)
            self.budget = self.header.budget or Budget(steps=self.header.steps)
            if self.header.version != VERSION:
                raise StoreError(f"{self.path} has version {self.header.version}, this program reads {VERSION}")
        elif kind == "budget":
            self.budget = Budget(**record)
        elif kind == "asked":
            self.pending = Pending(record.pop("number"), Suggestion(**record))
        elif kind == "measured":
            record.pop("number")
            self._open().measurements.append(Measurement(**record))
        elif kind == "told":
            self._close()
        elif kind == "restored":
            self.owes_restore = False
        else:
            raise ValueError(f"unknown kind {kind!r}")


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} cannot be used as a store: {error.strerror}. Choose another --store") from error
