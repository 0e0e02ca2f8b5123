"""One round of learning, and how far it has come: a round that was broken off goes on where it stopped."""

from __future__ import annotations

import json
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
