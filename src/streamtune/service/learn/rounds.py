"""One round of learning, and how far it has come: a round that was broken off goes on where it stopped."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from pydantic import Field, ValidationError

from streamtune.frozen import Frozen
from streamtune.outputs import write_whole
from streamtune.service.errors import ServiceError

STEPS = ("ingest", "label", "featurise", "cluster", "pretrain", "evaluate", "register")


class Round(Frozen):
    """What a round works on. Files are fixed at its start, so that all of its steps see the same."""

    version: str
    started: datetime
    files: tuple[str, ...]
    held_out: tuple[str, ...]
    engine: str
    data_from: datetime
    data_until: datetime
    done: tuple[str, ...] = ()
    results: dict[str, dict[str, object]] = Field(default_factory=dict)

    @property
    def next_step(self) -> str | None:
        return next((step for step in STEPS if step not in self.done), None)

    def with_done(self, step: str, result: dict[str, object]) -> Round:
        return self.model_copy(update={"done": (*self.done, step), "results": {**self.results, step: result}})


class Rounds:
    """The round under way, in a file."""

    def __init__(self, data: Path) -> None:
        self._path = data / "learn.json"

    def current(self) -> Round | None:
        """The round that was not finished, if there is one."""
        try:
            found = Round.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise ServiceError(f"{self._path} cannot be read: remove it, and the next round starts anew") from error
        return found if found.next_step is not None else None

    def age_s(self) -> float:
        """How long ago the last round went on; 0 where there was none."""
        try:
            return max(0.0, time.time() - self._path.stat().st_mtime)
        except OSError:
            return 0.0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One round at a time: a second process, by hand or on a schedule, is refused."""
        path = self._path.with_name("learn.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a")
        except OSError as error:
            raise ServiceError(
                f"{path} cannot be written: {error.strerror}. Choose another folder with --data"
            ) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ServiceError(
                    f"another round of learning is under way in {path.parent}: wait for its end"
                ) from error
            yield

    def give_up(self) -> None:
        """Let the round under way be, kept for whoever wants to know."""
        with suppress(FileNotFoundError):
            self._path.replace(self._path.with_name("learn-given-up.json"))

    def save(self, one: Round) -> None:
        write_whole(self._path, one.model_dump_json(indent=2))

    def ingested(self) -> frozenset[str]:
        """Files that are in the history already."""
        return frozenset(self._log())

    def note_ingested(self, files: tuple[str, ...]) -> None:
        known = self._log()
        known.update(dict.fromkeys(files))
        write_whole(self._path.with_name("ingested.json"), json.dumps(sorted(known)))

    def _log(self) -> dict[str, None]:
        try:
            found = json.loads(self._path.with_name("ingested.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return dict.fromkeys(str(one) for one in found) if isinstance(found, list) else {}
