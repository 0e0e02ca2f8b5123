"""The Spark schema and the pydantic model are two spellings of one thing."""

from __future__ import annotations

from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from streamtune.dataflow import Run, RunEdge, RunOperator
from streamtune.history.schema import EDGE, METRICS, OPERATOR, RUN
from streamtune.spark.schemas import nullable

_PLAIN = {str: StringType(), int: IntegerType(), float: DoubleType(), datetime: TimestampType()}


def expected(annotation: Any) -> tuple[DataType, bool]:
    """(Spark type, nullable) that a pydantic annotation asks for."""
    if get_origin(annotation) is UnionType:
        (inner,) = (entry for entry in get_args(annotation) if entry is not NoneType)
        return expected(inner)[0], True
    if annotation in _PLAIN:
        return _PLAIN[annotation], False
    if get_origin(annotation) is Literal:
        return StringType(), False
    if get_origin(annotation) is tuple:
        return ArrayType(struct(get_args(annotation)[0]), containsNull=False), False
    if get_origin(annotation) is dict:
        key, value = get_args(annotation)
        return MapType(expected(key)[0], expected(value)[0], valueContainsNull=False), False
    raise AssertionError(f"no Spark type is agreed on for {annotation}")


def struct(model: type[BaseModel]) -> StructType:
    result = StructType()
    for name, field in model.model_fields.items():
        kind, optional = expected(field.annotation)
        result.add(name, kind, optional)
    return result


@pytest.mark.parametrize(("schema", "model"), [(OPERATOR, RunOperator), (EDGE, RunEdge), (RUN, Run)])
def test_spark_schema_has_the_fields_of_the_model(schema: StructType, model: type[BaseModel]) -> None:
    assert schema == struct(model)


def test_metrics_are_fields_of_an_operator() -> None:
    assert set(METRICS) <= set(RunOperator.model_fields)


def test_nullable_reaches_every_level() -> None:
    loosened = nullable(RUN)
    assert "nullable': False" not in str(loosened.jsonValue())
    assert loosened.fieldNames() == RUN.fieldNames()
