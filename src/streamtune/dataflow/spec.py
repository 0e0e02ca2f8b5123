"""The job spec: the one file a user writes, and what ``workloads`` generates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError, model_validator

from streamtune.dataflow.documents import DocumentError, read_document
from streamtune.dataflow.graph import Dataflow, Edge
from streamtune.dataflow.job import DEFAULT_MAX_PARALLELISM, Job
from streamtune.dataflow.operator import Operator, Partitioning
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.errors import DataflowError, SpecError
from streamtune.frozen import Frozen


class _Input(Frozen):
    source: str = Field(alias="from", description="id of the operator that sends")
    partitioning: Partitioning | None = Field(
        default=None, description="how records are dealt out: hash to keyed operators, rebalance to others by default"
    )

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: object) -> object:
        return {"from": value} if isinstance(value, str) else value


class _OperatorEntry(Operator):
    inputs: tuple[_Input, ...] = Field(default=(), description="ids, or mappings with from and partitioning")

    def to_operator(self) -> Operator:
        return Operator.model_construct(**{name: getattr(self, name) for name in Operator.model_fields})

    def edges(self) -> list[Edge]:
        return [Edge(entry.source, self.id, entry.partitioning or self.default_partitioning) for entry in self.inputs]


class _SpecFile(Frozen):
    name: str = Field(min_length=1, description="the job's name")
    operators: tuple[_OperatorEntry, ...] = Field(description="in any order")
    max_parallelism: int = Field(default=DEFAULT_MAX_PARALLELISM, ge=1, description="no operator may go above")
    physics: dict[str, OperatorPhysics] | None = Field(
        default=None, description="of emulated jobs: the hidden truth, for every operator or for none"
    )


@dataclass(frozen=True)
class JobSpec:
    """A spec as read: the job, which tuners may see, and the physics, which they may not."""

    job: Job
    physics: Mapping[str, OperatorPhysics] | None = None

    def with_rates(self, rates: Mapping[str, float]) -> JobSpec:
        """The same spec with other nominal source rates."""
        self.job.check_rates(rates)
        operators = tuple(
            operator.model_copy(update={"rate": float(rates[operator.id])}) if operator.is_source else operator
            for operator in self.job.dataflow.operators
        )
        return replace(self, job=replace(self.job, dataflow=Dataflow(operators, self.job.dataflow.edges)))

    def to_mapping(self) -> dict[str, Any]:
        """Plain values that ``parse_spec`` reads back to an equal spec."""
        flow = self.job.dataflow
        partitioning = {(edge.source, edge.target): edge.partitioning for edge in flow.edges}
        operators = []
        for operator in flow.operators:
            entry = operator.model_dump(mode="json", by_alias=True, exclude_none=True)
            inputs: list[Any] = []
            for source in flow.predecessors(operator.id):
                way = partitioning[source, operator.id]
                inputs.append(source if way == operator.default_partitioning else {"from": source, "partitioning": way})
            if inputs:
                entry["inputs"] = inputs
            operators.append(entry)
        mapping: dict[str, Any] = {
            "name": self.job.name,
            "operators": operators,
            "max_parallelism": self.job.max_parallelism,
        }
        if self.physics is not None:
            mapping["physics"] = {key: value.model_dump(exclude_defaults=True) for key, value in self.physics.items()}
        return mapping

    def to_yaml(self) -> str:
        return str(yaml.safe_dump(self.to_mapping(), sort_keys=False, default_flow_style=None, width=110))


def load_spec(path: str | Path) -> JobSpec:
    """Read a job spec from a YAML or JSON file; every problem is a ``SpecError`` that names the file.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
    ...     _ = file.write("name: words\\noperators:\\n"
    ...                    "- {id: lines, type: source, rate: 500}\\n"
    ...                    "- {id: count, type: window_aggregate, inputs: [lines]}\\n")
    ...     file.flush()
    ...     spec = load_spec(file.name)
    >>> spec.job.name, spec.job.source_rates, dict(spec.job.initial_plan)
    ('words', {'lines': 500.0}, {'lines': 1, 'count': 1})
    >>> load_spec("nowhere.yaml")
    Traceback (most recent call last):
    streamtune.errors.SpecError: nowhere.yaml: cannot be read: No such file or directory. Check the path
    """
    path = Path(path)
    try:
        data = read_document(path)
    except DocumentError as error:
        raise SpecError(str(path), error.problem) from error
    return parse_spec(data, file=str(path))


def parse_spec(data: object, *, file: str = "<spec>") -> JobSpec:
    """Build a spec from plain values, as YAML or JSON give them."""
    if not isinstance(data, dict):
        raise SpecError(file, f"must be a mapping with name and operators, but got {_kind(data)}")
    try:
        parsed = _SpecFile.model_validate(data)
    except ValidationError as error:
        raise _spec_error(file, data, error) from error
    try:
        flow = Dataflow(
            tuple(entry.to_operator() for entry in parsed.operators),
            tuple(edge for entry in parsed.operators for edge in entry.edges()),
        )
        job = Job(parsed.name, flow, parsed.max_parallelism)
    except DataflowError as error:
        raise SpecError(file, error.problem, operator=error.operator, field=error.field) from error
    if parsed.physics is not None:
        _check_physics(file, job, parsed.physics)
    return JobSpec(job, parsed.physics)


def _check_physics(file: str, job: Job, physics: Mapping[str, OperatorPhysics]) -> None:
    for operator_id in physics:
        if operator_id not in job.dataflow.index:
            known = ", ".join(job.dataflow.index)
            raise SpecError(
                file,
                f"physics for an unknown operator: the operators are {known}",
                operator=operator_id,
                field="physics",
            )
    for operator_id in job.dataflow.index:
        if operator_id not in physics:
            raise SpecError(
                file,
                "has no physics: give every operator one, or remove physics altogether",
                operator=operator_id,
                field="physics",
            )


def _spec_error(file: str, data: Mapping[str, Any], error: ValidationError) -> SpecError:
    """The first problem pydantic found, in our words."""
    first = error.errors()[0]
    location: Sequence[int | str] = first["loc"]
    operator: str | None = None
    fields = [str(part) for part in location]
    if location and location[0] == "operators" and len(location) > 1 and isinstance(location[1], int):
        entry = data["operators"][location[1]]
        operator = str(entry.get("id", f"#{location[1] + 1}")) if isinstance(entry, dict) else f"#{location[1] + 1}"
        fields = fields[2:]
    elif location and location[0] == "physics" and len(location) > 1:
        operator = str(location[1])
        fields = ["physics", *fields[2:]]
    kind, got = first["type"], first.get("input")
    if kind == "extra_forbidden":
        problem = "unknown key: check its spelling, or remove it"
    elif kind == "missing":
        problem = "is missing: add it"
    elif kind == "value_error":
        problem = str(first["ctx"]["error"])
    else:
        message = first["msg"].removeprefix("Input ").removeprefix("should ")
        problem = f"should {message}, but got {_kind(got)}"
    return SpecError(file, problem, operator=operator, field=".".join(fields) or None)


def _kind(value: object) -> str:
    return f"a {type(value).__name__}" if isinstance(value, dict | list) else repr(value)
