"""Jobs and what was observed of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from streamtune.service.store.claims import note
from streamtune.service.store.database import Database
from streamtune.service.store.tables import jobs, observations

_BATCH = 400


@dataclass(frozen=True)
class JobRow:
    """One job as the store knows it."""

    id: str
    cluster: str
    name: str
    engine: str
    paused: bool = False
    bounds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    tuned_for: Mapping[str, float] | None = None
    summary: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ObservationRow:
    """One observation, as charts need it."""

    job: str
    time: datetime
    window_s: float
    rate: float | None
    backpressure: float | None
    backpressured: bool
    instances: int
    recommended: int | None
    autoscaler: int | None
    parallelism: Mapping[str, int]


class JobTable:
    """Jobs by id."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert = sqlite.insert if database.is_sqlite else postgresql.insert

    def seen(self, job_id: str, cluster: str, name: str, engine: str, now: datetime) -> JobRow:
        """Note that a job is there; what was set about it stays."""
        values = {"id": job_id, "cluster": cluster, "name": name, "engine": engine, "last_seen": now}
        query = self._upsert(jobs).values(**values, first_seen=now, paused=False, bounds={})
        with self._database.write() as connection:
            connection.execute(query.on_conflict_do_update(index_elements=["id"], set_={"last_seen": now}))
            row = connection.execute(select(jobs).where(jobs.c.id == job_id)).one()
        return _job(row)

    def get(self, job_id: str) -> JobRow | None:
        with self._database.read() as connection:
            row = connection.execute(select(jobs).where(jobs.c.id == job_id)).one_or_none()
        return None if row is None else _job(row)

    def all(self) -> list[JobRow]:
        with self._database.read() as connection:
            return [_job(row) for row in connection.execute(select(jobs).order_by(jobs.c.name, jobs.c.id))]

    def set_paused(self, job_id: str, paused: bool) -> None:
        self._set(job_id, paused=paused)

    def set_bounds(self, job_id: str, bounds: Mapping[str, Mapping[str, int]]) -> None:
        self._set(job_id, bounds=dict(bounds))

    def set_tuned_for(self, job_id: str, rates: Mapping[str, float]) -> None:
        self._set(job_id, tuned_for=dict(rates))

    def _set(self, job_id: str, **values: Any) -> None:
        with self._database.write() as connection:
            connection.execute(update(jobs).where(jobs.c.id == job_id).values(**values))

    def record(
        self,
        rows: Iterable[ObservationRow],
        summaries: Mapping[str, Any],
        claims: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        """Keep observations, how their jobs stand since, and what these have of the budgets of their groups.

        Two observations of one job at one moment are one.
        """
        values = [{**row.__dict__, "parallelism": dict(row.parallelism)} for row in rows]
        with self._database.write() as connection:
            for first in range(0, len(values), _BATCH):
                query = self._upsert(observations).values(values[first : first + _BATCH])
                connection.execute(query.on_conflict_do_nothing())
            for job_id, summary in summaries.items():
                connection.execute(update(jobs).where(jobs.c.id == job_id).values(summary=summary))
            if claims:
                note(connection, claims)

    def observations(
        self, job_id: str, since: datetime | None, until: datetime | None, points: int
    ) -> list[ObservationRow]:
        """Observations in time order, thinned evenly to at most ``points``; the newest is always there."""
        which = observations.c.job == job_id
        if since is not None:
            which &= observations.c.time >= since
        if until is not None:
            which &= observations.c.time <= until
        with self._database.read() as connection:
            count = connection.execute(select(func.count()).select_from(observations).where(which)).scalar_one()
            stride = max(1, -(-count // points))
            number = func.row_number().over(order_by=observations.c.time.desc())
            ranked = select(observations, number.label("number")).where(which).subquery()
            query = select(ranked).where((ranked.c.number - 1) % stride == 0).order_by(ranked.c.time)
            return [_observation(row) for row in connection.execute(query)]

    def saved_since(self, job_id: str, since: datetime) -> float:
        """Instance-hours below the autoscaler's since a moment; nothing is saved while backpressured."""
        hours = (observations.c.autoscaler - observations.c.instances) * observations.c.window_s / 3600.0
        calm = observations.c.backpressured.is_(False)
        which = (observations.c.job == job_id) & (observations.c.time >= since) & calm
        with self._database.read() as connection:
            return float(connection.execute(select(func.sum(hours)).where(which)).scalar_one() or 0.0)


def _job(row: Any) -> JobRow:
    return JobRow(row.id, row.cluster, row.name, row.engine, row.paused, row.bounds or {}, row.tuned_for, row.summary)


def _observation(row: Any) -> ObservationRow:
    return ObservationRow(**{name: getattr(row, name) for name in ObservationRow.__dataclass_fields__})
