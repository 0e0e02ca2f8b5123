"""Relatives of a workload: the same query for another tenant, and the same job with one operator changed.

``NAME~tenant-3`` is NAME for its third tenant: other rates (lognormal, σ = 0.5) and other widths (0.6 to 1.7 times).
The code is the same, so an operator keeps what sets it apart from others of its kind; its data is not, so its service
time and selectivity vary a little (lognormal, σ = 0.1), and its key skew more (σ = 0.3).

``NAME~added-1``, ``~removed-1``, ``~replaced-1`` is NAME with one operator put in, taken out, or doing something else;
all other operators are as they were. Removed and replaced are operators with one input, never a source or the sink.

Seeded by value: the same name gives the same job in any process.
"""

from __future__ import annotations

import itertools
import math
import re
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from streamtune.dataflow.graph import Dataflow, Edge
from streamtune.dataflow.job import Job
from streamtune.dataflow.operator import Operator
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.spec import JobSpec
from streamtune.errors import DataflowError
from streamtune.workloads.physics_model import draw_physics, expected_service_us, generator, significant
from streamtune.workloads.workload import PEAK_MULTIPLE, Workload, sized_source

KINDS = ("tenant", "added", "removed", "replaced")
_NAME = re.compile(rf"(.+)~({'|'.join(KINDS)})-(\d+)")
_STREAM = 7
_RATE_SIGMA, _DATA_SIGMA, _SKEW_SIGMA = 0.5, 0.1, 0.3
_WIDTHS = (0.6, 1.7)
_LARGEST_WIDTH = 15.0
_PLAIN_TYPES = ("map", "filter", "flat_map")

Node = tuple[Operator, tuple[str, ...]]
Nodes = dict[str, Node]
Physics = dict[str, OperatorPhysics]


def parse(name: str) -> tuple[str, str, int] | None:
    """The original, the kind of relative and its number.

    >>> parse("nexmark-q5~tenant-3"), parse("nexmark-q5")
    (('nexmark-q5', 'tenant', 3), None)
    """
    match = _NAME.fullmatch(name)
    return None if match is None else (match[1], match[2], int(match[3]))


def relative(original: Workload, kind: str, number: int) -> Workload:
    """A relative of a workload. One that no allowed parallelism could serve at 10·W_u is drawn again."""
    name = f"{original.name}~{kind}-{number}"
    for attempt in itertools.count():
        rng = generator(zlib.crc32(original.name.encode()), _STREAM, KINDS.index(kind), number, attempt)
        nodes, physics = _parts(original)
        if kind == "tenant":
            nodes, physics, units = _for_tenant(nodes, physics, original.units, rng)
        else:
            changed = [key for key, (_, inputs) in nodes.items() if len(inputs) == 1 and _is_inner(nodes[key][0])]
            if not changed and kind != "added":
                raise DataflowError(f"'{original.name}' has no operator that could be {kind}: choose another relative")
            units = dict(original.units)
            {"added": _add, "removed": _remove, "replaced": _replace}[kind](nodes, physics, changed, rng)
        workload = _assembled(name, original, nodes, physics, units)
        if workload.is_servable_at(PEAK_MULTIPLE):
            return workload
    raise AssertionError("unreachable")


def _is_inner(operator: Operator) -> bool:
    return not operator.is_source and operator.type != "sink"


def _parts(original: Workload) -> tuple[Nodes, Physics]:
    flow = original.spec.job.dataflow
    nodes = {operator.id: (operator, flow.predecessors(operator.id)) for operator in flow.operators}
    return nodes, dict(original.physics)


def _assembled(name: str, original: Workload, nodes: Nodes, physics: Physics, units: Mapping[str, float]) -> Workload:
    operators = tuple(
        sized_source(operator, physics[key], units[key]) if operator.is_source else operator
        for key, (operator, _) in nodes.items()
    )
    edges = tuple(
        Edge(source, key, operator.default_partitioning)
        for key, (operator, inputs) in nodes.items()
        for source in inputs
    )
    job = Job(name, Dataflow(operators, edges), original.spec.job.max_parallelism)
    return Workload(JobSpec(job, physics), dict(units), original.template)


