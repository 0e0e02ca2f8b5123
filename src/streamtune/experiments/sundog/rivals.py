"""Other ways to do Sundog's work on Spark, for comparison: plain DataFrames, and a kernel behind ``mapInArrow``.

Both count the same lines into daily events and sketches and write them as Parquet. The DataFrame version explodes
n-grams and joins; it takes every name it finds rather than the leftmost longest, and knows neither accents nor
quarantine: the straightforward thing, and less work than ours. DataSketches' ``hll_sketch_agg`` with 2¹³ registers
has about our error.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from streamtune.sundog.kernels.compilation import read_only
from streamtune.sundog.kernels.scanning import coupons_of, days_of, scan
from streamtune.sundog.kernels.text import normalise
from streamtune.sundog.knowledge import Knowledge, Matcher
from streamtune.sundog.windows import window_days

_LOG_K = 13
_EVERYTHING = 0


def name_table(spark: SparkSession, knowledge: Knowledge) -> DataFrame:
    """Names as normalised texts with their entities."""
    rows = [
        (normalise(name), number) for number, names in enumerate(knowledge.names) for name in names if normalise(name)
    ]
    return spark.createDataFrame(rows, "name string, entity int").distinct().cache()


def pair_table(spark: SparkSession, knowledge: Knowledge) -> DataFrame:
    """Related pairs by the numbers of their entities."""
    pairs = knowledge.pairs
    columns = [pa.array(pairs.low), pa.array(pairs.high), pa.array(np.arange(len(pairs.low), dtype=np.int32))]
    return spark.createDataFrame(pa.table(columns, names=["low", "high", "pair"])).cache()


def _sketched(rows: DataFrame) -> DataFrame:
    return rows.groupBy("day", "key").agg(
        sql.count("*").alias("events"), sql.hll_sketch_agg("user", sql.lit(_LOG_K)).alias("sketch")
    )


def count_with_dataframes(
    lines: DataFrame, names: DataFrame, pairs: DataFrame, entities: int, longest: int, target: str
) -> None:
    """Phase 1 with n-grams, joins and ``hll_sketch_agg``."""
    words = sql.split(sql.lower("query"), "[^a-z0-9]+")
    read = lines.select(
        sql.monotonically_increasing_id().alias("line"),
        "user",
        sql.to_date(sql.to_timestamp("time")).alias("day"),
        words.alias("words"),
    )
    grams = sql.flatten(sql.array(*(_grams(size) for size in range(1, longest + 1))))
    found = (
        read.select("line", "user", "day", sql.explode(grams).alias("name"))
        .join(sql.broadcast(names), "name")
        .select("line", "user", "day", "entity")
        .distinct()
    )
    one, other = found.alias("one"), found.alias("other")
    both = (
        one.join(
            other, (sql.col("one.line") == sql.col("other.line")) & (sql.col("one.entity") < sql.col("other.entity"))
        )
        .select(sql.col("one.entity").alias("low"), sql.col("other.entity").alias("high"), "one.day", "one.user")
        .join(sql.broadcast(pairs), ["low", "high"])
    )
    keys = (
        found.select("day", "user", (sql.col("entity") + 1).cast("long").alias("key"))
        .unionByName(both.select("day", "user", (sql.col("pair") + entities + 1).cast("long").alias("key")))
        .unionByName(
            found.select("line", "day", "user")
            .distinct()
            .select("day", "user", sql.lit(_EVERYTHING).cast("long").alias("key"))
        )
    )
    _sketched(keys).write.mode("overwrite").parquet(target)


def _grams(size: int) -> Column:
    """All runs of ``size`` words, as texts."""
    starts = sql.sequence(sql.lit(1), sql.size("words") - sql.lit(size - 1))
    texts = sql.transform(starts, lambda start: sql.array_join(sql.slice("words", start, sql.lit(size)), " "))
    return sql.when(sql.size("words") >= size, texts).otherwise(sql.array().cast("array<string>"))


def count_with_kernel(lines: DataFrame, matcher: Broadcast[Matcher], target: str) -> None:
    """Phase 1 with our kernel behind Spark's scan, and Spark's own aggregation of sketches."""
    rows = lines.select("user", "time", "query").mapInArrow(_sightings(matcher), "day int, key long, user int")
    _sketched(rows).write.mode("overwrite").parquet(target)


def _sightings(matcher: Broadcast[Matcher]) -> Any:
    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = matcher.value
        for batch in batches:
            texts = [_texts(batch.column(name)) for name in ("user", "time", "query")]
            coupons, days = coupons_of(*texts[0]), days_of(*texts[1])
            slots = (days - days.min()).astype(np.uint16)
            found, of_slot, _, _ = scan(known.trie, known.relations, known.entities, *texts[2], coupons, slots)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(of_slot.astype(np.int32) + days.min()),
                    pa.array((found >> np.uint64(32)).astype(np.int64)),
                    pa.array((found & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)),
                ],
                names=["day", "key", "user"],
            )

    return find


def _texts(column: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    filled = column.fill_null("")
    _, offsets, data = filled.buffers()
    starts = np.frombuffer(offsets, np.int32)[filled.offset : filled.offset + len(filled) + 1].astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return read_only(content), starts[:-1].copy(), starts[1:].copy()


def scan_and_tokenise(lines: DataFrame) -> int:
    """The bare cost: read all three columns and split the queries."""
    words = sql.size(sql.split("query", " "))
    row = lines.select(sql.sum(words + sql.length("user") + sql.length("time")).alias("all")).collect()[0]
    return int(row["all"])


def rank_with_sql(
    spark: SparkSession, source: str, pairs: DataFrame, entities: int, day: date, window: int, target: str
) -> None:
    """Phases 2 and 3 of a window from daily sketches: unions, joins, the features as expressions, the first ten."""
    days = window_days(day, window)
    panes = spark.read.parquet(source)
    numbered = sql.unix_date("day") if dict(panes.dtypes)["day"] == "date" else sql.col("day")
    merged = (
        panes.where(numbered.between(days[0], days[-1]))
        .groupBy("key")
        .agg(sql.sum("events").alias("events"), sql.hll_sketch_estimate(sql.hll_union_agg("sketch")).alias("users"))
        .cache()
    )
    total = merged.where("key = 0").collect()[0]
    of_entity = merged.where(sql.col("key").between(1, entities)).select(
        (sql.col("key") - 1).cast("int").alias("entity"), sql.col("events").alias("n"), sql.col("users").alias("u")
    )
    counted = merged.where(sql.col("key") > entities).select(
        (sql.col("key") - entities - 1).cast("int").alias("pair"), "events", "users"
    )
    joined = counted.join(pairs, "pair")
    both = joined.selectExpr("low as entity", "high as related", "events", "users").unionAll(
        joined.selectExpr("high as entity", "low as related", "events", "users")
    )
    rows = both.join(of_entity.withColumnsRenamed({"n": "entity_events", "u": "entity_users"}), "entity").join(
        of_entity.withColumnsRenamed({"entity": "related", "n": "related_events", "u": "related_users"}), "related"
    )
    for norm, whole in (("events", total.events), ("users", total.users)):
        rows = rows.select("*", *_features(norm, float(whole)))
    rows = rows.withColumns({
        "conditional_mean": (sql.col("conditional_events") + sql.col("conditional_users")) / 2,
        "reverse_conditional_mean": (sql.col("reverse_conditional_events") + sql.col("reverse_conditional_users")) / 2,
        "joint_mean": (sql.col("joint_events") + sql.col("joint_users")) / 2,
    })  # fmt: skip
    rows.write.mode("overwrite").parquet(f"{target}/features")
    order = Window.partitionBy("entity").orderBy(
        sql.desc("conditional_users"), sql.desc("users"), sql.desc("events"), "related"
    )
    ranked = (
        spark.read.parquet(f"{target}/features").withColumn("rank", sql.row_number().over(order)).where("rank <= 10")
    )
    ranked.select("entity", "related", "rank", "conditional_users").write.mode("overwrite").parquet(
        f"{target}/rankings"
    )
    merged.unpersist()


def _features(norm: str, whole: float) -> list[Column]:
    a, b = sql.col(f"entity_{norm}"), sql.col(f"related_{norm}")
    n = sql.least(sql.col(norm), a, b)
    total = sql.greatest(sql.lit(whole), a + b - n)
    joint, p_a, p_b, neither = n / total, a / total, b / total, sql.greatest(total - a - b + n, sql.lit(0.0)) / total

    def part(p: Column) -> Column:
        return sql.when(p > 0, -p * sql.ln(p)).otherwise(0.0)

    def divergence(p: Column, q: Column) -> Column:
        rest = sql.when((p < 1) & (q < 1), (1 - p) * sql.ln((1 - p) / (1 - q))).otherwise(0.0)
        return sql.when(p > 0, p * sql.ln(p / q)).otherwise(0.0) + rest

    h_a, h_b = part(p_a) + part(1 - p_a), part(p_b) + part(1 - p_b)
    h_ab = part(joint) + part((a - n) / total) + part((b - n) / total) + part(neither)
    named = {
        "joint": joint,
        "entity_probability": p_a,
        "related_probability": p_b,
        "conditional": n / a,
        "reverse_conditional": n / b,
        "pmi": sql.ln(joint / (p_a * p_b)),
        "mutual_information": h_a + h_b - h_ab,
        "kl": divergence(n / a, p_b),
        "reverse_kl": divergence(n / b, p_a),
        "entity_entropy": h_a,
        "related_entropy": h_b,
        "joint_entropy": h_ab,
        "conditional_entropy": h_ab - h_a,
    }
    return [column.alias(f"{name}_{norm}") for name, column in named.items()]
