"""What a job taught, kept for its next tuning process: observations in SQLite, so that a crash loses none."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from streamtune.dataflow import Job, Observation
from streamtune.errors import TuningError
from streamtune.outputs import check_output

KEPT_OBSERVATIONS = 400
_TABLE = """
create table if not exists observations (
    number integer primary key autoincrement,
    job text not null,
    shape text not null,
    observation text not null
)
"""


class Memory:
    """The observations of one job. A job whose operators or edges have changed starts over; jobs share the file.

    Every write is one transaction: a killed process leaves the state before or after it, never half of it.
    """

    def __init__(self, path: Path, job: Job) -> None:
        self._path = path
        self._job = job.name
        self._shape = _shape(job)
        check_output(path, "--state")
        with self._transaction() as connection:
            connection.execute(_TABLE)
            found = {str(row[1]) for row in connection.execute("pragma table_info(observations)")}
            if not {"number", "job", "shape", "observation"} <= found:
                raise sqlite3.DatabaseError("its table 'observations' was not made by StreamTune")
            connection.execute("select number, job, shape, observation from observations").fetchone()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; whatever is wrong with the file or its disk is one error that names it."""
        try:
            with closing(sqlite3.connect(self._path, timeout=10.0)) as connection, connection:
                yield connection
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            raise TuningError(
                f"the state file {self._path} cannot be used: {error}. Choose another --state file, or remove it"
            ) from error

    def load(self) -> list[Observation]:
        """All kept observations, the oldest first; one that cannot be read is left out."""
        query = "select observation from observations where job = ? and shape = ? order by number"
        with self._transaction() as connection:
            rows = connection.execute(query, (self._job, self._shape)).fetchall()
        kept = []
        for (text,) in rows:
            try:
                kept.append(_observation(text))
            except (ValueError, TypeError, AttributeError, RecursionError):
                continue
        return kept

    def add(self, observation: Observation) -> None:
        """Keep one more, and let the oldest beyond the limit go."""
        with self._transaction() as connection:
            connection.execute(
                "insert into observations (job, shape, observation) values (?, ?, ?)",
                (self._job, self._shape, observation.model_dump_json()),
            )
            connection.execute(
                "delete from observations where job = ?1 and number <= (select number from observations "
                "where job = ?1 order by number desc limit 1 offset ?2)",
                (self._job, KEPT_OBSERVATIONS),
            )


def _observation(text: str) -> Observation:
    """One observation as kept; those of release 0.1.0 do not say whether their engine reports backpressure.

    Of the engines it knew, only the one without backpressure watched the growth of backlogs.
    """
    data = json.loads(text)
    if "reports_backpressure" not in data:
        watched = any(one.get("backlog_growth_per_s") is not None for one in data.get("operators", {}).values())
        data["reports_backpressure"] = not watched
    return Observation.model_validate(data)


def _shape(job: Job) -> str:
    """Changes when an operator, its type or an edge does; not when rates or parallelism do."""
    flow = job.dataflow
    parts = [sorted((operator.id, operator.type) for operator in flow.operators)]
    text = json.dumps([parts, sorted((edge.source, edge.target) for edge in flow.edges)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
