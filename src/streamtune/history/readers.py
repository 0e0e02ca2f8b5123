"""Raw input, line by line, and what each kind of it means as a run.

A reader turns raw text into the columns of ``schema.RUN`` (all nullable) and ``found``, the reasons it has found
itself; everything else about a row is validation's business.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType

from streamtune.dataflow.run import READABLE_VERSIONS
from streamtune.history import reasons
from streamtune.history.errors import HistoryError
from streamtune.history.schema import RUN
from streamtune.spark.files import Files, FileStatus
from streamtune.spark.schemas import nullable

Reader = Callable[[DataFrame], DataFrame]

RAW_COLUMNS = ("raw", "source_file", "block_start", "modified_on")
CORRUPT = "_corrupt"
_OTHER_COMPRESSION = (".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz", ".zip")
_GZIP_STEP_BYTES = 1 << 20


def read_raw(spark: SparkSession, files: Sequence[FileStatus]) -> DataFrame:
    """One row per record: its text, file, the block of the file it was read from, and the file's date."""
    for file in files:
        if file.path.endswith(_OTHER_COMPRESSION):
            raise HistoryError(f"'{file.path}' is compressed in a way we cannot check for damage: use gzip, or none")
    parquet = [file.path for file in files if file.path.endswith(".parquet")]
    text = [file.path for file in files if not file.path.endswith(".parquet")]
    frames = []
    if parquet:
        frames.append(_parquet_rows(spark, parquet))
    if text or not frames:
        frames.append(_text_lines(spark, text))
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def _text_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    if not paths:
        return spark.createDataFrame(
            [], "raw string, is_text boolean, source_file string, block_start bigint, modified_on date"
        )
    # What can be read of a damaged file is kept; `unreadable` finds the file and accounts for the rest.
    lines = spark.read.option("ignoreCorruptFiles", "true").text(list(paths))
    return _with_place(lines, sql.col("value"))


def _parquet_rows(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Parquet takes the same way as text: a file with another schema then gives rejected rows, not a dead job."""
    rows = spark.read.option("mergeSchema", "true").parquet(*paths)
    return _with_place(rows, sql.to_json(sql.struct(*[sql.col(f"`{name}`") for name in rows.columns])))


def _with_place(frame: DataFrame, raw: Column) -> DataFrame:
    return frame.select(
        # Bytes that are not UTF-8 would stop Arrow and Parquet; they are replaced, and the line is known for it.
        sql.make_valid_utf8(raw).alias("raw"),
        sql.is_valid_utf8(raw).alias("is_text"),
        # Hadoop, which lists files for us, writes local addresses with one slash; Spark's metadata with three.
        sql.regexp_replace("_metadata.file_path", "^file:///", "file:/").alias("source_file"),
        sql.col("_metadata.file_block_start").alias("block_start"),
        sql.to_date("_metadata.file_modification_time").alias("modified_on"),
    )


def unreadable(spark: SparkSession, files: Sequence[FileStatus]) -> list[FileStatus]:
    """Files that are damaged: gzip that ends early or does not check, Parquet without its footer."""
    access = Files(spark)
    broken = {
        file.path
        for file in files
        if file.path.endswith(".parquet") and (file.size_bytes < 12 or access.read_tail(file.path, 4) != b"PAR1")
    }
    zipped = [file.path for file in files if file.path.endswith(".gz")]
    if zipped:
        contents = spark.read.format("binaryFile").load(zipped).select("path", "content")
        broken |= {row.path for row in contents.mapInArrow(_damaged_gzip, "path string").collect()}
    return [file for file in files if file.path in broken]


def _damaged_gzip(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        bad = [not _is_whole_gzip(content.as_buffer()) for content in batch.column("content")]
        yield batch.select(["path"]).filter(pa.array(bad))


def _is_whole_gzip(content: Any) -> bool:
    """Decompress and forget. A gzip file may have several members, one after the other; an empty one has none."""
    view = memoryview(content)
    while len(view):
        member = zlib.decompressobj(wbits=31)
        used = 0
        try:
            while used < len(view) and not member.eof:
                member.decompress(view[used : used + _GZIP_STEP_BYTES])
                used += _GZIP_STEP_BYTES
        except zlib.error:
            return False
        if not member.eof:
            return False
        view = view[min(used, len(view)) - len(member.unused_data) :]
    return True


def parse_json(schema: StructType | str, raw: Column) -> Column:
    """The record as a struct; its field ``_corrupt`` is set where the text is not JSON or a type is wrong."""
    if isinstance(schema, str):
        expected: StructType | str = f"{schema}, {CORRUPT} string"
    else:
        expected = StructType([*nullable(schema).fields, StructField(CORRUPT, StringType())])
    return sql.from_json(raw, expected, {"columnNameOfCorruptRecord": CORRUPT})


def parse_reasons(record: Column) -> Column:
    """Why a line could not be parsed to ``record``, as an array of no or one reason."""
    not_json = ~sql.col("is_text") | sql.try_parse_json("raw").isNull()
    bad = ~sql.col("is_text") | record.isNull() | record[CORRUPT].isNotNull()
    reason = sql.when(not_json, sql.lit(reasons.BROKEN_JSON)).otherwise(sql.lit(reasons.WRONG_TYPE))
    return sql.when(bad, sql.array(reason)).otherwise(sql.array().cast("array<string>"))


def read_runs(lines: DataFrame) -> DataFrame:
    """Our own format: one ``Run`` per line. Fields with a default may be left out, and so may the version (1)."""
    parsed = lines.withColumn("record", parse_json(RUN, sql.col("raw")))
    edges = sql.transform(
        "record.edges",
        lambda edge: edge.withField("partitioning", sql.coalesce(edge["partitioning"], sql.lit("rebalance"))),
    )
    defaults = {
        "schema_version": sql.coalesce(sql.col("record.schema_version"), sql.lit(READABLE_VERSIONS[0])),
        "edges": edges,
    }
    columns = [defaults.get(name, sql.col(f"record.{name}")).alias(name) for name in RUN.fieldNames()]
    return parsed.select(*columns, parse_reasons(sql.col("record")).alias("found"), *map(sql.col, RAW_COLUMNS))
