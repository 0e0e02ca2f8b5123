"""From files to the tables ``runs`` and ``rejected``, in batch and as a stream; in = valid + rejected, always.

One set of files is one part of both tables, and its id is a hash of the files' names, sizes and dates: the same files
again change nothing. Of several runs with one id, one that is stored stays; of those that come together a valid one
goes before an invalid one, then the smallest content hash, then the first in (file, position). The others are
``duplicate`` where they say the same, ``conflicting_duplicate`` where they do not. No order of files and no number of
partitions changes the outcome.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import MapType

from streamtune.history import reasons
from streamtune.history.checking import CHECKED, check_rows
from streamtune.history.errors import HistoryError
from streamtune.history.pdsp import read_pdsp
from streamtune.history.readers import Reader, read_raw, read_runs
from streamtune.history.schema import DAY, REJECTED, RUN, STORED_RUN
from streamtune.history.settings import FORMATS, ValidationSettings, default_validation
from streamtune.history.sources import Refused, compare, distinct_files, sort_out
from streamtune.history.store import History
from streamtune.spark.files import Files, FileStatus, literal
from streamtune.spark.schemas import nullable
from streamtune.spark.tables import Table

_PLACE = ["source_file", "block_start", "line_in_block"]
READERS: dict[str, Reader] = dict(zip(FORMATS, (read_runs, read_pdsp), strict=True))


@dataclass(frozen=True)
class IngestReport:
    """What became of one set of files."""

    files: int
    rows_in: int
    valid: int
    rejected: int
    new: bool

    def __add__(self, other: IngestReport) -> IngestReport:
        return IngestReport(
            self.files + other.files,
            self.rows_in + other.rows_in,
            self.valid + other.valid,
            self.rejected + other.rejected,
            self.new or other.new,
        )


def ingest(
    history: History, sources: Sequence[str], *, format_name: str = "runs", validation: ValidationSettings | None = None
) -> IngestReport:
    """Ingest files, folders and glob patterns. The same files a second time change nothing."""
    access = Files(history.spark)
    files = [file for source in sources for file in access.list_inputs(source)]
    return ingest_files(history, files, format_name=format_name, validation=validation)


def ingest_files(
    history: History,
    files: Sequence[FileStatus],
    *,
    format_name: str = "runs",
    validation: ValidationSettings | None = None,
) -> IngestReport:
    if format_name not in READERS:
        raise HistoryError(f"unknown input format '{format_name}': use one of {', '.join(READERS)}")
    validation = validation or default_validation(format_name)
    files = distinct_files(files)
    part = part_id(files, format_name)
    runs, rejected = history.runs, history.rejected
    if part in rejected.manifest().parts:  # written last: both are there
        Files(history.spark).delete(_staging(history, part))  # unless killed at the very end, it is gone already
        valid, invalid = runs.rows(part), rejected.rows(part)
        return IngestReport(len(files), valid + invalid, valid, invalid, new=False)

    _sweep_staging(history)
    sources = sort_out(history.spark, files)
    raw = read_raw(history.spark, sources, round(validation.max_line_mb * 2**20))
    staged = _stage(history, part, READERS[format_name](raw), validation)
    refused = [*sources.refused, *compare(sources, staged)]
    records = staged.where("reasons is not null")
    rows_in = records.count() + len(refused)
    duplicates = _duplicates(records, runs, part).persist()
    judged = _judged(records, duplicates)
    # Runs first: they then stay as they are when a killed ingest is done again, and `rejected` is completed.
    runs.append(stored_runs(judged.where(sql.size("reasons") == 0)), part)
    rejected.append(_rejected(history, staged, judged, refused), part)
    duplicates.unpersist()
    Files(history.spark).delete(_staging(history, part))
    report = IngestReport(len(files), rows_in, runs.rows(part), rejected.rows(part), new=True)
    if report.rows_in != report.valid + report.rejected:
        raise HistoryError(
            f"the counts do not add up: {report.rows_in} rows in, {report.valid} valid, {report.rejected} rejected. "
            "This is a defect of StreamTune; please report it with the input"
        )
    return report


def refused_files(history: History) -> set[str]:
    """Names of the files that were rejected as such."""
    if not history.rejected.exists:
        return set()
    rows = history.rejected.read().where("position = 0").select("source_file").distinct()
    return {row.source_file for row in rows.toLocalIterator()}


def _staging(history: History, part: str) -> str:
    return f"{history.location}/_staging/{part}"


def _sweep_staging(history: History) -> None:
    """Remove what an ingest left that was killed at its very end: its part is listed, nobody needs its rows again."""
    access, done = Files(history.spark), set(history.rejected.manifest().parts)
    for part in access.names(f"{history.location}/_staging"):
        if part in done:
            access.delete(_staging(history, part))


def _stage(history: History, part: str, parsed: DataFrame, validation: ValidationSettings) -> DataFrame:
    """Checked rows are written down, since they are needed three times and parsing JSON is the expensive step."""
    path = _staging(history, part)
    parsed.mapInArrow(partial(check_rows, settings=validation), CHECKED).write.mode("overwrite").parquet(path)
    return history.spark.read.schema(CHECKED).parquet(literal(path))


def part_id(files: Sequence[FileStatus], format_name: str) -> str:
    """The same for the same files, in whatever order they are given."""
    text = "\n".join(sorted(f"{file.path}\t{file.size_bytes}\t{file.modified_ms}" for file in files))
    return "in-" + hashlib.sha256(f"{format_name}\n{text}".encode()).hexdigest()[:16]


def _duplicates(records: DataFrame, runs: Table, part: str) -> DataFrame:
    """The place of every record that another one goes before, and what that makes it."""
    unparsed = sql.arrays_overlap("reasons", sql.array(sql.lit(reasons.BROKEN_JSON), sql.lit(reasons.WRONG_TYPE)))
    named = records.where(sql.col("run_id").isNotNull() & ~unparsed).select(
        "run_id", content_hash().alias("content_hash"), (sql.size("reasons") > 0).alias("bad"), *_PLACE
    )
    best_first = Window.partitionBy("run_id").orderBy("bad", "content_hash", *_PLACE)
    ranked = named.withColumn("rank", sql.row_number().over(best_first)).withColumn(
        "kept", sql.first("content_hash").over(best_first)
    )
    if runs.exists:
        stored = runs.read(without=[part]).select("run_id", sql.col("content_hash").alias("stored"))
        ranked = ranked.join(stored, "run_id", "left")
    else:
        ranked = ranked.withColumn("stored", sql.lit(None).cast("bigint"))
    rival = sql.coalesce("stored", sql.when(sql.col("rank") > 1, sql.col("kept")))
    kind = sql.when(rival == sql.col("content_hash"), reasons.DUPLICATE).otherwise(reasons.CONFLICTING_DUPLICATE)
    return ranked.where(rival.isNotNull()).select(*_PLACE, kind.alias("duplicate"))


def _judged(records: DataFrame, duplicates: DataFrame) -> DataFrame:
    """Records with ``duplicate`` and ``conflicting_duplicate`` among their reasons."""
    also = sql.array_compact(sql.array("duplicate"))
    return records.join(duplicates, _PLACE, "left").withColumn("reasons", sql.concat("reasons", also)).drop("duplicate")


def _rejected(history: History, staged: DataFrame, judged: DataFrame, refused: Sequence[Refused]) -> DataFrame:
    blocks = staged.groupBy("source_file", "block_start").agg((sql.max("line_in_block") + 1).alias("lines"))
    before = Window.partitionBy("source_file").orderBy("block_start").rowsBetween(Window.unboundedPreceding, -1)
    starts = blocks.withColumn("start", sql.coalesce(sql.sum("lines").over(before), sql.lit(0))).drop("lines")
    # A day of the year 20026 is one that Python cannot read back.
    is_possible = ~sql.array_contains("reasons", reasons.IMPOSSIBLE_TIME)
    day = sql.coalesce(sql.when(is_possible, sql.to_date("observed_at")), "modified_on")
    rows = (
        judged.where(sql.size("reasons") > 0)
        .join(sql.broadcast(starts), ["source_file", "block_start"])
        .withColumn("position", sql.col("start") + sql.col("line_in_block") + 1)
        .withColumn(DAY, day)
        .select(*REJECTED.fieldNames())
    )
    if not refused:
        return rows
    lost = [
        (
            None,
            None,
            None,
            [one.reason],
            "",
            one.file.path,
            0,
            datetime.fromtimestamp(one.file.modified_ms / 1e3, UTC).date(),
        )
        for one in refused
    ]
    return rows.unionByName(history.spark.createDataFrame(lost, nullable(REJECTED)))


def stored_runs(frame: DataFrame) -> DataFrame:
    """Runs as the table keeps them: with the hash of their contents and their day."""
    return (
        frame.withColumn("content_hash", content_hash())
        .withColumn(DAY, sql.to_date("observed_at"))
        .select(*STORED_RUN.fieldNames())
    )


def content_hash() -> Column:
    """Equal for runs that say the same; the order in which a map is written does not count, nor does what is null.

    So a record of an older version has the same hash whichever release stores it.
    """
    rates = sql.array_sort(sql.map_entries("source_rates")).alias("source_rates")
    others = [field for field in RUN.fields if field.name not in ("run_id", "source_rates")]
    columns = [
        sql.array_sort(sql.map_entries(field.name)).alias(field.name)
        if isinstance(field.dataType, MapType)
        else sql.col(field.name)
        for field in others
    ]
    return sql.xxhash64(sql.to_json(sql.struct(rates, *columns)))
