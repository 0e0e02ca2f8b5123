"""Leases: one acting service or ``tune`` per job; a row is the lease, so that two can never hold it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select, update

from streamtune.service.errors import LeaseHeldError
from streamtune.service.store.database import Database
from streamtune.service.store.tables import leases


@dataclass(frozen=True)
class Lease:
    """Who acts on a job, and until when unless it is renewed; ``term`` counts the holders.

    ``taken_from`` is known only when it is taken: another holder, whose lease had run out.
    """

    job: str
    holder: str
    until: datetime
    term: int
    taken_from: str | None = None


class LeaseTable:
    """Leases by job."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, job: str, holder: str, now: datetime, seconds: float) -> Lease:
        """Take a lease that is free or has run out, or renew one's own; else ``LeaseHeldError`` says who has it."""
        until = now + timedelta(seconds=seconds)
        with self._database.write() as connection:
            found = _find(connection, job)
            if found is None:
                connection.execute(insert(leases).values(job=job, holder=holder, until=until, term=1))
                return Lease(job, holder, until, 1)
            if found.holder != holder and found.until > now:
                raise LeaseHeldError(job, found.holder, f"{found.until:%Y-%m-%d %H:%M:%S} UTC")
            term = found.term + (found.holder != holder)
            values = {"holder": holder, "until": until, "term": term}
            connection.execute(update(leases).where(leases.c.job == job).values(**values))
            return Lease(job, holder, until, term, None if found.holder == holder else found.holder)

    def renew(self, holder: str, now: datetime, seconds: float) -> None:
        """Renew all that a holder still has."""
        which = (leases.c.holder == holder) & (leases.c.until > now)
        until = now + timedelta(seconds=seconds)
        with self._database.write() as connection:
            connection.execute(update(leases).where(which & (leases.c.until < until)).values(until=until))

    def release(self, holder: str, jobs: Iterable[str] | None = None) -> None:
        """Give back some leases, or all of a holder."""
        which = leases.c.holder == holder
        if jobs is not None:
            which &= leases.c.job.in_(list(jobs))
        with self._database.write() as connection:
            connection.execute(delete(leases).where(which))

    def of(self, job: str, now: datetime) -> Lease | None:
        """The lease in force on a job."""
        return self.all(now).get(job)

    def all(self, now: datetime) -> dict[str, Lease]:
        """Job → the lease in force."""
        with self._database.read() as connection:
            rows = connection.execute(select(leases).where(leases.c.until > now))
            return {row.job: Lease(row.job, row.holder, row.until, row.term) for row in rows}


def check_held(connection: Connection, job: str, holder: str, now: datetime, *, extend: timedelta) -> None:
    """Within a transaction: go on only if the lease is still ours, and extend it."""
    found = _find(connection, job)
    if found is None or found.holder != holder or found.until <= now:
        other = "nobody" if found is None else found.holder
        raise LeaseHeldError(job, other, "it is taken anew" if found is None else f"{found.until:%H:%M:%S} UTC")
    until = max(found.until, now + extend)
    connection.execute(update(leases).where(leases.c.job == job).values(until=until))


def _find(connection: Connection, job: str) -> Lease | None:
    """The row, locked against others until the end of the transaction; SQLite has one writer at a time anyway."""
    row = connection.execute(select(leases).where(leases.c.job == job).with_for_update()).one_or_none()
    return None if row is None else Lease(row.job, row.holder, row.until, row.term)
