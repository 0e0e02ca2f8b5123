"""The Spark schemas of the history's tables. ``RUN`` has the fields of ``dataflow.Run``; a test holds them together."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

DAY = "day"


def _required(name: str, kind: DataType) -> StructField:
    return StructField(name, kind, nullable=False)


def _optional(name: str, kind: DataType) -> StructField:
    return StructField(name, kind, nullable=True)


FEATURE_NUMBERS = ("window_length", "window_slide", "tuple_width_in", "tuple_width_out")
METRICS = (
    "records_in_per_s",
    "records_out_per_s",
    "busy_ms_per_s",
    "idle_ms_per_s",
    "backpressured_ms_per_s",
    "busy_max_ms_per_s",
    "cpu_load",
)

OPERATOR = StructType(
    [
        _required("id", StringType()),
        _required("type", StringType()),
        _optional("window_type", StringType()),
        _optional("window_policy", StringType()),
        _optional("window_length", DoubleType()),
        _optional("window_slide", DoubleType()),
        _optional("join_key_class", StringType()),
        _optional("aggregate_class", StringType()),
        _optional("aggregate_key_class", StringType()),
        _optional("aggregate_function", StringType()),
        _optional("tuple_width_in", DoubleType()),
        _optional("tuple_width_out", DoubleType()),
        _optional("tuple_type", StringType()),
        _required("parallelism", IntegerType()),
        *(_optional(name, DoubleType()) for name in METRICS),
    ]
)

EDGE = StructType(
    [_required("source", StringType()), _required("target", StringType()), _required("partitioning", StringType())]
)

RUN = StructType(
    [
        _required("schema_version", IntegerType()),
        _required("run_id", StringType()),
        _required("job", StringType()),
        _required("engine", StringType()),
        _required("observed_at", TimestampType()),
        _required("window_s", DoubleType()),
        _required("source_rates", MapType(StringType(), DoubleType(), valueContainsNull=False)),
        _required("operators", ArrayType(OPERATOR, containsNull=False)),
        _required("edges", ArrayType(EDGE, containsNull=False)),
        _optional("latency_ms", DoubleType()),
        _optional("throughput_per_s", DoubleType()),
    ]
)

# A stored run: the record itself, a hash of its contents, and the day it belongs to, by which the table is partitioned.
STORED_RUN = StructType([*RUN.fields, _required("content_hash", LongType()), _required(DAY, DateType())])

REJECTED = StructType(
    [
        _optional("run_id", StringType()),
        _optional("job", StringType()),
        _optional("engine", StringType()),
        _required("reasons", ArrayType(StringType(), containsNull=False)),
        _required("raw", StringType()),
        _required("source_file", StringType()),
        _required("position", LongType()),
        _required(DAY, DateType()),
    ]
)

LABELS = StructType(
    [
        _required("run_id", StringType()),
        _required("labels", ArrayType(ByteType(), containsNull=False)),
        _required(DAY, DateType()),
    ]
)

# Features in their compact form: `features.FeatureEncoder.dense` expands codes to one-hot when they are read.
FEATURES = StructType(
    [
        _required("run_id", StringType()),
        _required("job", StringType()),
        _required("split", StringType()),
        _required("codes", ArrayType(ShortType(), containsNull=False)),
        _required("numbers", ArrayType(FloatType(), containsNull=False)),
        _required("parallelism", ArrayType(IntegerType(), containsNull=False)),
        _required("edge_source", ArrayType(IntegerType(), containsNull=False)),
        _required("edge_target", ArrayType(IntegerType(), containsNull=False)),
        _required(DAY, DateType()),
    ]
)
