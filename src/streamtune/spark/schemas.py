"""Spark schemas from pydantic models, and how schemas are compared and widened."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_PLAIN: dict[object, type[DataType]] = {
    str: StringType,
    int: IntegerType,
    float: DoubleType,
    bool: BooleanType,
    datetime: TimestampType,
}


def struct_of(model: type[BaseModel]) -> StructType:
    """The columns of a pydantic model, nested models included. What may be None or NaN is nullable.

    >>> class Point(BaseModel):
    ...     x: float
    ...     label: str | None = None
    >>> struct_of(Point).simpleString()
    'struct<x:double,label:string>'
    """
    fields = []
    for name, field in model.model_fields.items():
        kind, optional = _without_none(field.annotation)
        absent = isinstance(field.default, float) and math.isnan(field.default)
        fields.append(StructField(name, _kind_of(kind), nullable=optional or absent))
    return StructType(fields)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, UnionType):
        others = [part for part in get_args(annotation) if part is not NoneType]
        if len(others) != 1:
            raise TypeError(f"a column has one type, but got {annotation}")
        return others[0], True
    return annotation, False


def _kind_of(annotation: Any) -> DataType:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind_of(parts[0])
    if origin is Literal:
        return StringType()
    if origin is tuple:
        return ArrayType(_kind_of(parts[0]), containsNull=False)
    if origin in (dict, Mapping):
        return MapType(_kind_of(parts[0]), _kind_of(parts[1]), valueContainsNull=False)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return struct_of(annotation)
    return _PLAIN[annotation]()


def nullable(schema: StructType) -> StructType:
    """The same columns with everything allowed to be null: what a parser or a file format can promise."""
    return StructType([StructField(field.name, _nullable(field.dataType), True) for field in schema.fields])


def _nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return nullable(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), containsNull=True)
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType), valueContainsNull=True)
    return kind


def widened(known: StructType, wanted: StructType) -> StructType:
    """All columns of both, nested ones too; a column that one of them lacks is nullable. A clash is a TypeError.

    >>> old = StructType([StructField("a", IntegerType(), False)])
    >>> new = StructType([StructField("a", IntegerType(), False), StructField("b", StringType(), True)])
    >>> widened(old, new).fieldNames()
    ['a', 'b']
    """
    fields = {field.name: field for field in known.fields}
    names = [*fields, *(name for name in wanted.fieldNames() if name not in fields)]
    theirs = {field.name: field for field in wanted.fields}
    result = []
    for name in names:
        if name in fields and name in theirs:
            kind = _widened_kind(name, fields[name].dataType, theirs[name].dataType)
            result.append(StructField(name, kind, fields[name].nullable or theirs[name].nullable))
        else:
            only = fields.get(name) or theirs[name]
            if not only.nullable:
                where = "the rows of the table" if name in fields else "the new rows"
                raise TypeError(f"only {where} have the column '{name}', which may not be null")
            result.append(only)
    return StructType(result)


def _widened_kind(name: str, known: DataType, wanted: DataType) -> DataType:
    if isinstance(known, StructType) and isinstance(wanted, StructType):
        return widened(known, wanted)
    if isinstance(known, ArrayType) and isinstance(wanted, ArrayType):
        inner = _widened_kind(name, known.elementType, wanted.elementType)
        return ArrayType(inner, known.containsNull or wanted.containsNull)
    if type(known) is not type(wanted) or (not isinstance(known, MapType) and known != wanted):
        raise TypeError(f"column '{name}' is {known.simpleString()} there and {wanted.simpleString()} here")
    return known
