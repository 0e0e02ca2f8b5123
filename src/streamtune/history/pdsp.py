"""Reader for the runs that the authors of PDSP-Bench measured on Flink and Storm.

They have no busy, idle or backpressured times and no rates per operator: those metrics are null, and no label can be
derived. The id of a run is the engine's own job id (``artifact``), so that one job filed twice is detected.
Latency is the marker at the last operator and the source rate is the one that arrived: the nominal rate and the
reported end-to-end latency are known to be wrong. A requested vector of parallelism that has not one entry per operator
is not dirt: operators share entries, and what ran was measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from streamtune.dataflow.operator import KEYED_TYPES, SOURCE
from streamtune.dataflow.run import SCHEMA_VERSION
from streamtune.history import reasons
from streamtune.history.readers import RAW_COLUMNS, parse_json, parse_reasons
from streamtune.history.schema import EDGE, OPERATOR, RUN
from streamtune.spark.schemas import nullable

PDSP = """
    source_path string, artifact string, framework string, application string, query string, job_name string,
    cluster struct<hardware: string, hardware_meta: string>,
    parallelism_vector array<int>, t_start double, t_end double,
    dag struct<
      nodes: array<struct<
        id: string, type: string, parallelism: int, parallelism_from: string,
        features: struct<
          window_type: string, window_policy: string, window_unit: string, window_length: double,
          window_slide: double, key_class: string, join_key_class: string>,
        metrics: struct<selectivity: double>>>,
      edges: array<array<string>>>,
    metrics struct<
      source_rate_p50: double, sink_in_rate_steady_mean: double, throughput_p50_reported: double,
      latency_last_op_p50: double>
"""

_NODES = "record.dag.nodes"


def read_pdsp(lines: DataFrame) -> DataFrame:
    """Runs in our schema, with the reasons that are specific to this format."""
    parsed = lines.withColumn("record", parse_json(PDSP, sql.col("raw")))
    throughput = sql.coalesce("record.metrics.sink_in_rate_steady_mean", "record.metrics.throughput_p50_reported")
    known = {
        "schema_version": sql.lit(SCHEMA_VERSION),
        "run_id": sql.col("record.artifact"),
        "job": sql.concat_ws("-q", "record.application", "record.query"),
        "engine": sql.col("record.framework"),
        "observed_at": sql.timestamp_seconds("record.t_end"),
        "window_s": sql.col("record.t_end") - sql.col("record.t_start"),
        "source_rates": _source_rates(),
        "operators": sql.transform(_NODES, _operator),
        "edges": _edges(),
        "latency_ms": sql.col("record.metrics.latency_last_op_p50"),
        "throughput_per_s": throughput,
    }
    columns = [
        known.get(field.name, sql.lit(None).cast(field.dataType)).alias(field.name) for field in nullable(RUN).fields
    ]
    return parsed.select(*columns, _found().alias("found"), *map(sql.col, RAW_COLUMNS))


def _source_rates() -> Column:
    """The measured rate is the sum over all sources: each gets an equal share."""
    sources = sql.filter(_NODES, lambda node: node["type"] == SOURCE)
    share = sql.col("record.metrics.source_rate_p50") / sql.size(sources)
    return sql.map_from_arrays(sql.transform(sources, lambda node: node["id"]), sql.transform(sources, lambda _: share))


def _operator(node: Column) -> Column:
    features = node["features"]
    kind = sql.when(node["type"] == "flatmap", "flat_map").otherwise(node["type"])
    scale = sql.when(features["window_unit"] == "ms", 0.001).otherwise(1.0)
    is_join = features["join_key_class"].isNotNull()
    known = {
        "id": node["id"],
        "type": kind,
        "window_type": features["window_type"],
        "window_policy": features["window_policy"],
        "window_length": features["window_length"] * scale,
        "window_slide": sql.when(features["window_type"] == "sliding", features["window_slide"] * scale),
        "join_key_class": features["join_key_class"],
        "aggregate_key_class": sql.when(~is_join, features["key_class"]),
        "parallelism": node["parallelism"],
    }
    return _struct(OPERATOR, known)


def _struct(schema: StructType, known: Mapping[str, Column]) -> Column:
    """A value of that schema; null where nothing is known."""
    return sql.struct(
        *[known.get(field.name, sql.lit(None)).cast(field.dataType).alias(field.name) for field in schema.fields]
    )


def _edges() -> Column:
    keyed = sql.transform(
        sql.filter(_NODES, lambda node: node["type"].isin(*KEYED_TYPES, "window_process")), lambda node: node["id"]
    )
    return sql.transform(
        "record.dag.edges",
        lambda edge: _struct(
            EDGE,
            {
                "source": edge[0],
                "target": edge[1],
                "partitioning": sql.when(sql.array_contains(keyed, edge[1]), "hash").otherwise("rebalance"),
            },
        ),
    )


def _found() -> Column:
    """Parse errors, or the defects that only this format shows."""
    nodes, vector = sql.col(_NODES), sql.col("record.parallelism_vector")
    same_length = sql.size(nodes) == sql.size(vector)
    pairs = sql.arrays_zip(nodes.alias("node"), vector.alias("asked"))
    selectivity = sql.exists(
        nodes, lambda node: node["metrics"].isNotNull() & ~_is_finite(node["metrics"]["selectivity"])
    )
    rules = {
        reasons.NON_FINITE_SELECTIVITY: selectivity,
        reasons.PARALLELISM_MISMATCH: same_length
        & sql.exists(
            pairs,
            lambda pair: (
                (pair["node"]["parallelism_from"] == "measured") & (pair["node"]["parallelism"] != pair["asked"])
            ),
        ),
        reasons.HARDWARE_CONTRADICTION: _hardware_contradiction(),
        reasons.WRONG_APPLICATION: _wrong_application(),
    }
    dirt = sql.array_compact(sql.array(*[sql.when(rule, sql.lit(reason)) for reason, rule in rules.items()]))
    unparsed = parse_reasons(sql.col("record"))
    return sql.when(sql.size(unparsed) > 0, unparsed).otherwise(dirt)


def _is_finite(number: Column) -> Column:
    return number.isNotNull() & ~sql.isnan(number) & (sql.abs(number) != float("inf"))


def _hardware_contradiction() -> Column:
    named, meta = sql.col("record.cluster.hardware"), sql.col("record.cluster.hardware_meta")
    return sql.coalesce(named != meta, sql.lit(False)) | ~sql.contains(sql.col("record.source_path"), named)


def _wrong_application() -> Column:
    """The folder, the application, the number of its query and the job's name must agree.

    Names are compared without punctuation and without the letter s: folders and jobs are called ``ad-analytics``,
    ``Ads_Analytics`` and ``AdAnalytics`` without meaning anything by it.
    """

    def bare(name: str) -> Column:
        return sql.regexp_replace(sql.lower(name), "[^a-rt-z0-9]", "")

    application = bare("record.application")
    of_folder = sql.contains(bare("record.source_path"), application)
    of_job = sql.coalesce(sql.contains(bare("record.job_name"), application), sql.lit(True))
    # Folders such as GCM_2 or tpch-2 name the query; the record names the one whose operators were measured.
    numbered = sql.concat(sql.lit("(?:[A-Z]{2,3}_|"), sql.col("record.application"), sql.lit("-)([0-9])(?:_new)?/"))
    number = sql.call_function("regexp_extract", sql.col("record.source_path"), numbered, sql.lit(1))
    of_query = (number == "") | (number == sql.col("record.query"))
    return ~(of_folder & of_job & of_query)
