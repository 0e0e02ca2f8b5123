"""``SPACE.yaml``: the one file that says what is tuned, by which command it is measured, and within which limits."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from streamtune.autoconfig.expressions import Expression
from streamtune.autoconfig.space import Knob, Space, SpaceError, Value
from streamtune.dataflow.documents import DocumentError, read_document
from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_DIRECTIONS = {
    "maximize": "maximize", "maximise": "maximize", "max": "maximize",
    "minimize": "minimize", "minimise": "minimize", "min": "minimize",
}  # fmt: skip


class ObjectiveSpec(Frozen):
    """How one configuration is measured: a command whose last line is a number or ``{"value": …}``."""

    command: tuple[str, ...] = Field(
        default=(), description="Program and arguments; {knob} stands for the knob's value."
    )
    direction: Literal["maximize", "minimize"] = Field(
        default="maximize", description="Whether more or less is better."
    )
    timeout: float | None = Field(
        default=600.0, gt=0, allow_inf_nan=False, description="Seconds until a run is ended and counts as failed."
    )
    repeats: int = Field(default=1, ge=1, le=1000, description="Runs per trial; their mean is the trial's value.")
    require: tuple[str, ...] = Field(
        default=(), description="Conditions over the reported figures, such as 'throughput >= 1000'."
    )
    hopeless: float | None = Field(
        default=None, gt=0, lt=1, description="No more repeats when the first is below this share of the best so far."
    )
    restore: tuple[str, ...] = Field(
        default=(), description="Run after a failed trial with the best configuration so far: puts the job back on it."
    )

    _required: tuple[Expression, ...] = PrivateAttr(default=())

    @field_validator("command", "restore", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(shlex.split(value))
        if isinstance(value, list):
            return tuple(_as_text(item) for item in value)
        return value

    @field_validator("direction", mode="before")
    @classmethod
    def _direction(cls, value: object) -> object:
        return _DIRECTIONS.get(value.lower(), value) if isinstance(value, str) else value

    @field_validator("require", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _parse(self) -> ObjectiveSpec:
        self._required = tuple(Expression.parse(text) for text in self.require)
        return self

    @property
    def maximise(self) -> bool:
        return self.direction == "maximize"

    @property
    def requirements(self) -> tuple[Expression, ...]:
        return self._required


class Problem(Frozen):
    """An objective over a space; ``inputs`` gives the dataflow, so that similar jobs can be found."""

    objective: ObjectiveSpec = Field(default_factory=ObjectiveSpec)
    space: Space
    engine: str | None = Field(default=None, description="spark or flink: how the config file is written.")
    inputs: dict[str, tuple[str, ...]] | None = Field(
        default=None, description="Operator → the operators it reads; for warm starts from similar jobs."
    )
    types: dict[str, str] = Field(default_factory=dict, description="Operator → type, where known.")
    hosts: int | None = Field(
        default=None, ge=1, description="Machines that instances are dealt to evenly: totals that fill them are tried."
    )

    @property
    def fingerprint(self) -> str:
        """What two sessions must share to be one: objective and space, not descriptions."""
        data = self.model_dump(mode="json", exclude={"objective": {"timeout", "restore"}})
        if self.hosts is None:
            del data["hosts"]  # sessions from before there was such a key go on
        for knob in data["space"]["knobs"].values():
            knob.pop("description")
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]

    def in_order(self, names: Iterable[str]) -> Problem:
        """The same problem with its knobs in the order of ``names``, as a session began with them."""
        wanted = list(names)
        if wanted == list(self.space.knobs):
            return self
        space = Space(knobs={name: self.space.knobs[name] for name in wanted}, constraints=self.space.constraints)
        return self.model_copy(update={"space": space})

    def unused_knobs(self) -> list[str]:
        """Knobs that no placeholder of the command names."""
        return [name for name in self.space.knobs if name not in self._placeholders]

    def unknown_placeholders(self) -> list[str]:
        """What stands in braces in the command and names no knob: perhaps meant so, perhaps misspelt."""
        return [name for name in self._placeholders if name not in self.space.knobs]

    @cached_property
    def _placeholders(self) -> tuple[str, ...]:
        found = (name for part in self.objective.command for name in _PLACEHOLDER.findall(part))
        return tuple(dict.fromkeys(found))


def load_problem(path: Path) -> Problem:
    """Read a space file: JSON, or YAML by the core schema of 1.2 (``on`` is a text, ``1e-3`` a number).

    :raises SpaceError: names the file and the place, says what is wrong.
    """
    try:
        data = read_document(path, core=True)
    except DocumentError as error:
        raise SpaceError(f"{path} {error.problem}") from error
    return parse_problem(data, str(path))


def parse_problem(data: Any, place: str) -> Problem:
    """A problem from plain values: ``objective``, ``knobs``, ``constraints``, and optionally ``engine``, ``inputs``."""
    if data is None:
        raise SpaceError(f"{place}: the file is empty: give objective and knobs")
    if not isinstance(data, dict):
        raise SpaceError(f"{place}: must be a mapping with objective and knobs, but got {type(data).__name__}")
    known = {"objective", "knobs", "constraints", "engine", "inputs", "types", "hosts", "name", "description"}
    unknown = sorted(str(key) for key in set(data) - known)
    if unknown:
        raise SpaceError(f"{place}: unknown key {', '.join(unknown)}: there are {', '.join(sorted(known))}")
    if not data.get("knobs"):
        raise SpaceError(
            f"{place}: no knobs: give at least one, for instance knobs: {{threads: {{type: int, low: 1, high: 8}}}}"
        )
    if not isinstance(data["knobs"], dict):
        raise SpaceError(f"{place}: knobs must be a mapping name → knob, but got {type(data['knobs']).__name__}")
    constraints = data.get("constraints") or []
    constraints = [constraints] if isinstance(constraints, str) else constraints
    _check_shape(data, constraints, place)
    parts = {key: data[key] for key in ("engine", "inputs", "types", "hosts") if data.get(key) is not None}
    try:
        space = Space(knobs=data["knobs"], constraints=constraints)
        problem = Problem(objective=data.get("objective") or {}, space=space, **parts)
        space.anchor  # noqa: B018  a space without an allowed configuration is refused now, not at the first trial
    except ValidationError as error:
        raise SpaceError(f"{place}: {_in_words(error)}") from error
    except StreamTuneError as error:
        raise SpaceError(f"{place}: {error}") from error
    return problem


def _check_shape(data: dict[str, Any], constraints: Any, place: str) -> None:
    """What pydantic would tell in its own words."""
    for name, knob in data["knobs"].items():
        if not isinstance(name, str):
            raise SpaceError(f"{place}: knobs: a name must be a text, but got {name!r}: put it in quotes")
        if not isinstance(knob, dict | Knob):
            raise SpaceError(f"{place}: knobs.{name}: must be a mapping with {_some(Knob)}, but got {knob!r}")
    objective = data.get("objective") or {}
    if not isinstance(objective, dict | ObjectiveSpec):
        raise SpaceError(f"{place}: objective: must be a mapping with {_some(ObjectiveSpec)}, but got {objective!r}")
    if not isinstance(constraints, list | tuple):
        raise SpaceError(f"{place}: constraints: must be a list of expressions, but got {constraints!r}")
    for number, one in enumerate(constraints, start=1):
        if not isinstance(one, str):
            raise SpaceError(
                f"{place}: constraint {number} must be an expression such as 'a + b <= 10', but got {one!r}"
            )


def _some(model: type[Frozen]) -> str:
    """The first settings of a mapping."""
    return f"{', '.join(list(model.model_fields)[:3])}…"


def _in_words(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in {"bool", "int", "float", "str"})
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = ObjectiveSpec if first["loc"][0] == "objective" else Knob
        message = f"no such setting; there are {', '.join(known.model_fields)}"
    return f"{where}: {message}" if where else message


def _as_text(part: Any) -> str:
    """One part of a command. YAML reads ``{threads}`` without quotes as a mapping: the placeholder is meant.

    >>> _as_text({"threads": None}), _as_text(3)
    ('{threads}', '3')
    """
    if isinstance(part, dict) and len(part) == 1 and next(iter(part.values())) is None:
        return f"{{{next(iter(part))}}}"
    if isinstance(part, dict | list):
        raise ValueError(f"a part of a command must be a text or a number, but got {part}: put it in quotes")
    return part if isinstance(part, str) else written(part)


def written(value: Value) -> str:
    """A value as commands and config files spell it.

    >>> written(True), written(5), written(0.25), written("zstd")
    ('true', '5', '0.25', 'zstd')
    """
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)


def filled_in(command: tuple[str, ...], knobs: dict[str, Value]) -> list[str]:
    """The command with every ``{knob}`` replaced; other braces stay as they are.

    >>> filled_in(("run.py", "--n={n}", '{"a": {b}}'), {"n": 3})
    ['run.py', '--n=3', '{"a": {b}}']
    """

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        return written(knobs[name]) if name in knobs else match.group(0)

    return [_PLACEHOLDER.sub(replace, part) for part in command]
