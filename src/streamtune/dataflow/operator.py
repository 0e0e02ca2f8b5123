"""``Operator``: one node of a dataflow with the static features of Table I of the StreamTune paper."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from streamtune.frozen import Frozen

# The types our workloads are made of. Any other identifier is accepted: encoders map it to their `unknown` slot.
SOURCE = "source"
SINK = "sink"
KEYED_TYPES = frozenset({"aggregate", "window_aggregate", "window_join", "join"})
JOIN_TYPES = frozenset({"window_join", "join"})
KNOWN_TYPES = (SOURCE, "map", "flat_map", "filter", "aggregate", "window_aggregate", "window_join", "join", SINK)

Partitioning = Literal["forward", "rebalance", "hash", "broadcast"]

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*$")


def parse_length(value: object) -> object:
    """A window's length: a bare number (tuples, or seconds) or a duration with its unit, in seconds.

    >>> parse_length("250ms"), parse_length("10s"), parse_length(100)
    (0.25, 10.0, 100)
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.match(value)
    if match is None:
        raise ValueError(f"must be a number or a duration such as 10s or 250ms, but got {value!r}")
    number, unit = match.groups()
    if unit not in _SECONDS_PER_UNIT:
        raise ValueError(f"unknown unit {unit!r} in {value!r}: use one of {', '.join(_SECONDS_PER_UNIT)}")
    return float(number) * _SECONDS_PER_UNIT[unit]


Length = Annotated[float, BeforeValidator(parse_length), Field(gt=0, allow_inf_nan=False)]


class Window(Frozen):
    """A window: ``length`` and ``slide`` are seconds when the policy is time, tuples when it is count."""

    type: Literal["tumbling", "sliding", "session", "cumulative"] = Field(
        description="a sliding and a cumulative window need a slide; the length of a session is its gap"
    )
    policy: Literal["time", "count"] = Field(default="time", description="what fills it: time or a number of tuples")
    length: Length = Field(description="a duration such as 10s, 250ms, 1min, 2h or 1d, or a number of tuples")
    slide: Length | None = Field(default=None, description="from one window to the next, at most the length")

    @model_validator(mode="after")
    def _slide_fits_type(self) -> Self:
        slides = self.type in ("sliding", "cumulative")
        if slides and self.slide is None:
            raise ValueError(f"a {self.type} window needs a slide, for instance slide: 2s")
        if not slides and self.slide is not None:
            raise ValueError(f"a {self.type} window has no slide, but got {self.slide:g}: remove it or use sliding")
        if self.slide is not None and self.slide > self.length:
            raise ValueError(f"slide {self.slide:g} is longer than the window's length {self.length:g}")
        return self

    @property
    def period(self) -> float:
        """Seconds (or tuples) between two firings."""
        return self.length if self.slide is None else self.slide


class Aggregate(Frozen):
    """What a window or keyed aggregate computes."""

    function: str = Field(description="count, sum, max, …")
    value_class: str = Field(alias="class", description="class of the value that is aggregated")
    key_class: str | None = Field(default=None, description="class of the key, where there is one")


class Join(Frozen):
    """What two inputs are joined on."""

    key_class: str = Field(description="class of the key that both sides are joined on")


class Operator(Frozen):
    """One operator: its identity, its Table I features, and for a source its nominal rate (records/s).

    >>> Operator(id="hot", type="filter", tuple_width_in=3, tuple_width_out=3).is_source
    False
    """

    id: str = Field(min_length=1, description="unique within the job")
    type: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        description="source, map, flat_map, filter, aggregate, window_aggregate, window_join, join, sink, or your own",
    )
    window: Window | None = Field(default=None, description="of window operators")
    aggregate: Aggregate | None = Field(default=None, description="of aggregates")
    join: Join | None = Field(default=None, description="of joins")
    tuple_width_in: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="fields of a record that comes in"
    )
    tuple_width_out: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="fields of a record that goes out"
    )
    tuple_type: str | None = Field(default=None, description="class of the records' fields")
    rate: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="sources only: nominal rate, records/s"
    )
    parallelism: int | None = Field(default=None, ge=1, description="what the job starts with, 1 where it is left out")
    max_parallelism: int | None = Field(
        default=None, ge=1, description="its own limit, where that is smaller than the job's: a single instance has 1"
    )

    @property
    def is_source(self) -> bool:
        return self.type == SOURCE

    @property
    def is_keyed(self) -> bool:
        return self.type in KEYED_TYPES

    @property
    def default_partitioning(self) -> Partitioning:
        """How records reach this operator when the spec does not say."""
        return "hash" if self.is_keyed else "rebalance"
