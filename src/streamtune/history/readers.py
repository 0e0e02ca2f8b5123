"""Raw input, line by line, and what each kind of it means as a run.

A reader turns raw text into the columns of ``schema.RUN`` (all nullable) and ``found``, the reasons it has found
itself; everything else about a row is validation's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from streamtune.dataflow.run import READABLE_VERSIONS
from streamtune.history import reasons
from streamtune.history.schema import RUN
from streamtune.history.sources import Sources
from streamtune.spark.files import literal
from streamtune.spark.schemas import nullable

Reader = Callable[[DataFrame], DataFrame]

RAW_COLUMNS = ("raw", "raw_bytes", "source_file", "block_start", "modified_on")
_RAW = "raw string, is_text boolean, raw_bytes bigint, source_file string, block_start bigint, modified_on date"
_MAX_LINE = "mapreduce.input.linerecordreader.line.maxlength"
CORRUPT = "_corrupt"
# A run's own fields of text, and its time, which as a bare number Spark would take for seconds since 1970.
_TEXTS = tuple(f"$.{field.name}" for field in RUN.fields if isinstance(field.dataType, StringType | TimestampType))


def read_raw(spark: SparkSession, sources: Sources, max_line_bytes: int) -> DataFrame:
    """One row per record: its text, file, the block of the file it was read from, and the file's date.

    Lines above ``max_line_bytes`` are skipped; ``sources.compare`` finds out.
    """
    frames = [_parquet_rows(spark, [file.path for file in files]) for files in sources.parquet.values()]
    if sources.text or not frames:
        frames.append(_text_lines(spark, [file.path for file in sources.text], max_line_bytes))
    return reduce(DataFrame.unionByName, frames)


def _text_lines(spark: SparkSession, paths: Sequence[str], max_line_bytes: int) -> DataFrame:
    if not paths:
        return spark.createDataFrame([], _RAW)
    # What can be read of a damaged file is kept; `sort_out` has found the file and accounts for the rest.
    reader = spark.read.option("ignoreCorruptFiles", "true").option(_MAX_LINE, str(max_line_bytes))
    return _with_place(reader.text([literal(path) for path in paths]), sql.col("value"))


def _parquet_rows(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Parquet takes the same way as text: a file with another schema then gives rejected rows, not a dead job.

    All files of one call have the same columns.
    """
    rows = spark.read.option("ignoreCorruptFiles", "true").parquet(*[literal(path) for path in paths])
    return _with_place(
        rows, sql.to_json(sql.struct(*[sql.col(f"`{name.replace('`', '``')}`") for name in rows.columns]))
    )


def _with_place(frame: DataFrame, raw: Column) -> DataFrame:
    return frame.select(
        # Bytes that are not UTF-8 would stop Arrow and Parquet; they are replaced, and the line is known for it.
        sql.make_valid_utf8(raw).alias("raw"),
        sql.is_valid_utf8(raw).alias("is_text"),
        sql.octet_length(raw).cast("bigint").alias("raw_bytes"),
        # Hadoop, which lists files for us, writes local addresses with one slash, Spark's metadata with three and with
        # escapes as in a URL, except that + means +.
        sql.regexp_replace(
            sql.url_decode(sql.replace("_metadata.file_path", sql.lit("+"), sql.lit("%2B"))), "^file:///", "file:/"
        ).alias("source_file"),
        sql.col("_metadata.file_block_start").alias("block_start"),
        sql.to_date("_metadata.file_modification_time").alias("modified_on"),
    )


def parse_json(schema: StructType | str, raw: Column) -> Column:
    """The record as a struct; its field ``_corrupt`` is set where the text is not JSON or a type is wrong."""
    if isinstance(schema, str):
        expected: StructType | str = f"{schema}, {CORRUPT} string"
    else:
        expected = StructType([*nullable(schema).fields, StructField(CORRUPT, StringType())])
    return sql.from_json(raw, expected, {"columnNameOfCorruptRecord": CORRUPT})


def parse_reasons(record: Column, texts: Sequence[str] = ()) -> Column:
    """Why a line could not be parsed to ``record``, as an array of no or one reason.

    ``texts`` are JSON paths of fields that must be text: Spark makes text of numbers and objects without a word.
    """
    not_json = ~sql.col("is_text") | sql.try_parse_json("raw").isNull()
    bad = ~sql.col("is_text") | record.isNull() | record[CORRUPT].isNotNull()
    if texts:
        bad = bad | ~_are_texts(texts)
    reason = sql.when(not_json, sql.lit(reasons.BROKEN_JSON)).otherwise(sql.lit(reasons.WRONG_TYPE))
    return sql.when(bad, sql.array(reason)).otherwise(sql.array().cast("array<string>"))


def _are_texts(paths: Sequence[str]) -> Column:
    """Whether all these fields are text, or absent: JSON writes nothing but text in quotation marks."""
    parsed = sql.try_parse_json("raw")
    kinds = [sql.schema_of_variant(sql.variant_get(parsed, path, "variant")) for path in paths]
    return reduce(Column.__and__, [sql.coalesce(kind, sql.lit("VOID")).isin("STRING", "VOID") for kind in kinds])


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
    return parsed.select(*columns, parse_reasons(sql.col("record"), _TEXTS).alias("found"), *map(sql.col, RAW_COLUMNS))
