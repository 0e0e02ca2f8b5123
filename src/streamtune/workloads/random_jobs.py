"""Random jobs for histories and tests: layered DAGs with forks, joins and diamonds, physics by the same model.

**Shape.** One to four sources form the first layer; further layers hold one to three operators each. Every operator
reads one of the layer before it; where the layers narrow, or by chance, it also reads a second, earlier one and becomes
a join. Two operators that read the same one fork it, and a join of two such branches closes a diamond. What no
operator reads goes to the sink.

**Rates.** Sources get random shares, then all are scaled such that the operator with the most expected work needs
between 8 and 36 instances at 10·W_u. The scale is taken from the formula *without* its residual: a rate tells nothing
about the residual that the features do not tell.

Seeded by value: the same seed and size give the same job in any process and on any platform.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamtune.dataflow.graph import Dataflow, Edge
from streamtune.dataflow.operator import JOIN_TYPES, KEYED_TYPES, SINK, SOURCE, Aggregate, Join, Operator, Window
from streamtune.errors import DataflowError
from streamtune.readings.demand import input_rates
from streamtune.workloads.physics_model import expected_selectivity, expected_service_us, generator, significant
from streamtune.workloads.pqp import draw_window, pick
from streamtune.workloads.workload import PEAK_MULTIPLE, Workload, assemble

_STREAM = 3
_DESIGN, _PHYSICS = 0, 1
SMALLEST_JOB = 3

_MAX_SOURCES = 4
_MAX_LAYER_WIDTH = 3
_UNREAD_INPUT_PROBABILITY = 0.45
_ANY_INPUT_PROBABILITY = 0.15
_UNARY_TYPES = ("map", "filter", "flat_map", "aggregate")
# Little leaves a window aggregate: in the first half of a job it would leave nothing to do for the second.
_LATE_UNARY_TYPES = (*_UNARY_TYPES, "window_aggregate", "window_aggregate", "window_aggregate")
_BINARY_TYPES = ("window_join", "window_join", "join")
_TUPLE_TYPES = ("row", "long", "int", "double", "string")
_KEY_CLASSES = ("int", "long", "double", "string")
_FUNCTIONS = ("count", "sum", "min", "max", "avg")
_LONG_SLIDING = (
    Window(type="sliding", length=5.0, slide=1.0),
    Window(type="sliding", length=10.0, slide=2.0),
)
# A join lets about as many records out as in: fired only every 5 or 10 s, they would drown whatever follows.
_LONG_WINDOWS = {
    "window_join": _LONG_SLIDING,
    "window_aggregate": (
        *_LONG_SLIDING,
        Window(type="tumbling", length=5.0),
        Window(type="tumbling", length=10.0),
    ),
}
_LONG_WINDOW_PROBABILITY = 0.2
_LARGEST_WIDTH = 15.0
_PEAK_WORK = (8.0, 36.0)


@dataclass(frozen=True)
class _Shape:
    """Types by position in topological order, and for each the positions it reads."""

    types: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]


def random_job(seed: int, max_operators: int = 20, *, min_operators: int = SMALLEST_JOB) -> Workload:
    """A random workload of ``min_operators`` to ``max_operators`` operators, sources and sink included.

    >>> random_job(7).spec == random_job(7).spec
    True
    """
    rng = generator(*_seed_path(seed, min_operators, max_operators, _DESIGN))
    nodes = _describe(_draw_shape(rng, min_operators, max_operators), rng)
    units = _draw_units(nodes, rng)
    return assemble(f"random-{seed}", "random", nodes, units, _seed_path(seed, min_operators, max_operators, _PHYSICS))


def random_dataflow(seed: int, max_operators: int = 20, *, min_operators: int = SMALLEST_JOB) -> Dataflow:
    """The bare typed DAG of ``random_job`` with the same arguments."""
    rng = generator(*_seed_path(seed, min_operators, max_operators, _DESIGN))
    shape = _draw_shape(rng, min_operators, max_operators)
    edges = [(before, position) for position, inputs in enumerate(shape.inputs) for before in inputs]
    return Dataflow.from_edges(shape.types, edges)


def _seed_path(seed: int, low: int, high: int, purpose: int) -> tuple[int, ...]:
    if not SMALLEST_JOB <= low <= high:
        raise DataflowError(
            f"a random job needs {SMALLEST_JOB} ≤ min_operators ≤ max_operators, but got {low} and {high}"
        )
    return seed, _STREAM, low, high, purpose


def _draw_shape(rng: np.random.Generator, low: int, high: int) -> _Shape:
    size = int(rng.integers(low, high + 1))
    # At least as many inner operators as sources, so that there is something to tune.
    sources = int(rng.integers(1, min(_MAX_SOURCES, max(1, (size - 1) // 2)) + 1))
    types = [SOURCE] * sources
    inputs: list[tuple[int, ...]] = [()] * sources
    unread = list(range(sources))
    previous = list(range(sources))
    while len(types) < size - 1:
        width = min(int(rng.integers(1, _MAX_LAYER_WIDTH + 1)), size - 1 - len(types))
        first_inputs = rng.permutation(previous)
        layer = list(range(len(types), len(types) + width))
        earlier = len(types)
        chosen = [int(first_inputs[number % len(previous)]) for number in range(width)]
        unread = [position for position in unread if position not in chosen]
        for first in chosen:
            second = _second_input(rng, first, earlier, unread)
            unary = _UNARY_TYPES if len(types) < size / 2 else _LATE_UNARY_TYPES
            types.append(pick(rng, unary if second is None else _BINARY_TYPES))
            inputs.append((first,) if second is None else (first, second))
            if second in unread:
                unread.remove(second)
        unread += layer
        previous = layer
    return _Shape((*types, SINK), (*inputs, tuple(unread)))


def _second_input(rng: np.random.Generator, first: int, earlier: int, unread: Sequence[int]) -> int | None:
    """An earlier stream to join with: one that has no reader yet if there is one, else any other by chance."""
    chance = float(rng.random())
    if unread and chance < _UNREAD_INPUT_PROBABILITY:
        return pick(rng, unread)
    if earlier > 1 and chance < _ANY_INPUT_PROBABILITY:
        return pick(rng, [position for position in range(earlier) if position != first])
    return None


def _describe(shape: _Shape, rng: np.random.Generator) -> list[tuple[Operator, Sequence[str]]]:
    """Give every operator of the shape its Table I features; widths follow the records downstream."""
    tuple_type = pick(rng, _TUPLE_TYPES)
    ids = [f"{kind}_{position}" for position, kind in enumerate(shape.types)]
    widths: list[float] = []
    nodes: list[tuple[Operator, Sequence[str]]] = []
    for position, kind in enumerate(shape.types):
        arriving = [widths[before] for before in shape.inputs[position]]
        operator = _draw_operator(ids[position], kind, arriving, tuple_type, rng)
        widths.append(operator.tuple_width_out or 0.0)
        nodes.append((operator, tuple(ids[before] for before in shape.inputs[position])))
    return nodes


def _draw_operator(
    operator_id: str, kind: str, arriving: Sequence[float], tuple_type: str, rng: np.random.Generator
) -> Operator:
    key_class = pick(rng, _KEY_CLASSES) if kind in KEYED_TYPES else None
    aggregate = join = window = None
    if kind in JOIN_TYPES:
        join = Join(key_class=str(key_class))
    elif key_class is not None:
        aggregate = Aggregate(
            function=pick(rng, _FUNCTIONS), value_class=pick(rng, ("int", "long", "double")), key_class=key_class
        )
    if kind in _LONG_WINDOWS:
        long = rng.random() < _LONG_WINDOW_PROBABILITY
        window = pick(rng, _LONG_WINDOWS[kind]) if long else draw_window(rng)
    return Operator(
        id=operator_id,
        type=kind,
        window=window,
        aggregate=aggregate,
        join=join,
        tuple_width_in=significant(sum(arriving) / len(arriving)) if arriving else None,
        tuple_width_out=_width_out(kind, arriving, rng),
        tuple_type=tuple_type,
    )


def _width_out(kind: str, arriving: Sequence[float], rng: np.random.Generator) -> float:
    match kind:
        case "source" | "map" | "flat_map":
            return float(rng.integers(1, 11))
        case "aggregate" | "window_aggregate":
            return 2.0
        case "sink":
            return 0.0
        case _:
            return min(_LARGEST_WIDTH, sum(arriving))


def _draw_units(nodes: Sequence[tuple[Operator, Sequence[str]]], rng: np.random.Generator) -> dict[str, float]:
    operators = [operator for operator, _ in nodes]
    flow = Dataflow(
        tuple(operators), tuple(Edge(before, operator.id) for operator, inputs in nodes for before in inputs)
    )
    shares = {source.id: math.exp(0.7 * float(rng.standard_normal())) for source in flow.sources}
    arriving = input_rates(flow, {operator.id: expected_selectivity(operator) for operator in operators}, shares)
    work = max(
        arriving[operator.id] * expected_service_us(operator) / 1e6
        for operator in operators
        if operator.type not in (SOURCE, SINK)
    )
    low, high = _PEAK_WORK
    peak_work = math.exp(float(rng.uniform(math.log(low), math.log(high))))
    scale = peak_work / work / PEAK_MULTIPLE
    return {source: significant(share * scale, 2) for source, share in shares.items()}
