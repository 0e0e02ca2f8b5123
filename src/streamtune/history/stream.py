"""Ingest that follows a folder, as a Structured Streaming job.

Spark's file source only says which files are new; each micro-batch of names then goes through the batch
ingest. The checkpoint gives every file to one batch and repeats a batch that was not finished; the tables recognise a
batch by its files and a run by its id. So every run counts once, however often the job is killed or a file delivered.
Files must appear in the folder whole: write them elsewhere and move them in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from streamtune.history.errors import HistoryError
from streamtune.history.ingest import IngestReport, ingest_files, refused_files
from streamtune.history.settings import FollowSettings, ValidationSettings
from streamtune.history.store import History
from streamtune.spark.files import FileStatus, circular_links, is_ordinary, leads_in_circles, unseen_below

_FILE_NAMES = "path string, modificationTime timestamp, length bigint, content binary"


def _refuse_endless(folder: str) -> None:
    """Spark goes round a circle of links forty times; with two circles it would look into 2⁴⁰ folders."""
    circles = circular_links(folder)
    if len(circles) > 1:
        raise HistoryError(
            f"{folder} cannot be followed: '{circles[0]}' and '{circles[1]}' are links that lead back up, and Spark's "
            "streams would list what is below them without end. Remove them, or ingest without --follow"
        )


def follow(
    history: History,
    folder: str,
    settings: FollowSettings | None = None,
    *,
    format_name: str = "runs",
    validation: ValidationSettings | None = None,
    on_batch: Callable[[IngestReport], None] | None = None,
) -> StreamingQuery:
    """Start to ingest every file that is or will be in ``folder``; the query runs until it is stopped."""
    settings = settings or FollowSettings()
    _refuse_endless(folder)

    def take_in(files: Sequence[FileStatus]) -> None:
        if not files:
            return
        report = ingest_files(history, files, format_name=format_name, validation=validation)
        if on_batch:
            on_batch(report)

    def ingest_batch(names: DataFrame, _batch: int) -> None:
        rows = names.selectExpr("path", "length", "unix_millis(modificationTime) as modified_ms").collect()
        files = [FileStatus(row.path, row.length, row.modified_ms, is_ordinary(row.path)) for row in rows]
        take_in([file for file in files if not leads_in_circles(file.path)])
        take_in_unseen()

    told: set[str] = set()

    def take_in_unseen() -> None:
        files = [file for file in unseen_below(history.spark, folder) if file.path not in told]
        told.update(file.path for file in files)
        if files:
            known = refused_files(history)
            take_in([file for file in files if file.path not in known])

    take_in_unseen()

    source = (
        history.spark.readStream.format("binaryFile")
        .schema(_FILE_NAMES)
        .option("maxFilesPerTrigger", settings.max_files)
        .option("recursiveFileLookup", "true")
        .option("__globPaths__", "false")  # or a file called a[1] would be looked for as a pattern, and not be found
        .load(folder)
        .select("path", "length", "modificationTime")  # without `content`, Spark does not open the files
    )
    checkpoint = settings.checkpoint or f"{history.location}/_checkpoint"
    writer = source.writeStream.foreachBatch(ingest_batch).option("checkpointLocation", checkpoint)
    if settings.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{settings.every_s} seconds").start()
