"""What is in a history: counts by engine, job and reason, and how large its dataflows are (the paper's Fig. 5)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streamtune.history.errors import HistoryError
from streamtune.history.store import History


@dataclass(frozen=True)
class Summary:
    """Counts of one history. Reasons may add up to more than the rejected rows: a row can have several."""

    valid: int
    rejected: int
    days: int
    by_engine: dict[str, int]
    by_job: dict[str, int]
    by_reason: dict[str, int]
    by_operators: dict[int, int]
    by_label: dict[int, int]

    @property
    def rows_in(self) -> int:
        return self.valid + self.rejected

    def to_record(self) -> dict[str, Any]:
        return {"in": self.rows_in, **asdict(self)}


def summarise(history: History) -> Summary:
    """Count everything in Spark; only the counts reach the driver."""
    runs, rejected, labels = history.runs, history.rejected, history.labels
    if not runs.exists and not rejected.exists:
        raise HistoryError(f"there is no history at '{history.location}': make one with 'history ingest' or 'generate'")
    stored = runs.read().select("engine", "job", "day", sql.size("operators").alias("size")) if runs.exists else None
    return Summary(
        valid=runs.rows() if stored is not None else 0,
        rejected=rejected.rows() if rejected.exists else 0,
        days=stored.select("day").distinct().count() if stored is not None else 0,
        by_engine=_counts(stored, sql.col("engine")),
        by_job=_counts(stored, sql.col("job")),
        by_reason=_counts(rejected.read(), sql.explode("reasons")) if rejected.exists else {},
        by_operators=dict(sorted(_counts(stored, sql.col("size")).items())),
        by_label=dict(sorted(_counts(labels.read(), sql.explode("labels")).items())) if labels.exists else {},
    )


def _counts(frame: DataFrame | None, key: Column) -> dict[Any, int]:
    """Value → rows, the most frequent first."""
    if frame is None:
        return {}
    rows = frame.select(key.alias("key")).groupBy("key").count().collect()
    return {row["key"]: row["count"] for row in sorted(rows, key=lambda row: (-row["count"], str(row["key"])))}
