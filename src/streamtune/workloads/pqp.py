"""PQP: the synthetic queries of the ZeroTune paper, 8 linear, 16 two-way-join and 32 three-way-join ones.

=====================  ==================================  =======================================
what                   values                              from
=====================  ==================================  =======================================
structures             linear, 2-way join, 3-way join      ZeroTune Table III, seen structures
operator types         source, filter, window join,        ZeroTune Table III
                       window aggregation
tuple width            1 … 5 per source                    ZeroTune Table III, training range
tuple type             string, double, int per query       ZeroTune Table III, training range
window length          5, 10, 25, 50, 75, 100 tuples       ZeroTune Table III, training range
window duration        250, 500, 1000, 2000, 3000 ms       ZeroTune Table III, training range
sliding length         0.3 … 0.7 × length, steps of 0.1    ZeroTune Table III
functions              min, max, avg                       ZeroTune Table I
numbers of queries     8, 16, 32                           StreamTune Section V-A
W_u per source         5,000, 500, 250 records/s           StreamTune Table II
=====================  ==================================  =======================================

Our choices where the papers are silent: each draw is uniform; a filter stands behind every source; all sources of a
query share one tuple type (an operator has one tuple type feature); a join's width in is the mean of its inputs' and
its width out their sum; a slide in tuples is rounded to a whole number of at least 1. Event rates are those of
Table II of the StreamTune paper, not ZeroTune's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from streamtune.dataflow.operator import Aggregate, Join, Operator, Window
from streamtune.workloads.physics_model import generator, significant
from streamtune.workloads.workload import Workload, assemble

T = TypeVar("T")
PqpTemplate = Literal["pqp-linear", "pqp-2way", "pqp-3way"]

_STREAM = 2
_DESIGN, _PHYSICS = 0, 1

TUPLE_WIDTHS = (1, 2, 3, 4, 5)
TUPLE_TYPES = ("string", "double", "int")
WINDOW_LENGTHS_TUPLES = (5, 10, 25, 50, 75, 100)
WINDOW_DURATIONS_S = (0.25, 0.5, 1.0, 2.0, 3.0)
SLIDE_RATIOS = (0.3, 0.4, 0.5, 0.6, 0.7)
FUNCTIONS = ("min", "max", "avg")


@dataclass(frozen=True)
class QueryRanges:
    """What the parameters of a query are drawn from; the defaults are ZeroTune's training range."""

    tuple_widths: tuple[int, ...] = TUPLE_WIDTHS
    window_lengths_tuples: tuple[int, ...] = WINDOW_LENGTHS_TUPLES
    window_durations_s: tuple[float, ...] = WINDOW_DURATIONS_S


QUERIES: dict[PqpTemplate, int] = {"pqp-linear": 8, "pqp-2way": 16, "pqp-3way": 32}
UNITS: dict[PqpTemplate, float] = {"pqp-linear": 5_000.0, "pqp-2way": 500.0, "pqp-3way": 250.0}
_SOURCES: dict[PqpTemplate, int] = {"pqp-linear": 1, "pqp-2way": 2, "pqp-3way": 3}


def names() -> list[str]:
    return [f"{template}-{index}" for template, count in QUERIES.items() for index in range(count)]


def build(template: PqpTemplate, index: int, seed: int = 0) -> Workload:
    """Query ``index`` of a template; ``seed`` draws its parameters and the residuals of its physics."""
    sources = _SOURCES[template]
    nodes = QueryDesign(generator(seed, _STREAM, sources, index, _DESIGN)).nodes(sources)
    units = {operator.id: UNITS[template] for operator, _ in nodes if operator.is_source}
    return assemble(f"{template}-{index}", template, nodes, units, (seed, _STREAM, sources, index, _PHYSICS))


def draw_window(rng: np.random.Generator, ranges: QueryRanges | None = None) -> Window:
    """A window from ZeroTune's Table III, by default from its training range."""
    ranges = ranges or QueryRanges()
    length: float
    if rng.random() < 0.5:
        length = pick(rng, ranges.window_lengths_tuples)
        policy: Literal["count", "time"] = "count"
    else:
        length = pick(rng, ranges.window_durations_s)
        policy = "time"
    if rng.random() < 0.5:
        return Window(type="tumbling", policy=policy, length=length)
    slide = length * pick(rng, SLIDE_RATIOS)
    slide = float(max(1, round(slide))) if policy == "count" else significant(slide)
    return Window(type="sliding", policy=policy, length=length, slide=slide)


def pick(rng: np.random.Generator, values: Sequence[T]) -> T:
    """One of the values, each with the same probability."""
    return values[int(rng.integers(len(values)))]


class QueryDesign:
    """Draws one query: filters behind the sources, a chain of window joins, a window aggregation."""

    def __init__(self, rng: np.random.Generator, ranges: QueryRanges | None = None) -> None:
        self._rng = rng
        self._ranges = ranges or QueryRanges()
        self._tuple_type = pick(rng, TUPLE_TYPES)

    def nodes(self, sources: int, filters: int = 1) -> list[tuple[Operator, Sequence[str]]]:
        """``filters`` behind each of the ``sources``, one after the other."""
        nodes: list[tuple[Operator, Sequence[str]]] = []
        streams: list[Operator] = []
        for number in range(1, sources + 1):
            width = pick(self._rng, self._ranges.tuple_widths)
            kept = self._operator(f"source_{number}", "source", None, width)
            nodes.append((kept, ()))
            for step in range(1, filters + 1):
                before, name = kept, f"filter_{number}" if filters == 1 else f"filter_{number}_{step}"
                kept = self._operator(name, "filter", width, width)
                nodes.append((kept, (before.id,)))
            streams.append(kept)
        left = streams[0]
        for number, right in enumerate(streams[1:], start=1):
            join = self._join(f"join_{number}", left, right)
            nodes.append((join, (left.id, right.id)))
            left = join
        aggregate = self._aggregate(left)
        sink = self._operator("sink", "sink", aggregate.tuple_width_out, 0)
        return [*nodes, (aggregate, (left.id,)), (sink, (aggregate.id,))]

    def _operator(self, operator_id: str, kind: str, width_in: float | None, width_out: float | None) -> Operator:
        return Operator(
            id=operator_id,
            type=kind,
            tuple_width_in=width_in,
            tuple_width_out=width_out,
            tuple_type=self._tuple_type,
        )

    def _join(self, operator_id: str, left: Operator, right: Operator) -> Operator:
        total = (left.tuple_width_out or 0) + (right.tuple_width_out or 0)
        return self._operator(operator_id, "window_join", total / 2, total).model_copy(
            update={
                "window": draw_window(self._rng, self._ranges),
                "join": Join(key_class=pick(self._rng, TUPLE_TYPES)),
            }
        )

    def _aggregate(self, upstream: Operator) -> Operator:
        aggregate = Aggregate(
            function=pick(self._rng, FUNCTIONS),
            value_class=pick(self._rng, ("double", "int")),
            key_class=pick(self._rng, TUPLE_TYPES),
        )
        return self._operator("aggregate", "window_aggregate", upstream.tuple_width_out, 2).model_copy(
            update={"window": draw_window(self._rng, self._ranges), "aggregate": aggregate}
        )