def _for_tenant(
    nodes: Nodes, physics: Physics, units: Mapping[str, float], rng: np.random.Generator
) -> tuple[Nodes, Physics, dict[str, float]]:
    rates = math.exp(_RATE_SIGMA * float(rng.standard_normal()))
    wider = float(rng.uniform(*_WIDTHS))
    found, truth = {}, {}
    for key, (operator, inputs) in nodes.items():
        other = operator.model_copy(update=_widths(operator, wider))
        found[key] = (other, inputs)
        was, z = physics[key], rng.standard_normal(3)
        truth[key] = was.model_copy(
            update={
                "service_us": significant(
                    was.service_us
                    * expected_service_us(other)
                    / expected_service_us(operator)
                    * math.exp(_DATA_SIGMA * float(z[0]))
                ),
                "selectivity": _other_selectivity(operator, was.selectivity, float(z[1])),
                "skew": significant(min(0.1, was.skew * math.exp(_SKEW_SIGMA * float(z[2]))), 2),
            }
        )
    return found, truth, {key: significant(unit * rates, 4) for key, unit in units.items()}


def _widths(operator: Operator, factor: float) -> dict[str, float]:
    found = {}
    for name in ("tuple_width_in", "tuple_width_out"):
        width = getattr(operator, name)
        if width is not None:
            found[name] = float(min(max(round(width * factor), 1), _LARGEST_WIDTH))
    return found


def _other_selectivity(operator: Operator, was: float, z: float) -> float:
    """Filters, joins and windows over time depend on the data; a count window and a map do not."""
    window = operator.window
    by_data = operator.type in ("filter", "flat_map", "join", "window_join")
    by_data |= operator.type == "window_aggregate" and window is not None and window.policy == "time"
    if not by_data:
        return was
    return significant(min(was * math.exp(_DATA_SIGMA * z), 1.0 if was <= 1 else 10.0))


def _new_operator(key: str, before: Operator, rng: np.random.Generator, not_type: str = "") -> Operator:
    kinds = [kind for kind in _PLAIN_TYPES if kind != not_type]
    width = before.tuple_width_out or before.tuple_width_in
    kind = kinds[int(rng.integers(len(kinds)))]
    return Operator(id=key, type=kind, tuple_type=before.tuple_type, tuple_width_in=width, tuple_width_out=width)


def _add(nodes: Nodes, physics: Physics, _changed: Sequence[str], rng: np.random.Generator) -> None:
    """Put a plain operator on an edge."""
    edges = [(source, key) for key, (_, inputs) in nodes.items() for source in inputs]
    source, target = edges[int(rng.integers(len(edges)))]
    made = _new_operator("added", nodes[source][0], rng)
    operator, inputs = nodes[target]
    nodes[target] = (operator, tuple("added" if one == source else one for one in inputs))
    _insert_before(nodes, target, (made, (source,)))
    physics["added"] = draw_physics(made, rng)


def _insert_before(nodes: Nodes, target: str, node: Node) -> None:
    """Dictionaries keep their order, and a job's operators stand in it."""
    kept = list(nodes.items())
    place = list(nodes).index(target)
    nodes.clear()
    nodes.update([*kept[:place], (node[0].id, node), *kept[place:]])


def _remove(nodes: Nodes, physics: Physics, changed: Sequence[str], rng: np.random.Generator) -> None:
    """Take an operator out; what read it reads what it read."""
    gone = changed[int(rng.integers(len(changed)))]
    (before,) = nodes.pop(gone)[1]
    del physics[gone]
    for key, (operator, inputs) in list(nodes.items()):
        if gone in inputs:
            nodes[key] = (operator, tuple(dict.fromkeys(before if one == gone else one for one in inputs)))


def _replace(nodes: Nodes, physics: Physics, changed: Sequence[str], rng: np.random.Generator) -> None:
    """Another plain operator in the place of one."""
    key = changed[int(rng.integers(len(changed)))]
    operator, inputs = nodes[key]
    made = _new_operator(key, nodes[inputs[0]][0], rng, operator.type)
    nodes[key] = (made, inputs)
    physics[key] = draw_physics(made, rng)
