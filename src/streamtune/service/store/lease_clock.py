"""The one time that leases go by: the same for all that share a store, and untouched when a wall clock is set."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import func, insert, select

from streamtune.service.store.database import Database
from streamtune.service.store.tables import epoch


class LeaseClock:
    """On PostgreSQL, the server's clock; on SQLite, whose users are on one machine, that machine's steady clock.

    The store remembers one moment of it: a wall clock set forward does not end the lease of a rescale under way.
    """

    def __init__(
        self, database: Database, *, steady: Callable[[], float] = time.monotonic, boot: str | None = None
    ) -> None:
        self._database = database
        self._steady = steady
        self._began = self._epoch(boot or _boot_id()) if database.is_sqlite else None

    def _epoch(self, boot: str) -> tuple[datetime, float]:
        with self._database.write() as connection:
            row = connection.execute(select(epoch).where(epoch.c.boot == boot)).one_or_none()
            if row is None:
                now = datetime.now(UTC)
                connection.execute(insert(epoch).values(boot=boot, steady=self._steady(), wall=now))
                return now, self._steady()
            return row.wall, row.steady

    def now(self) -> datetime:
        if self._began is not None:
            wall, steady = self._began
            return wall + timedelta(seconds=self._steady() - steady)
        with self._database.read() as connection:
            found: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
            return found.astimezone(UTC)

    def steady(self) -> float:
        return self._steady()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def _boot_id() -> str:
    """Changes when the machine starts: its steady clock then begins anew."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{time.time() - time.monotonic():.0f}"[:-3]  # the moment of the start, within a quarter of an hour
