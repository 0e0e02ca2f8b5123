"""What is in a history: counts by engine, job and reason, and how large its dataflows are (the paper's Fig. 5)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streamtune.history.errors import HistoryError
from streamtune.history.store import History
from streamtune.outputs import write_whole


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


def plot(summary: Summary, path: str | Path) -> None:
    """Runs by number of operators as a picture, as in Fig. 5 of the StreamTune paper."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not summary.by_operators:
        raise HistoryError("there is nothing to draw: the history has no valid runs")
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    sizes = range(min(summary.by_operators), max(summary.by_operators) + 1)
    counts = [summary.by_operators.get(size, 0) for size in sizes]
    bars = axes.bar([str(size) for size in sizes], counts, color="#4c72b0")
    axes.bar_label(bars, labels=[f"{count:,}" if count else "" for count in counts], padding=2, fontsize=8)
    axes.set(
        xlabel="operators in the dataflow", ylabel="runs", title=f"{summary.valid:,} runs by size of their dataflow"
    )
    axes.margins(y=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=120, format=Path(path).suffix.lstrip(".").lower())
    write_whole(Path(path), drawn.getvalue())
