"""The Spark schemas of the history's tables. Those of runs are derived from the nouns: a metric is declared there."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from streamtune.dataflow import Run, RunEdge, RunOperator
from streamtune.spark.schemas import struct_of

DAY = "day"


def _required(name: str, kind: DataType) -> StructField:
    return StructField(name, kind, nullable=False)


def _optional(name: str, kind: DataType) -> StructField:
    return StructField(name, kind, nullable=True)


OPERATOR = struct_of(RunOperator)
EDGE = struct_of(RunEdge)
RUN = struct_of(Run)

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
