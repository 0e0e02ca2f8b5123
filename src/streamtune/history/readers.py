"""Raw input, line by line, and what each kind of it means as a run.

A reader turns raw text into the columns of ``schema.RUN`` (all nullable) and ``found``, the reasons it has found
itself; everything else about a row is validation's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType, TimestampType

from streamtune.dataflow.run import READABLE_VERSIONS
from streamtune.history import reasons
from streamtune.history.schema import EDGE, OPERATOR, RUN
from streamtune.history.sources import Sources
from streamtune.spark.files import literal
from streamtune.spark.schemas import nullable

Reader = Callable[[DataFrame], DataFrame]

RAW_COLUMNS = ("raw", "raw_bytes", "source_file", "block_start", "modified_on")
# An escape such as \ud83d without its other half: Spark would write a question mark in its place.
_HIGH, _LOW = (rf"\\u[dD][{digits}][0-9a-fA-F]{{2}}" for digits in ("89abAB", "c-fC-F"))
_HALF_LETTER = rf"(?<!\\)(?:\\\\)*(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"
_RAW = "raw string, is_text boolean, raw_bytes bigint, source_file string, block_start bigint, modified_on date"
_MAX_LINE = "mapreduce.input.linerecordreader.line.maxlength"
CORRUPT = "_corrupt"
# A name that no input has.
_MARK = "end-of-the-line-5d2f1c0e"


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
    # Lines end with \n alone (a \r before it is white space to JSON), so that the size of a file says exactly what its
    # lines must add up to. Hadoop counts the end of a line, and leaves out what reaches its limit.
    reader = spark.read.options(ignoreCorruptFiles="true", lineSep="\n").option(_MAX_LINE, str(max_line_bytes + 2))
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
        sql.rtrim(sql.make_valid_utf8(raw), sql.lit("\r")).alias("raw"),
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
    """The one record of a line as a struct; null, or with its field ``_corrupt`` set, where there is none like it.

    Spark reads the first value of a text and ignores what comes after it: a second record in the same line would be
    lost. So the line is read as all there is in a list, in front of a mark that is reached only if the list ends there.
    """
    record = nullable(_struct(schema))
    expected = StructType(
        [
            StructField("line", ArrayType(record)),
            StructField(_MARK, BooleanType()),
            StructField(CORRUPT, StringType()),
        ]
    )
    parsed = sql.from_json(_in_a_list(raw), expected, {"columnNameOfCorruptRecord": CORRUPT})
    first = sql.get(parsed["line"], sql.lit(0))
    alone = parsed[_MARK].isNotNull() & (sql.size(parsed["line"]) == 1) & first.isNotNull()
    corrupt = sql.when(parsed[CORRUPT].isNotNull() | ~alone, raw)
    return sql.struct(*[first[field.name].alias(field.name) for field in record.fields], corrupt.alias(CORRUPT))


def _struct(schema: StructType | str) -> StructType:
    if isinstance(schema, StructType):
        return schema
    described = StructType.fromDDL(schema)
    assert isinstance(described, StructType)
    return described


def _in_a_list(raw: Column) -> Column:
    return sql.concat(sql.lit('{"line": ['), raw, sql.lit(f'], "{_MARK}": true}}'))


def parse_reasons(record: Column) -> Column:
    """Why a line could not be parsed to ``record``, as an array of no or one reason."""
    one_value = sql.try_variant_get(sql.try_parse_json(_in_a_list(sql.col("raw"))), "$.line[1]", "variant").isNull()
    is_json = sql.col("is_text") & sql.try_parse_json(_in_a_list(sql.col("raw"))).isNotNull() & one_value
    half = sql.col("raw").contains("\\u") & sql.col("raw").rlike(_HALF_LETTER)
    bad = ~sql.col("is_text") | record[CORRUPT].isNotNull() | half
    reason = sql.when(is_json & ~half, sql.lit(reasons.WRONG_TYPE)).otherwise(sql.lit(reasons.BROKEN_JSON))
    return sql.when(bad, sql.array(reason)).otherwise(sql.array().cast("array<string>"))


def _has_texts_of_other_types() -> Column:
    """Spark takes whatever stands in the place of a text for one: ``"job": 7`` would be a job called 7.

    Almost no line has such a thing, so a pattern finds those worth the closer look.
    """
    kinds = {"$": RUN, "$.operators": OPERATOR, "$.edges": EDGE}
    texts = {path: [field.name for field in kind.fields if _is_written_as_text(field)] for path, kind in kinds.items()}
    names = "|".join(sorted({name for found in texts.values() for name in found}))
    suspicious = sql.col("raw").rlike(rf'"({names})"\s*:\s*[^"\sn]')
    line = sql.try_parse_json("raw")
    wrong = [
        ~sql.coalesce(sql.schema_of_variant(sql.try_variant_get(line, f"$.{name}", "variant")), sql.lit("VOID")).isin(
            "STRING", "VOID"
        )
        for name in texts.pop("$")
    ]
    for path, found in texts.items():
        shape = sql.coalesce(sql.schema_of_variant(sql.try_variant_get(line, path, "variant")), sql.lit(""))
        wrong.append(shape.rlike(rf"\b({'|'.join(found)}): (?!STRING|VOID)"))
    # What only Spark takes for JSON, as a bare Infinity, cannot be looked at more closely.
    return suspicious & reduce(Column.__or__, wrong, line.isNull())


def _is_written_as_text(field: StructField) -> bool:
    return isinstance(field.dataType, StringType | TimestampType)


def read_runs(lines: DataFrame) -> DataFrame:
    """Our own format: one ``Run`` per line. Fields with a default may be left out, and so may the version (1)."""
    parsed = lines.withColumn("record", parse_json(RUN, sql.col("raw")))
    found = parse_reasons(sql.col("record"))
    wrong = sql.when(_has_texts_of_other_types(), sql.array(sql.lit(reasons.WRONG_TYPE))).otherwise(found)
    found = sql.when(sql.size(found) > 0, found).otherwise(wrong)
    edges = sql.transform(
        "record.edges",
        lambda edge: edge.withField("partitioning", sql.coalesce(edge["partitioning"], sql.lit("rebalance"))),
    )
    defaults = {
        "schema_version": sql.coalesce(sql.col("record.schema_version"), sql.lit(READABLE_VERSIONS[0])),
        "edges": edges,
    }
    columns = [defaults.get(name, sql.col(f"record.{name}")).alias(name) for name in RUN.fieldNames()]
    return parsed.select(*columns, found.alias("found"), *map(sql.col, RAW_COLUMNS))
