"""What a file of ours says against its fields, in one sentence for the person who wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from streamtune.provisioning.problem import ProvisioningError

Checked = TypeVar("Checked", bound=BaseModel)
_SAID = {
    "too_short": "is empty: give at least one",
    "tuple_type": "must be a list",
    "missing": "is missing",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "string_type": "must be text",
}
_SAYS_IT_ALL = ("too_short", "missing")


def checked(kind: type[Checked], data: dict[str, Any], path: Path) -> Checked:
    """The values of a file as what they are meant to be; every error names the file and the field."""
    _refuse_booleans(data, data, (), path)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place, parts = _place(data, first["loc"]), first["loc"]
        if first["input"] is None and parts[:1] == ("workload",) and len(parts) == 2:
            raise ProvisioningError(
                f"{path}: the workload of epoch {parts[1]} is missing: fill the gap or remove the epoch"
            ) from error
        if first["type"] == "extra_forbidden":
            known = ", ".join(_model_at(kind, parts[:-1]).model_fields)
            raise ProvisioningError(f"{path}: {place}: unknown field; the fields are {known}") from error
        problem = _SAID.get(first["type"], first["msg"].removeprefix("Value error, "))
        is_told = isinstance(first["input"], (dict, list)) or not place or first["type"] in _SAYS_IT_ALL
        got = "" if is_told else f", but got {first['input']!r}"
        raise ProvisioningError(f"{path}: {f'{place}: ' if place else ''}{problem}{got}") from error


def _place(data: dict[str, Any], parts: tuple[int | str, ...]) -> str:
    """``sizes.0.price`` as the size's own name says it."""
    if len(parts) > 2 and parts[0] == "sizes" and isinstance(parts[1], int):
        name = data["sizes"][parts[1]].get("name")
        if isinstance(name, str) and name:
            return f"size '{name}': {'.'.join(map(str, parts[2:]))}"
    return ".".join(map(str, parts))


def _model_at(kind: type[BaseModel], parts: tuple[int | str, ...]) -> type[BaseModel]:
    """The model that a place in a document is of."""
    for part in parts:
        if isinstance(part, str) and part in kind.model_fields:
            told = kind.model_fields[part].annotation
            inner = [one for one in (told, *get_args(told)) if isinstance(one, type) and issubclass(one, BaseModel)]
            kind = inner[0] if inner else kind
    return kind


def _refuse_booleans(data: dict[str, Any], value: Any, parts: tuple[int | str, ...], path: Path) -> None:
    """``true`` is no number: it would be read as 1."""
    if isinstance(value, bool):
        raise ProvisioningError(f"{path}: {_place(data, parts)}: must be a number, but got {str(value).lower()}")
    if isinstance(value, dict):
        for key, one in value.items():
            _refuse_booleans(data, one, (*parts, str(key)), path)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            _refuse_booleans(data, one, (*parts, number), path)
