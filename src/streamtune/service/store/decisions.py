"""Decisions: each has its record before anything is done, and every change of its status is one transaction."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, or_, select, update

from streamtune.service.errors import RequestError
from streamtune.service.store import claims
from streamtune.service.store.claims import Claim
from streamtune.service.store.database import Database
from streamtune.service.store.leases import check_held
from streamtune.service.store.tables import decisions, jobs, steps
from streamtune.service.views import Decision, Outcome, Status

# Statuses of which a job has one at most.
OPEN: tuple[Status, ...] = ("proposed", "approved", "applying")
_COUNTED = ("applying", "applied", "failed", "rolled_back")


def new_id(now: datetime) -> str:
    """Ids sort by time."""
    return f"{int(now.timestamp() * 1000):012x}{secrets.token_hex(4)}"


class DecisionTable:
    """Decisions by id, and by job, the newest first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, decision: Decision, text: str, reverts: str | None = None) -> None:
        """A new decision; one that was still open for the job is expired by it."""
        with self._database.write() as connection:
            if decision.status in OPEN:
                self._expire(connection, decision)
            self._insert(connection, decision, reverts)
            _note(connection, decision.id, decision.time, decision.status, decision.by, text)

    def _expire(self, connection: Connection, newer: Decision) -> None:
        which = (decisions.c.job == newer.job) & decisions.c.status.in_(("proposed", "approved"))
        for (one,) in connection.execute(select(decisions.c.id).where(which)).all():
            connection.execute(update(decisions).where(decisions.c.id == one).values(status="expired"))
            _note(connection, one, newer.time, "expired", newer.by, f"decision {newer.id} takes its place")

    @staticmethod
    def _insert(connection: Connection, decision: Decision, reverts: str | None) -> None:
        plain = decision.model_dump(mode="json", exclude={"history", "time", "outcome"})
        connection.execute(insert(decisions).values(**plain, time=decision.time, outcome=None, reverts=reverts))

    def get(self, job: str, decision: str) -> Decision | None:
        with self._database.read() as connection:
            which = (decisions.c.job == job) & (decisions.c.id == decision)
            rows = connection.execute(select(decisions).where(which)).all()
            return next(iter(_with_history(connection, rows)), None)

    def of_job(
        self, job: str, *, limit: int = 50, before: str | None = None, status: Sequence[str] = ()
    ) -> list[Decision]:
        """The newest first; ``before`` is the id of the last one that is known."""
        query = select(decisions).where(decisions.c.job == job)
        if status:
            query = query.where(decisions.c.status.in_(status))
        if before is not None:
            last = select(decisions.c.time).where(decisions.c.id == before).scalar_subquery()
            older = (decisions.c.time == last) & (decisions.c.id < before)
            query = query.where(or_(decisions.c.time < last, older))
        query = query.order_by(decisions.c.time.desc(), decisions.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            return _with_history(connection, connection.execute(query).all())

    def open_ones(self) -> dict[str, tuple[str, str]]:
        """Job → id and status of the decision that is open for it."""
        query = select(decisions.c.job, decisions.c.id, decisions.c.status).where(decisions.c.status.in_(OPEN))
        with self._database.read() as connection:
            return {row.job: (row.id, row.status) for row in connection.execute(query.order_by(decisions.c.time))}

    def changes_since(self, job: str, since: datetime) -> list[datetime]:
        """When the job was changed, or tried to be, since a moment."""
        which = (decisions.c.job == job) & decisions.c.status.in_(_COUNTED) & (decisions.c.began >= since)
        query = select(decisions.c.began).where(which).order_by(decisions.c.began)
        with self._database.read() as connection:
            return [row.began for row in connection.execute(query)]

    def last_applied(self, job: str) -> Decision | None:
        """What was applied last and not rolled back since; a rollback cannot be rolled back."""
        which = (decisions.c.job == job) & (decisions.c.status == "applied") & (decisions.c.kind == "tune")
        query = select(decisions).where(which).order_by(decisions.c.began.desc()).limit(1)
        with self._database.read() as connection:
            return next(iter(_with_history(connection, connection.execute(query).all())), None)

    def answer(self, job: str, decision: str, status: Status, by: str, now: datetime) -> Decision:
        """A person approves or rejects what is proposed."""
        with self._database.write() as connection:
            which = (decisions.c.job == job) & (decisions.c.id == decision)
            found = connection.execute(select(decisions.c.status).where(which)).scalar_one_or_none()
            if found is None:
                raise RequestError(404, "no_decision", f"no decision {decision} of this job", "reload the page")
            if found != "proposed":
                raise RequestError(409, "not_proposed", f"this decision is {found} already", "reload the page")
            connection.execute(update(decisions).where(which).values(status=status))
            _note(connection, decision, now, status, by, f"{status} by {by}")
        answered = self.get(job, decision)
        assert answered is not None
        return answered

    def begin(
        self,
        decision: Decision,
        holder: str,
        now: datetime,
        *,
        lease_now: datetime,
        lease_s: float,
        claim: Claim | None = None,
    ) -> Literal["begun", "taken", "over_budget"]:
        """Say that a plan is being applied, before it is; in the same transaction as the look at lease and budget.

        ``taken`` where somebody has taken the decision out of our hands meanwhile.
        """
        with self._database.write() as connection:
            check_held(connection, decision.job, holder, lease_now, extend=timedelta(seconds=lease_s))
            which = (decisions.c.id == decision.id) & (decisions.c.status == "approved")
            values = {"status": "applying", "began": now}
            if connection.execute(update(decisions).where(which).values(**values)).rowcount != 1:
                return "taken"
            if claim is not None and not claims.reserve(connection, decision.job, claim):
                back = {"status": "approved", "began": None}
                connection.execute(update(decisions).where(decisions.c.id == decision.id).values(**back))
                return "over_budget"
            _note(connection, decision.id, now, "applying", holder, "the engine is being asked")
        return "begun"

    def finish(
        self, decision: str, status: Status, by: str, text: str, now: datetime, tuned_for: Mapping[str, float] | None
    ) -> None:
        """How it went; a rollback that worked also closes what it reverts."""
        with self._database.write() as connection:
            row = connection.execute(
                select(decisions.c.job, decisions.c.reverts, decisions.c.after).where(decisions.c.id == decision)
            ).one()
            if status == "applied":
                claims.settle(connection, row.job, sum(row.after.values()))
            connection.execute(update(decisions).where(decisions.c.id == decision).values(status=status))
            _note(connection, decision, now, status, by, text)
            if status == "applied" and row.reverts:
                values = {"status": "rolled_back"}
                connection.execute(update(decisions).where(decisions.c.id == row.reverts).values(**values))
                _note(connection, row.reverts, now, "rolled_back", by, f"by decision {decision}")
            if tuned_for is not None:
                connection.execute(update(jobs).where(jobs.c.id == row.job).values(tuned_for=dict(tuned_for)))

    def set_outcome(self, decision: str, outcome: Outcome) -> None:
        with self._database.write() as connection:
            plain = outcome.model_dump(mode="json")
            connection.execute(update(decisions).where(decisions.c.id == decision).values(outcome=plain))

    def counts(self) -> dict[str, int]:
        """How many decisions there are, by status."""
        query = select(decisions.c.status, func.count()).group_by(decisions.c.status)
        with self._database.read() as connection:
            return {status: int(count) for status, count in connection.execute(query)}


def _note(connection: Connection, decision: str, time: datetime, status: str, by: str, text: str) -> None:
    connection.execute(insert(steps).values(decision=decision, time=time, status=status, by=by, text=text))


def _with_history(connection: Connection, rows: Sequence[Any]) -> list[Decision]:
    ids = [row.id for row in rows]
    past: dict[str, list[dict[str, Any]]] = {one: [] for one in ids}
    for step in connection.execute(select(steps).where(steps.c.decision.in_(ids)).order_by(steps.c.number)):
        past[step.decision].append({"time": step.time, "status": step.status, "by": step.by, "text": step.text})
    names = [name for name in Decision.model_fields if name != "history"]
    return [
        Decision.model_validate({**{name: getattr(row, name) for name in names}, "history": past[row.id]})
        for row in rows
    ]
