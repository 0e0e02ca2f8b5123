"""The Spark schema of a run follows from the nouns; what version 1 had is still there."""

from __future__ import annotations

from pyspark.sql.types import DoubleType, StructType

from streamtune.dataflow import METRICS, OperatorMetrics, Run, RunEdge, RunOperator
from streamtune.history.schema import EDGE, OPERATOR, RUN
from streamtune.spark.schemas import nullable

# As release 0.1.0 wrote it, column by column.
RUN_V1 = """
    schema_version int, run_id string, job string, engine string, observed_at timestamp, window_s double,
    source_rates map<string,double>, operators array<>, edges array<>, latency_ms double, throughput_per_s double
"""
OPERATOR_V1 = """
    id string, type string, window_type string, window_policy string, window_length double, window_slide double,
    join_key_class string, aggregate_class string, aggregate_key_class string, aggregate_function string,
    tuple_width_in double, tuple_width_out double, tuple_type string, parallelism int,
    records_in_per_s double, records_out_per_s double, busy_ms_per_s double, idle_ms_per_s double,
    backpressured_ms_per_s double, busy_max_ms_per_s double, cpu_load double
"""


def columns(text: str) -> list[list[str]]:
    return [column.split() for column in " ".join(text.split()).split(", ")]


def test_every_column_of_version_1_is_there_in_the_same_order() -> None:
    """The order matters: the hash of a run's contents is taken over its columns one after the other."""
    for schema, text in ((RUN, RUN_V1), (OPERATOR, OPERATOR_V1)):
        kept = [name for name in schema.fieldNames() if name in {column[0] for column in columns(text)}]
        assert kept == [column[0] for column in columns(text)]
        for name, kind in columns(text):
            if kind != "array<>":
                assert schema[name].dataType.simpleString() == kind
    assert [name for name in EDGE.fieldNames() if name in ("source", "target", "partitioning")] == [
        "source",
        "target",
        "partitioning",
    ]


def test_what_version_2_adds_may_be_null() -> None:
    for schema, text in ((RUN, RUN_V1), (OPERATOR, OPERATOR_V1)):
        known = {column[0] for column in columns(text)}
        assert all(field.nullable for field in schema.fields if field.name not in known)


def test_the_columns_are_the_fields_of_the_nouns() -> None:
    for schema, model in ((OPERATOR, RunOperator), (EDGE, RunEdge), (RUN, Run)):
        assert schema.fieldNames() == list(model.model_fields)


def test_a_metric_is_declared_once() -> None:
    """Every metric of an observation is a nullable column of numbers in the history, and there is no other."""
    assert set(METRICS) == set(OperatorMetrics.model_fields) - {"parallelism"}
    for name in METRICS:
        assert OPERATOR[name].dataType == DoubleType()
        assert OPERATOR[name].nullable


def test_required_columns_may_not_be_null() -> None:
    for name in ("run_id", "job", "engine", "observed_at", "window_s", "source_rates", "operators", "edges"):
        assert not RUN[name].nullable
    assert not OPERATOR["parallelism"].nullable


def test_nullable_reaches_every_level() -> None:
    loosened = nullable(RUN)
    assert isinstance(loosened, StructType)
    assert "nullable': False" not in str(loosened.jsonValue())
    assert loosened.fieldNames() == RUN.fieldNames()
