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

QUERIES: dict[PqpTemplate, int] = {"pqp-linear": 8, "pqp-2way": 16, "pqp-3way": 32}
UNITS: dict[PqpTemplate, float] = {"pqp-linear": 5_000.0, "pqp-2way": 500.0, "pqp-3way": 250.0}
_SOURCES: dict[PqpTemplate, int] = {"pqp-linear": 1, "pqp-2way": 2, "pqp-3way": 3}


def names() -> list[str]:
    return [f"{template}-{index}" for template, count in QUERIES.items() for index in range(count)]


def build(template: PqpTemplate, index: int, seed: int = 0) -> Workload:
    """Query ``index`` of a template; ``seed`` draws its parameters and the residuals of its physics."""
    sources = _SOURCES[template]
    nodes = _Query(generator(seed, _STREAM, sources, index, _DESIGN)).nodes(sources)
    units = {operator.id: UNITS[template] for operator, _ in nodes if operator.is_source}
    return assemble(f"{template}-{index}", template, nodes, units, (seed, _STREAM, sources, index, _PHYSICS))


def draw_window(rng: np.random.Generator) -> Window:
    """A window from the training range of ZeroTune's Table III."""
    length: float
    if rng.random() < 0.5:
        length = pick(rng, WINDOW_LENGTHS_TUPLES)
        policy: Literal["count", "time"] = "count"
    else:
        length = pick(rng, WINDOW_DURATIONS_S)
        policy = "time"
    if rng.random() < 0.5:
        return Window(type="tumbling", policy=policy, length=length)
    slide = length * pick(rng, SLIDE_RATIOS)
    slide = float(max(1, round(slide))) if policy == "count" else significant(slide)
    return Window(type="sliding", policy=policy, length=length, slide=slide)


def pick(rng: np.random.Generator, values: Sequence[T]) -> T:
    """One of the values, each with the same probability."""
    return values[int(rng.integers(len(values)))]


class _Query:
    """Draws one query: filters behind the sources, a chain of window joins, a window aggregation."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._tuple_type = pick(rng, TUPLE_TYPES)

    def nodes(self, sources: int) -> list[tuple[Operator, Sequence[str]]]:
        nodes: list[tuple[Operator, Sequence[str]]] = []
        streams: list[Operator] = []
        for number in range(1, sources + 1):
            width = pick(self._rng, TUPLE_WIDTHS)
            source = self._operator(f"source_{number}", "source", None, width)
            kept = self._operator(f"filter_{number}", "filter", width, width)
            nodes += [(source, ()), (kept, (source.id,))]
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
            update={"window": draw_window(self._rng), "join": Join(key_class=pick(self._rng, TUPLE_TYPES))}
        )

    def _aggregate(self, upstream: Operator) -> Operator:
        aggregate = Aggregate(
            function=pick(self._rng, FUNCTIONS),
            value_class=pick(self._rng, ("double", "int")),
            key_class=pick(self._rng, TUPLE_TYPES),
        )
        return self._operator("aggregate", "window_aggregate", upstream.tuple_width_out, 2).model_copy(
            update={"window": draw_window(self._rng), "aggregate": aggregate}
        )
