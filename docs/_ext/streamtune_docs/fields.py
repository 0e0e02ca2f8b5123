"""Fields of a pydantic model as a table: name, type, default, constraints, description."""

from __future__ import annotations

import importlib
import math
import types
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_SIGNS = {"gt": "> {}", "ge": "≥ {}", "lt": "< {}", "le": "≤ {}", "multiple_of": "a multiple of {}"}
_LENGTHS = {"min_length": "at least {} long", "max_length": "at most {} long"}


def table_of(path: str, own: bool = False) -> str:
    """The table of ``module:Class``; with ``-name,name`` behind the class, without those fields.

    >>> print(table_of("streamtune.dataflow.operator:Join"))
    | field | type | default | description |
    | --- | --- | --- | --- |
    | `key_class` | str | required | class of the key that both sides are joined on |
    """
    module, _, rest = path.partition(":")
    name, _, left_out = rest.partition("-")
    model = getattr(importlib.import_module(module), name)
    fields = {key: value for key, value in model.model_fields.items() if key not in left_out.split(",")}
    return table(fields, own=own)


def table(
    fields: Mapping[str, FieldInfo],
    own: bool = False,
    links: Mapping[type, str] | None = None,
    extra: tuple[str, Mapping[str, str]] | None = None,
) -> str:
    """Rows in the order of declaration.

    A column of constraints appears when there are any, or when ``own`` asks for it; ``extra`` is one more column, by
    its title and by field.
    """
    limits = {name: constraints(field) for name, field in fields.items()}
    columns: dict[str, Mapping[str, str]] = {
        "field": {name: f"`{field.alias or name}`" for name, field in fields.items()},
        "type": {name: type_name(field.annotation, links) for name, field in fields.items()},
        "default": {name: default_of(field) for name, field in fields.items()},
    }
    if own or any(limits.values()):
        columns["constraints"] = limits
    if extra is not None:
        columns[extra[0]] = extra[1]
    columns["description"] = {name: field.description or "" for name, field in fields.items()}
    rows = [list(columns), ["---"] * len(columns), *([cells[name] for cells in columns.values()] for name in fields)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def type_name(annotation: Any, links: Mapping[type, str] | None = None) -> str:
    """A type as a reader of the docs calls it.

    >>> type_name(float | None), type_name(Literal["a", "b"]), type_name(tuple[str, ...]), type_name(dict[str, int])
    ('float or null', '`a`, `b`', 'list of str', 'mapping str → int')
    """
    links = links or {}
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(args[0], links)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(arg, links) for arg in args)
    if origin in (tuple, list, set, frozenset) or (isinstance(origin, type) and issubclass(origin, Iterable)):
        return _container(origin, args, links)
    if annotation is type(None):
        return "null"
    if annotation in links:
        return f"[{annotation.__name__}]({links[annotation]})"
    return (getattr(annotation, "__name__", None) or str(annotation).removeprefix("typing.")).lstrip("_")


def _container(origin: Any, args: tuple[Any, ...], links: Mapping[type, str]) -> str:
    if issubclass(origin, Mapping):
        return f"mapping {type_name(args[0], links)} → {type_name(args[1], links)}"
    if origin is tuple and args[-1] is not Ellipsis:
        return "(" + ", ".join(type_name(arg, links) for arg in args) + ")"
    return f"list of {type_name(args[0], links)}"


def default_of(field: FieldInfo) -> str:
    """What holds when nothing is said."""
    return "required" if field.is_required() else shown(field.get_default(call_default_factory=True))


def shown(value: Any) -> str:
    """A value as it is written in a YAML file, or for models what they are.

    >>> shown(None), shown(True), shown(1e-9), shown((1, 2)), shown(math.inf)
    ('–', '`true`', '`1e-09`', '`[1, 2]`', '`.inf`')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, BaseModel):
        return f"its defaults{_differences(value)}"
    return f"`{_plain(value)}`"


def _differences(value: BaseModel) -> str:
    said = {name: getattr(value, name) for name in sorted(value.model_fields_set)}
    return ", with " + ", ".join(f"`{name}` {shown(got)}" for name, got in said.items()) if said else ""


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, float) and math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_plain(got)}" for key, got in value.items()) + "}"
    if isinstance(value, frozenset | set):
        value = sorted(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return str(value)


def constraints(field: FieldInfo) -> str:
    """Bounds and patterns, from the field and from within its type.

    >>> from pydantic import Field
    >>> constraints(Field(gt=0, le=1)), constraints(Field(default=1.0, allow_inf_nan=False))
    ('> 0, ≤ 1', 'finite')
    """
    return ", ".join(dict.fromkeys(_bounds([*field.metadata, *_nested_metadata(field.annotation)])))


def _nested_metadata(annotation: Any) -> list[Any]:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return [part for item in args[1:] for part in (item.metadata if isinstance(item, FieldInfo) else [item])]
    if origin in (Union, types.UnionType):
        return [item for arg in args for item in _nested_metadata(arg)]
    return []


def _bounds(metadata: Iterable[Any]) -> Iterable[str]:
    for item in metadata:
        for name, words in {**_SIGNS, **_LENGTHS}.items():
            if getattr(item, name, None) is not None:
                yield words.format(_plain(getattr(item, name)))
        if getattr(item, "pattern", None):
            yield f"matches `{item.pattern}`"
        if getattr(item, "allow_inf_nan", None) is False:
            yield "finite"


__all__ = ["constraints", "default_of", "shown", "table", "table_of", "type_name"]
