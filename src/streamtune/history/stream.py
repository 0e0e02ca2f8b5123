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

from streamtune.history.ingest import IngestReport, ingest_files, refused_files
from streamtune.history.settings import FollowSettings, ValidationSettings
from streamtune.history.store import History
from streamtune.spark.files import FileStatus, unseen_below
from streamtune.spark.new_files import files_of, stream_of_new_files


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

    def take_in(files: Sequence[FileStatus]) -> None:
        if not files:
            return
        report = ingest_files(history, files, format_name=format_name, validation=validation)
        if on_batch:
            on_batch(report)

    def ingest_batch(names: DataFrame, _batch: int) -> None:
        take_in(files_of(names))
        take_in_unseen()

    told: set[str] = set()

    def take_in_unseen() -> None:
        files = [file for file in unseen_below(history.spark, folder) if file.path not in told]
        told.update(file.path for file in files)
        if files:
            known = refused_files(history)
            take_in([file for file in files if file.path not in known])

    source = stream_of_new_files(history.spark, folder, settings.max_files)
    take_in_unseen()
    checkpoint = settings.checkpoint or f"{history.location}/_checkpoint"
    writer = source.writeStream.foreachBatch(ingest_batch).option("checkpointLocation", checkpoint)
    if settings.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{settings.every_s} seconds").start()
