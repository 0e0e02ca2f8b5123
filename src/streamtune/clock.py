"""Time is injected: code that needs the time asks a ``Clock``, so that tests and simulations own it.

What takes long is written as ``Steps``: a generator that yields how many seconds it wants to wait before it is asked to
go on. One caller runs it to the end (``run_steps``); a supervisor runs many of them at once without blocking on any.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Protocol, TypeVar

Result = TypeVar("Result")
Steps = Generator[float, None, Result]


class Clock(Protocol):
    """Says what time it is, how to wait, and how long something takes.

    A wall clock may be set: what is shown and stored is ``now``, lengths and waits go by ``steady``.
    """

    def now(self) -> datetime: ...

    def steady(self) -> float:
        """Seconds since some moment; never goes back."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's time, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def steady(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told to, and whose wall clock can be set wrong.

    >>> clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    >>> clock.sleep(90)
    >>> clock.now().isoformat()
    '2026-01-01T00:01:30+00:00'
    >>> clock.jump(3600)
    >>> clock.steady(), clock.now().isoformat()
    (90.0, '2026-01-01T01:01:30+00:00')
    """

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._elapsed_s = 0.0
        self._wrong_by_s = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._start.timestamp() + self._elapsed_s + self._wrong_by_s, UTC)

    def steady(self) -> float:
        return self._elapsed_s

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back; the steady time goes on."""
        self._wrong_by_s += seconds

    def sleep(self, seconds: float) -> None:
        self._elapsed_s += seconds


def run_steps(steps: Steps[Result], clock: Clock) -> Result:
    """Go through all steps, waiting as long as each of them asks for.

    >>> def twice() -> Steps[str]:
    ...     yield 2.0
    ...     yield 3.0
    ...     return "done"
    >>> clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    >>> run_steps(twice(), clock), clock.now().second
    ('done', 5)
    """
    while True:
        try:
            wait_s = next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        clock.sleep(wait_s)
