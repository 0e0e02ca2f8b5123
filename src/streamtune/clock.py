"""Time is injected: code that needs the time asks a ``Clock``, so that tests and simulations own it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Says what time it is, and how to wait."""

    def now(self) -> datetime: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The wall clock, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told to.

    >>> clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    >>> clock.sleep(90)
    >>> clock.now().isoformat()
    '2026-01-01T00:01:30+00:00'
    """

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._elapsed_s = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._start.timestamp() + self._elapsed_s, UTC)

    def sleep(self, seconds: float) -> None:
        self._elapsed_s += seconds
