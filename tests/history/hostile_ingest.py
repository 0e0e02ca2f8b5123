"""One hostile folder through the real ingest, in batch or as a stream, held against the plain reader."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from history.hostile_folders import MAX_LINE_BYTES, HostileFolder
from history.plain_reader import differences, read_folder, stored_of
from streamtune.history.ingest import IngestReport, ingest
from streamtune.history.settings import FollowSettings, ValidationSettings
from streamtune.history.store import History
from streamtune.history.stream import follow

STRICT = ValidationSettings(max_line_mb=MAX_LINE_BYTES / 2**20)


def check_folder(
    spark: SparkSession, seed: int, work: Path, *, streamed: bool = False
) -> tuple[IngestReport, list[str]]:
    """What the ingest says of the folder of this seed, and what is wrong with it."""
    folder = work / f"folder-{seed}"
    HostileFolder(seed).write(folder)
    history = History(spark, str(work / f"history-{seed}"))
    # Small blocks, so that lines, long ones too, lie across their borders.
    spark.conf.set("spark.sql.files.maxPartitionBytes", str((128 << 20, 1 << 16, 1 << 14)[seed % 3]))
    try:
        report = _stream(history, folder) if streamed else ingest(history, [str(folder)], validation=STRICT)
        return report, _problems(history, folder, report)
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def _stream(history: History, folder: Path) -> IngestReport:
    reports = [IngestReport(0, 0, 0, 0, new=False)]
    settings = FollowSettings(once=True)
    follow(history, str(folder), settings, validation=STRICT, on_batch=reports.append).awaitTermination(300)
    total = reports[0]
    for report in reports[1:]:  # one micro-batch of what Spark can see, and one for each name that it cannot
        total += report
    return total


def _problems(history: History, folder: Path, report: IngestReport) -> list[str]:
    plain = read_folder(folder, MAX_LINE_BYTES)
    if not history.rejected.exists:
        return [] if not plain.files else [f"{plain.files} files, but nothing was written"]
    runs = history.runs.read().selectExpr("* except (observed_at)", "unix_micros(observed_at) / 1e6 as observed_at")
    rejected = history.rejected.read().select("source_file", "position", "reasons", "raw").collect()
    stored = stored_of([row.asDict(recursive=True) for row in runs.collect()], [tuple(row) for row in rejected])
    problems = differences(plain, stored)
    if report.files != plain.files:
        problems.append(f"{plain.files} files, but {report.files} were counted")
    if report.rows_in != report.valid + report.rejected or report.valid != len(stored.runs):
        problems.append(f"counts do not add up: {report}, {len(stored.runs)} runs stored")
    return problems
