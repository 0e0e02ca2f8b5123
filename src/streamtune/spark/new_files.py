"""Which files are new in a folder, by Spark's file source: its checkpoint gives every file to one micro-batch."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from streamtune.spark.errors import StorageError
from streamtune.spark.files import FileStatus, endless_links, is_ordinary, leads_in_circles

_SCHEMA = "path string, modificationTime timestamp, length bigint, content binary"


def stream_of_new_files(spark: SparkSession, folder: str, max_files: int) -> DataFrame:
    """The names, sizes and times of the files that are or will be in a folder; the files are not opened."""
    links = endless_links(folder)
    if links:
        named = " and ".join(f"'{link}'" for link in links[:2])
        raise StorageError(
            f"{folder} cannot be followed: its links ({named}) lead to the same folders again and again, and Spark's "
            "streams would list them without end. Remove a link, or read the folder once (`history ingest` without "
            "--follow, `sundog run`)"
        )
    return (
        spark.readStream.format("binaryFile")
        .schema(_SCHEMA)
        .option("maxFilesPerTrigger", max_files)
        .option("recursiveFileLookup", "true")
        .option("__globPaths__", "false")  # or a file called a[1] would be looked for as a pattern, and not be found
        .load(folder)
        .select("path", "length", "modificationTime")  # without `content`, Spark does not open the files
    )


def files_of(batch: DataFrame) -> list[FileStatus]:
    """The files of a micro-batch; one that is found again on the way round a circle of links is left out."""
    # Names alone, and of no more files than a trigger may take (maxFilesPerTrigger).
    rows = batch.selectExpr("path", "length", "unix_millis(modificationTime) as modified_ms").collect()
    files = [FileStatus(row.path, row.length, row.modified_ms, is_ordinary(row.path)) for row in rows]
    return [file for file in files if not leads_in_circles(file.path)]
