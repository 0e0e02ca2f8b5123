"""Tables are whole or not there, and doing a step twice is doing it once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit, struct

from streamtune.spark.errors import StorageError
from streamtune.spark.settings import TableSettings
from streamtune.spark.tables import Table

pytestmark = pytest.mark.spark

# Spark's full name of Parquet is not one of the short names we read together: it takes the path of Delta and Iceberg.
OTHER_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


def numbers(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end).withColumn("day", expr("date'2026-11-16' - cast(id % 2 as int)"))


def ids(table: Table) -> list[int]:
    return sorted(row.id for row in table.read().collect())


@pytest.mark.parametrize("format_name", ["parquet", "orc", OTHER_FORMAT])
def test_parts_add_up_and_keep_their_columns(spark: SparkSession, tmp_path: Path, format_name: str) -> None:
    table = Table(spark, str(tmp_path / "numbers"), TableSettings(format=format_name))
    assert table.append(numbers(spark, 0, 3), "first")
    assert table.append(numbers(spark, 3, 7), "second")
    if format_name != OTHER_FORMAT:  # there an empty part knows its columns from its own log, which Parquet has not
        assert table.append(numbers(spark, 0, 0), "empty")
    assert ids(table) == [0, 1, 2, 3, 4, 5, 6]
    assert table.rows() == 7
    assert table.rows("second") == 4
    assert table.read().dtypes == [("id", "bigint"), ("day", "date")]
    assert sorted(row.id for row in table.read(without=["first"]).collect()) == [3, 4, 5, 6]


def test_the_same_part_twice_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, str(tmp_path / "numbers"))
    assert table.append(numbers(spark, 0, 3), "batch")
    assert not table.append(numbers(spark, 0, 3), "batch")
    assert ids(table) == [0, 1, 2]


def test_a_part_nobody_listed_is_not_seen(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, str(tmp_path / "numbers"))
    table.append(numbers(spark, 0, 3), "whole")
    # What a step leaves that was killed before it committed: files, even complete ones, that no manifest names.
    numbers(spark, 100, 200).write.partitionBy("day").parquet(str(tmp_path / "numbers" / "part=killed"))
    assert ids(table) == [0, 1, 2]
    assert table.append(numbers(spark, 3, 5), "killed"), "the same work, done again, replaces what was left"
    assert ids(table) == [0, 1, 2, 3, 4]


def test_replace_swaps_all_rows_and_sweeps_old_parts_later(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, str(tmp_path / "numbers"))
    table.replace(numbers(spark, 0, 3), "label")
    before = table.read()
    table.replace(numbers(spark, 10, 12), "label")
    assert sorted(row.id for row in before.collect()) == [0, 1, 2], "a reader in the middle still finds its part"
    table.replace(numbers(spark, 20, 21), "label")
    table.replace(numbers(spark, 20, 21), "label")
    assert ids(table) == [20]
    assert len([name for name in (tmp_path / "numbers").iterdir() if name.name.startswith("part=")]) == 2


def test_an_interrupted_commit_leaves_the_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, str(tmp_path / "numbers"))
    table.append(numbers(spark, 0, 3), "whole")
    (tmp_path / "numbers" / "_manifest" / ".0000000002.json.half").write_text('{"number": 2, "par')
    assert ids(table) == [0, 1, 2]


def test_a_second_writer_is_told(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, str(tmp_path / "numbers"))
    table.append(numbers(spark, 0, 3), "mine")
    stale = table.manifest()
    table.append(numbers(spark, 3, 4), "theirs")
    with pytest.raises(StorageError, match="another job has written"):
        table._commit(stale, numbers(spark, 0, 1).schema, ("mine",), {"mine": 1}, {})
    assert ids(table) == [0, 1, 2, 3]


def test_other_columns_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, str(tmp_path / "numbers"))
    table.append(numbers(spark, 0, 3), "numbers")
    with pytest.raises(StorageError, match="column 'day' is date there and string here"):
        table.append(spark.range(2).withColumn("day", lit("x")), "texts")


def test_a_table_takes_new_columns_that_may_be_null(spark: SparkSession, tmp_path: Path) -> None:
    """Also inside structs; rows from before have null there, and older rows may still come."""
    table = Table(spark, str(tmp_path / "numbers"))
    old = spark.range(2).withColumn("inner", struct(lit(1).alias("a")))
    new = (
        spark.range(2, 4)
        .withColumn("inner", struct(lit(1).alias("a"), lit(None).cast("double").alias("b")))
        .withColumn("note", lit(None).cast("string"))
    )
    table.append(old, "old")
    table.append(new, "new")
    table.append(old.withColumn("id", col("id") + 4), "old-again")
    assert table.read().columns == ["id", "inner", "note"]
    assert sorted((row.id, row.inner.b, row.note) for row in table.read().collect()) == [
        (number, None, None) for number in range(6)
    ]


def test_a_new_column_that_may_not_be_null_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, str(tmp_path / "numbers"))
    table.append(spark.range(2), "numbers")
    with pytest.raises(StorageError, match="only the new rows have the column 'extra', which may not be null"):
        table.append(spark.range(2).withColumn("extra", lit(1)), "more")
    assert ids(table) == [0, 1]


def test_what_a_table_was_made_with_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, str(tmp_path / "numbers"))
    table.replace(spark.range(2), "step", properties={"rule": {"share": 0.05}})
    assert table.manifest().properties == {"rule": {"share": 0.05}}
    table.replace(spark.range(2), "step")
    assert table.manifest().properties == {}


def test_compacting_keeps_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, str(tmp_path / "numbers"))
    for start in range(3):
        table.append(numbers(spark, start, start + 1), f"batch-{start}")
    table.compact()
    assert ids(table) == [0, 1, 2]
    assert len(table.manifest().parts) == 1


def test_no_table_yet(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, str(tmp_path / "nothing"))
    assert not table.exists
    with pytest.raises(StorageError, match="there is no table"):
        table.read()
