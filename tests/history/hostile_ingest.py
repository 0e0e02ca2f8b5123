"""One hostile folder through the real ingest, in batch or as a stream, held against the plain reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from history.hostile_folders import MAX_LINE_BYTES, HostileFolder
from history.plain_comparison import differences, stored_of
from history.plain_reader import read_folder
from streamtune.history.ingest import IngestReport, ingest
from streamtune.history.settings import FollowSettings, ValidationSettings
from streamtune.history.store import History
from streamtune.history.stream import follow
from streamtune.spark.errors import StorageError

STRICT = ValidationSettings(max_line_mb=MAX_LINE_BYTES / 2**20)


def check_folders(
    spark: SparkSession, seeds: Sequence[int], work: Path, *, streamed: bool = False
) -> tuple[IngestReport, list[str]]:
    """What one ingest says of the folders of these seeds together, and what is wrong with it."""
    folder = work / "in"
    for seed in seeds:
        HostileFolder(seed).write(folder / f"folder-{seed}")
    history = History(spark, str(work / "history"))
    seed = seeds[0]
    # Small blocks, so that lines, long ones too, lie across their borders.
    spark.conf.set("spark.sql.files.maxPartitionBytes", str((128 << 20, 1 << 16, 1 << 14)[seed % 3]))
    try:
        sources = [str(folder / f"folder-{seed}") for seed in seeds]
        # A folder whose links go round in two ways cannot be followed, and says so before anything is read.
        streamed = streamed and not _is_refused(history, folder)
        report = _stream(history, folder) if streamed else ingest(history, sources, validation=STRICT)
        return report, _problems(history, folder, report)
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def _is_refused(history: History, folder: Path) -> bool:
    if not _multiplies(folder):
        return False
    with pytest.raises(StorageError, match="cannot be followed"):
        follow(history, str(folder), FollowSettings(once=True))
    return True


def _multiplies(folder: Path) -> bool:
    """One circle of links has an end, after forty; a second way round doubles the folders each time."""
    places = [folder]
    while 0 < len(places) < 2**12:
        below = [path for place in places for path in place.iterdir()]
        places = [path for path in below if path.is_dir() and not path.name.startswith(("_", "."))]
    return bool(places)


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
