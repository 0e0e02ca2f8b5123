"""The overrides file: what a user knows about a job that Flink does not report.

operators:
  GlobalWindowAggregate:            # an id as 'streamtune flink plan' shows it, or the id of the vertex
    type: window_aggregate
    window: {type: sliding, length: 10s, slide: 2s}
    aggregate: {function: count, class: long, key_class: long}
  bids: {rate: 4000}                # records/s offered, where the source itself does not report it
exclude: [sink]                     # never to be touched
max_parallelism: 64
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from streamtune.dataflow.documents import DocumentError, read_document
from streamtune.dataflow.operator import Aggregate, Join, Operator, Window
from streamtune.errors import EngineError
from streamtune.frozen import Frozen


class OperatorOverride(Frozen):
    """What a user can state about an operator better than Flink reports it."""

    type: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_]*$")
    window: Window | None = None
    aggregate: Aggregate | None = None
    join: Join | None = None
    tuple_width_in: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    tuple_width_out: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    tuple_type: str | None = None
    rate: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def apply(self, operator: Operator) -> Operator:
        said = {name: getattr(self, name) for name in self.model_fields_set if getattr(self, name) is not None}
        return operator.model_copy(update=said)


class Overrides(Frozen):
    """The whole file; an empty one changes nothing."""

    operators: dict[str, OperatorOverride] = Field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    max_parallelism: int | None = Field(default=None, ge=1)

    @property
    def named(self) -> frozenset[str]:
        """The operators that it speaks about, by the names it has for them."""
        return frozenset((*self.operators, *self.exclude))

    def renamed(self, names: Mapping[str, str]) -> Overrides:
        """The same about operators of which some have other names now."""
        operators = {names.get(name, name): one for name, one in self.operators.items()}
        exclude = tuple(names.get(name, name) for name in self.exclude)
        return self.model_copy(update={"operators": operators, "exclude": exclude})


def load_overrides(path: Path) -> Overrides:
    """Read an overrides file; every problem is an error that names the file and the place."""
    try:
        data = read_document(path)
    except DocumentError as error:
        raise EngineError(f"{path} {error.problem}") from error
    try:
        return Overrides.model_validate({} if data is None else data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        hint = ": check its spelling" if first["type"] == "extra_forbidden" else ""
        raise EngineError(f"{path}: {place or 'the file'}: {first['msg']}{hint}") from error
