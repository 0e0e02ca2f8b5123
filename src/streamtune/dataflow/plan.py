"""``Plan``: what can be chosen for a job: always parallelism; optionally resources, placement and configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from streamtune.errors import DataflowError
from streamtune.frozen import Frozen

PlanPart = Literal["parallelism", "resources", "placement", "configuration"]
ConfigurationValue = bool | int | float | str


class InstanceSize(Frozen):
    """How big one instance is.

    >>> InstanceSize(cpu=0.5, memory_mb=512).cpu
    0.5
    """

    cpu: float = Field(gt=0, allow_inf_nan=False, description="cores")
    memory_mb: float = Field(gt=0, allow_inf_nan=False, description="MiB of memory")
    name: str | None = Field(default=None, description="what a price list calls it")


class Instances(Frozen):
    """A number of instances of one size."""

    count: int = Field(ge=1)
    size: InstanceSize


class Instance(NamedTuple):
    """One task instance: the ``number``-th of an operator, from 0. As text ``operator/number``."""

    operator: str
    number: int

    def __str__(self) -> str:
        return f"{self.operator}/{self.number}"

    @classmethod
    def parse(cls, text: str) -> Instance:
        """The reverse of ``str``; operator ids may contain slashes themselves.

        >>> Instance.parse("join/3")
        Instance(operator='join', number=3)
        """
        operator, slash, number = text.rpartition("/")
        if not slash or not operator or not number.isdecimal():
            raise DataflowError(f"an instance is written operator/number, for instance join/0, but got {text!r}")
        return cls(operator, int(number))


_RESOURCES = TypeAdapter(dict[str, tuple[Instances, ...]])


class Plan(Mapping[str, int]):
    """An immutable choice for one job. Reads like a mapping from operator to parallelism.

    The other parts are ``None`` where nothing was chosen: what an engine can apply is in its ``Capabilities``.

    >>> plan = Plan({"bids": 1, "hot_items": 12})
    >>> plan.total, plan["hot_items"], sorted(plan.parts)
    (13, 12, ['parallelism'])
    >>> plan.changes(Plan({"bids": 1, "hot_items": 20}))
    {'hot_items': (12, 20)}
    >>> tuned = plan.replace(configuration={"execution.buffer-timeout": "10 ms"})
    >>> sorted(tuned.parts), tuned == plan
    (['configuration', 'parallelism'], False)
    """

    __slots__ = ("_configuration", "_degrees", "_placement", "_resources")

    def __init__(
        self,
        parallelism: Mapping[str, int] | Iterable[tuple[str, int]],
        *,
        resources: Mapping[str, Iterable[Instances]] | None = None,
        placement: Mapping[Instance, str] | None = None,
        configuration: Mapping[str, ConfigurationValue] | None = None,
    ) -> None:
        self._degrees: Mapping[str, int] = MappingProxyType(dict(parallelism))
        self._resources = None if resources is None else MappingProxyType({k: tuple(v) for k, v in resources.items()})
        self._placement = None if placement is None else MappingProxyType(dict(placement))
        self._configuration = None if configuration is None else MappingProxyType(dict(configuration))
        self._check_degrees()
        self._check_resources()
        self._check_placement()

    def _check_degrees(self) -> None:
        for operator_id, degree in self._degrees.items():
            if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
                raise DataflowError(
                    f"must be a whole number of at least 1, but got {degree!r}",
                    operator=operator_id,
                    field="parallelism",
                )

    def _check_resources(self) -> None:
        for operator_id, groups in (self._resources or {}).items():
            self._known(operator_id, "resources")
            total = sum(group.count for group in groups)
            if total != self._degrees[operator_id]:
                raise DataflowError(
                    f"sizes are given for {total} instances, but its parallelism is {self._degrees[operator_id]}",
                    operator=operator_id,
                    field="resources",
                )

    def _check_placement(self) -> None:
        for instance in self._placement or {}:
            self._known(instance.operator, "placement")
            if not 0 <= instance.number < self._degrees[instance.operator]:
                raise DataflowError(
                    f"instance {instance.number} is placed, but there are {self._degrees[instance.operator]}",
                    operator=instance.operator,
                    field="placement",
                )

    def _known(self, operator_id: str, field: str) -> None:
        if operator_id not in self._degrees:
            raise DataflowError(
                f"is not in the plan: the operators are {', '.join(self._degrees)}", operator=operator_id, field=field
            )

    def __getitem__(self, operator_id: str) -> int:
        return self._degrees[operator_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._degrees)

    def __len__(self) -> int:
        return len(self._degrees)

    def _content(self) -> tuple[Any, ...]:
        parts = (self._degrees, self._resources, self._placement, self._configuration)
        return tuple(None if part is None else frozenset(part.items()) for part in parts)

    def __hash__(self) -> int:
        return hash(self._content())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._content() == other._content()

    def __repr__(self) -> str:
        names = ("resources", "placement", "configuration")
        chosen = "".join(f", {name}={dict(getattr(self, name))}" for name in names if getattr(self, name) is not None)
        return f"Plan({dict(self._degrees)}{chosen})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuilt, (dict(self._degrees), *(None if p is None else dict(p) for p in self._optional)))

    @property
    def _optional(self) -> tuple[Mapping[Any, Any] | None, ...]:
        return (self._resources, self._placement, self._configuration)

    @property
    def parallelism(self) -> Mapping[str, int]:
        """Operator → how many instances."""
        return self._degrees

    @property
    def resources(self) -> Mapping[str, tuple[Instances, ...]] | None:
        """Operator → its instances by size."""
        return self._resources

    @property
    def placement(self) -> Mapping[Instance, str] | None:
        """Instance → host."""
        return self._placement

    @property
    def configuration(self) -> Mapping[str, ConfigurationValue] | None:
        """Engine key → value."""
        return self._configuration

    @property
    def parts(self) -> frozenset[PlanPart]:
        """Which parts this plan chooses."""
        parts: set[PlanPart] = {"parallelism"}
        if self._resources is not None:
            parts.add("resources")
        if self._placement is not None:
            parts.add("placement")
        if self._configuration is not None:
            parts.add("configuration")
        return frozenset(parts)

    @property
    def total(self) -> int:
        return sum(self._degrees.values())

    def replace(
        self,
        parallelism: Mapping[str, int] | None = None,
        *,
        resources: Mapping[str, Iterable[Instances]] | None = None,
        placement: Mapping[Instance, str] | None = None,
        configuration: Mapping[str, ConfigurationValue] | None = None,
    ) -> Plan:
        """This plan with the parallelism of some operators, or whole other parts, replaced."""
        return Plan(
            {**self._degrees, **(parallelism or {})},
            resources=self._resources if resources is None else resources,
            placement=self._placement if placement is None else placement,
            configuration=self._configuration if configuration is None else configuration,
        )

    def changes(self, other: Plan) -> dict[str, tuple[int, int]]:
        """Operator id → (here, there) for every parallelism that differs."""
        return {key: (self[key], other[key]) for key in self if self[key] != other[key]}

    def to_mapping(self) -> dict[str, Any]:
        """Plain values for JSON; ``Plan.parse`` reads them back. Parts that were not chosen are left out."""
        mapping: dict[str, Any] = {"parallelism": dict(self._degrees)}
        if self._resources is not None:
            mapping["resources"] = {
                key: [group.model_dump(mode="json", exclude_none=True) for group in groups]
                for key, groups in self._resources.items()
            }
        if self._placement is not None:
            mapping["placement"] = {str(instance): host for instance, host in self._placement.items()}
        if self._configuration is not None:
            mapping["configuration"] = dict(self._configuration)
        return mapping

    @classmethod
    def parse(cls, data: object) -> Plan:
        """From ``to_mapping``'s values, or from a bare mapping operator → parallelism.

        >>> Plan.parse({"parallelism": {"a": 2}, "placement": {"a/0": "h1"}}).placement[Instance("a", 0)]
        'h1'
        """
        if not isinstance(data, Mapping):
            raise DataflowError(f"a plan is a mapping from operator to parallelism, but got {data!r}")
        if not isinstance(data.get("parallelism"), Mapping):
            return cls(data)
        unknown = sorted(set(data) - {"parallelism", "resources", "placement", "configuration"})
        if unknown:
            raise DataflowError(
                f"unknown key '{unknown[0]}': a plan has parallelism, resources, placement, configuration"
            )
        placement, resources = data.get("placement"), data.get("resources")
        try:
            sizes = None if resources is None else _RESOURCES.validate_python(resources)
        except ValidationError as error:
            first = error.errors()[0]
            raise DataflowError(f"{first['msg']}, but got {first['input']!r}", field="resources") from error
        return cls(
            data["parallelism"],
            resources=sizes,
            placement=None if placement is None else {Instance.parse(key): host for key, host in placement.items()},
            configuration=data.get("configuration"),
        )


def _rebuilt(degrees: Any, resources: Any, placement: Any, configuration: Any) -> Plan:
    return Plan(degrees, resources=resources, placement=placement, configuration=configuration)
