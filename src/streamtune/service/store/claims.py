"""Claims: how many instances the jobs of each group have, counted in the store: all services share one count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, select, text
from sqlalchemy.dialects import postgresql, sqlite

from streamtune.service.store.database import Database
from streamtune.service.store.tables import claims, decisions


@dataclass(frozen=True)
class Claim:
    """What a plan needs of the budget of a job's group, against what the job has."""

    group: str
    budget: int
    has: int
    needs: int


class ClaimTable:
    """Instances by job. What is seen to run is noted; what is about to run is claimed with the decision."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, seen: Mapping[str, tuple[str, int]]) -> None:
        """Job → group and instances, as they run; a job that is just being changed keeps what it has claimed."""
        if not seen:
            return
        with self._database.write() as connection:
            note(connection, seen)

    def drop(self, jobs: Iterable[str]) -> None:
        """Jobs that have ended, or have left their group."""
        which = claims.c.job.in_(list(jobs))
        with self._database.write() as connection:
            connection.execute(delete(claims).where(which))

    def all(self) -> dict[str, tuple[str, int]]:
        """Job → group and instances."""
        with self._database.read() as connection:
            return {row.job: (row.group, row.instances) for row in connection.execute(select(claims))}

    def left(self, group: str | None, budgets: Mapping[str, int]) -> int | None:
        """Instances that a group may have more; None without a budget."""
        if group is None or group not in budgets:
            return None
        with self._database.read() as connection:
            return budgets[group] - _taken(connection, group)


def note(connection: Connection, seen: Mapping[str, tuple[str, int]]) -> None:
    """Within a transaction: what runs; sorted, so that two services that write at once wait for each other in order."""
    changing = select(decisions.c.job).where((decisions.c.status == "applying") & decisions.c.job.in_(list(seen)))
    busy = set(connection.execute(changing).scalars())
    values = [
        {"job": job, "group": group, "instances": instances}
        for job, (group, instances) in sorted(seen.items())
        if job not in busy
    ]
    if values:
        _put(connection, values)


def reserve(connection: Connection, job: str, claim: Claim) -> bool:
    """Within the transaction of a decision: take what a plan needs, if the group's budget has it.

    Until the change is over a job that shrinks has what it had.
    """
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time anyway
        connection.execute(text("select pg_advisory_xact_lock(hashtext(:group))"), {"group": f"budget {claim.group}"})
    others = _taken(connection, claim.group, but=job)
    if claim.needs > claim.has and others + claim.needs > claim.budget:
        return False
    _put(connection, [{"job": job, "group": claim.group, "instances": max(claim.has, claim.needs)}])
    return True


def settle(connection: Connection, job: str, instances: int) -> None:
    """Within a transaction: a change is over, and the job has what it has now."""
    connection.execute(claims.update().where(claims.c.job == job).values(instances=instances))


def _taken(connection: Connection, group: str, but: str | None = None) -> int:
    query = select(func.sum(claims.c.instances)).where(claims.c.group == group)
    if but is not None:
        query = query.where(claims.c.job != but)
    return int(connection.execute(query).scalar_one() or 0)


def _put(connection: Connection, values: list[dict[str, Any]]) -> None:
    upsert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    query = upsert(claims).values(values)
    fresh = {"group": query.excluded.group, "instances": query.excluded.instances}
    connection.execute(query.on_conflict_do_update(index_elements=["job"], set_=fresh))
