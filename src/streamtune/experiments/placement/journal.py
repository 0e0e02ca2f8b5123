"""``Journal``: what was measured so far, so that a study on real hosts can be done in slices and survives a kill."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamtune.errors import StreamTuneError

Key = dict[str, Any]
Value = dict[str, Any]


class OutOfTimeError(StreamTuneError):
    """The slice is over; what was measured is kept, and the next slice goes on from there."""


class Journal:
    """One JSON object a line: ``key`` and ``value``. A line that a kill cut short is left out and measured again."""

    def __init__(
        self, path: Path | None, minutes: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self._clock, self._until = clock, None if minutes is None else clock() + 60 * minutes
        self._found: dict[str, Value] = {}
        self._keys: list[Key] = []
        # A line cut short has no end: the next one must not be glued to it.
        self._separator = ""
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        self._separator = "" if text.endswith("\n") or not text else "\n"
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                self._remember(entry["key"], entry["value"])
            except (json.JSONDecodeError, KeyError, TypeError):
                continue

    def _remember(self, key: Key, value: Value) -> None:
        if _text(key) not in self._found:
            self._keys.append(key)
        self._found[_text(key)] = value

    def get(self, key: Key) -> Value | None:
        return self._found.get(_text(key))

    def matching(self, **fields: Any) -> list[tuple[Key, Value]]:
        """All entries whose key has these fields."""
        keys = [key for key in self._keys if all(key.get(name) == value for name, value in fields.items())]
        return [(key, self._found[_text(key)]) for key in keys]

    def measured(self, key: Key, measure: Callable[[], Value]) -> Value:
        """The value of a key: the one that is there, or a new one, which is on disk before this returns."""
        known = self.get(key)
        if known is not None:
            return known
        self.check_time()
        value = measure()
        self._remember(key, value)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{self._separator}{json.dumps({'key': key, 'value': value})}\n")
                file.flush()
                os.fsync(file.fileno())
            self._separator = ""
        return value

    def check_time(self) -> None:
        if self._until is not None and self._clock() > self._until:
            raise OutOfTimeError("the time of this slice is up: run the same command again to go on")


def _text(key: Key) -> str:
    return json.dumps(key, sort_keys=True)
