"""The service's time: a wall clock that is shown and stored, and a steady one that waits are measured by.

They are two because a wall clock may jump, and a jump of an hour must not make a fleet wait for an hour.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from streamtune.clock import Clock


class ServiceClock(Clock, Protocol):
    """A clock that also counts steadily, and says how many of its seconds pass in a real one."""

    @property
    def speed(self) -> float: ...

    def steady(self) -> float:
        """Seconds since some moment; never goes back."""


class RealClock:
    """The machine's time."""

    speed = 1.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def steady(self) -> float:
        return time.monotonic()


class FastClock:
    """Time that passes faster than it does: a day in 24 minutes at 60 ×, for the simulated fleet.

    >>> clock = FastClock(datetime(2026, 1, 1, tzinfo=UTC), speed=60)
    >>> clock.now() >= datetime(2026, 1, 1, tzinfo=UTC)
    True
    """

    def __init__(self, start: datetime, speed: float) -> None:
        self.speed = speed
        self._start = start
        self._began = time.monotonic()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.steady())

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / self.speed)

    def steady(self) -> float:
        return (time.monotonic() - self._began) * self.speed


class HandClock:
    """Time that moves only when told to, and whose wall clock can be set wrong: for tests.

    >>> clock = HandClock(datetime(2026, 1, 1, tzinfo=UTC))
    >>> clock.sleep(60)
    >>> clock.jump(3600)
    >>> clock.steady(), clock.now().isoformat()
    (60.0, '2026-01-01T01:01:00+00:00')
    """

    speed = 1.0

    def __init__(self, start: datetime) -> None:
        self._wall = start
        self._steady = 0.0

    def now(self) -> datetime:
        return self._wall

    def sleep(self, seconds: float) -> None:
        self._steady += seconds
        self._wall += timedelta(seconds=seconds)

    def steady(self) -> float:
        return self._steady

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back; the steady one goes on."""
        self._wall += timedelta(seconds=seconds)
