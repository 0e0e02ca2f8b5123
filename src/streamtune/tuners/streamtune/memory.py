"""What a job taught, kept for its next tuning process: observations in SQLite, so that a crash loses none."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator
from streamtune.errors import StreamTuneError, TuningError
from streamtune.outputs import check_output
from streamtune.similarity.continuity import still_there
from streamtune.tuners.streamtune.inheritance import inherited

KEPT_OBSERVATIONS = 400
_TABLE = """
create table if not exists observations (
    number integer primary key autoincrement,
    job text not null,
    shape text not null,
    observation text not null
)
"""
_SHAPES = "create table if not exists shapes (shape text primary key, dataflow text not null)"


class Memory:
    """The observations of one job; jobs share the file. One that was changed a little keeps what is still true of it.

    Every write is one transaction: a killed process leaves the state before or after it, never half of it.
    """

    def __init__(self, path: Path, job: Job) -> None:
        self._path = path
        self._job = job.name
        self._shape = _shape(job)
        self._flow = job.dataflow
        check_output(path, "--state")
        with self._transaction() as connection:
            connection.execute(_TABLE)
            connection.execute(_SHAPES)
            connection.execute(
                "insert or ignore into shapes (shape, dataflow) values (?, ?)", (self._shape, _written(self._flow))
            )
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
        """All kept observations, the oldest first, in the job's names of now; one that cannot be read is left out."""
        query = "select shape, observation from observations where job = ? order by number"
        with self._transaction() as connection:
            rows = connection.execute(query, (self._job,)).fetchall()
            names = self._names(connection, {str(shape) for shape, _ in rows} - {self._shape})
        kept = []
        for shape, text in rows:
            try:
                seen = _observation(text)
            except (ValueError, TypeError, AttributeError, RecursionError):
                continue
            found = seen if shape == self._shape else inherited(seen, names.get(shape, {}))
            if found is not None and found.operators:
                kept.append(found)
        return kept

    def _names(self, connection: sqlite3.Connection, shapes: set[str]) -> dict[str, dict[str, str]]:
        """For each earlier shape of the job which of its operators is which of now's; unknown shapes are left out."""
        found = {}
        for shape in sorted(shapes):
            row = connection.execute("select dataflow from shapes where shape = ?", (shape,)).fetchone()
            with suppress(StreamTuneError, ValueError, TypeError, LookupError, RecursionError):
                if row is not None:
                    found[shape] = still_there(_read(row[0]), self._flow)
        return found

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


def _written(flow: Dataflow) -> str:
    operators = [operator.model_dump(mode="json", exclude_defaults=True) for operator in flow.operators]
    return json.dumps({"operators": operators, "edges": [(e.source, e.target, e.partitioning) for e in flow.edges]})


def _read(text: str) -> Dataflow:
    data = json.loads(text)
    operators = tuple(Operator.model_validate(one) for one in data["operators"])
    return Dataflow(operators, tuple(Edge(*one) for one in data["edges"]))


def _shape(job: Job) -> str:
    """Changes when an operator, its type or an edge does; not when rates or parallelism do."""
    flow = job.dataflow
    parts = [sorted((operator.id, operator.type) for operator in flow.operators)]
    text = json.dumps([parts, sorted((edge.source, edge.target) for edge in flow.edges)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
