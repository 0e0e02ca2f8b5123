"""From Flink's plan to a ``Dataflow``: one operator per vertex, because a vertex is what has a parallelism."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from streamtune.dataflow import Dataflow, Edge, Job, Operator, Plan
from streamtune.dataflow.operator import SINK, SOURCE, Partitioning
from streamtune.dataflow.spec import parse_spec
from streamtune.engines.flink.descriptions import UNKNOWN, chained_names, describe
from streamtune.engines.flink.overrides import Overrides
from streamtune.engines.flink.responses import JobDetails, PlanNode, Vertex
from streamtune.errors import EngineError, StreamTuneError

_SHIPPING: dict[str, Partitioning] = {
    "FORWARD": "forward",
    "HASH": "hash",
    "CUSTOM": "hash",
    "BROADCAST": "broadcast",
}
_LONGEST_ID = 48


@dataclass(frozen=True)
class ImportedJob:
    """A running job as tuners see it, and which vertex each of its operators is."""

    job: Job
    plan: Plan
    vertex_of: Mapping[str, str]
    exclude: frozenset[str] = frozenset()

    @property
    def operator_of(self) -> dict[str, str]:
        return {vertex: operator for operator, vertex in self.vertex_of.items()}


def import_job(
    details: JobDetails,
    *,
    overrides: Overrides | None = None,
    published: str | None = None,
    rates: Mapping[str, float] | None = None,
    slots: int | None = None,
) -> ImportedJob:
    """Read a job's plan.

    ``published`` is what the job says about itself (a job spec as JSON, as our own workload publishes), ``rates`` what
    its sources offer where that is known, ``slots`` how many it could have at most.
    """
    overrides = overrides or Overrides()
    if not details.plan.nodes:
        raise EngineError(f"job {details.id} has no plan yet (it is {details.state}): wait until it runs")
    vertices = {vertex.id: vertex for vertex in details.vertices}
    nodes = [node for node in details.plan.nodes if node.id in vertices]
    by_vertex = operator_ids(details)
    _check_overrides(overrides, by_vertex)
    known = _published_operators(published)
    has_readers = {entry.id for node in nodes for entry in node.inputs}
    operators = []
    for node in nodes:
        key = by_vertex[node.id]
        operator = known.get(key) or _operator(key, vertices[node.id], node, is_last=node.id not in has_readers)
        operator = operator.model_copy(update={"parallelism": vertices[node.id].parallelism})
        for name in (node.id, key):
            if name in overrides.operators:
                operator = overrides.operators[name].apply(operator)
        if operator.is_source:
            rate = (rates or {}).get(key, operator.rate or 0.0)
            operator = operator.model_copy(update={"rate": rate})
        operators.append(operator)
    flow = Dataflow(_with_widths(tuple(operators), nodes, by_vertex), _edges(nodes, by_vertex))
    plan = Plan({by_vertex[vertex.id]: vertex.parallelism for vertex in vertices.values()})
    job = Job(details.name, flow, _limit(details, overrides, slots))
    exclude = frozenset(by_vertex.get(name, name) for name in overrides.exclude)
    return ImportedJob(job, plan, {operator: vertex for vertex, operator in by_vertex.items()}, exclude)


def operator_ids(details: JobDetails) -> dict[str, str]:
    """Vertex id → operator id: readable, unique, and the same every time.

    It is the head of each chain, numbered where that occurs twice.
    """
    vertices = {vertex.id: vertex for vertex in details.vertices}
    seen: dict[str, int] = {}
    ids = {}
    for vertex in (vertices[node.id] for node in details.plan.nodes if node.id in vertices):
        head = (chained_names(vertex.name) or [vertex.name])[0]
        bare = re.sub(r"^(Source|Sink): ", "", head).strip()
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", bare).strip("-")[:_LONGEST_ID] or vertex.id[:8]
        seen[slug] = seen.get(slug, 0) + 1
        ids[vertex.id] = slug if seen[slug] == 1 else f"{slug}-{seen[slug]}"
    return ids


def _check_overrides(overrides: Overrides, by_vertex: Mapping[str, str]) -> None:
    known = {*by_vertex, *by_vertex.values()}
    for name in (*overrides.operators, *overrides.exclude):
        if name not in known:
            raise EngineError(
                f"the overrides name '{name}', but the operators of the job are {', '.join(by_vertex.values())}"
            )


def _published_operators(published: str | None) -> dict[str, Operator]:
    """The operators a job describes by itself; a description that cannot be read is ignored, not an error."""
    if published is None:
        return {}
    try:
        return {operator.id: operator for operator in parse_spec(json.loads(published)).job.dataflow.operators}
    except (json.JSONDecodeError, StreamTuneError):
        return {}


def _operator(key: str, vertex: Vertex, node: PlanNode, *, is_last: bool) -> Operator:
    found = describe(vertex.name, node.description)
    kind = found.kind
    if not node.inputs:
        kind = SOURCE
    elif kind == SOURCE or (kind == SINK and not is_last):
        kind = UNKNOWN
    return Operator(
        id=key,
        type=kind,
        window=found.window,
        aggregate=found.aggregate,
        join=found.join,
        tuple_width_out=found.width_out,
        tuple_type="row" if found.is_sql else None,
    )


def _edges(nodes: list[PlanNode], by_vertex: Mapping[str, str]) -> tuple[Edge, ...]:
    """A vertex that reads another one twice, as a self-join does, is one edge for us."""
    edges = {
        (by_vertex[entry.id], by_vertex[node.id]): _SHIPPING.get(entry.ship_strategy, "rebalance")
        for node in nodes
        for entry in node.inputs
        if entry.id in by_vertex
    }
    return tuple(Edge(source, target, way) for (source, target), way in edges.items())


def _with_widths(
    operators: tuple[Operator, ...], nodes: list[PlanNode], by_vertex: Mapping[str, str]
) -> tuple[Operator, ...]:
    """What comes in is as wide as what the inputs put out, where that is known."""
    width_out = {operator.id: operator.tuple_width_out for operator in operators}
    completed = []
    for operator, node in zip(operators, nodes, strict=True):
        widths = [width_out[by_vertex[entry.id]] for entry in node.inputs if entry.id in by_vertex]
        known = [width for width in widths if width is not None]
        if operator.tuple_width_in is None and known:
            operator = operator.model_copy(update={"tuple_width_in": sum(known) / len(known)})
        completed.append(operator)
    return tuple(completed)


def _limit(details: JobDetails, overrides: Overrides, slots: int | None) -> int:
    """No vertex may go past the key groups, the slots there are, or what the user allows."""
    limits = [vertex.max_parallelism for vertex in details.vertices if vertex.max_parallelism > 0]
    limits += [limit for limit in (overrides.max_parallelism, slots) if limit]
    highest = max(vertex.parallelism for vertex in details.vertices)
    return max(min(limits, default=highest), highest)


def slots_needed(details: JobDetails, degrees: Mapping[str, int]) -> int:
    """Slots a job takes: vertices of one slot-sharing group share them, groups do not share.

    ``degrees`` are by vertex id; vertices that are not in it count with what they run at.
    """
    groups: dict[str | None, int] = {}
    for vertex in details.vertices:
        degree = degrees.get(vertex.id, vertex.parallelism)
        groups[vertex.slot_sharing_group] = max(groups.get(vertex.slot_sharing_group, 0), degree)
    return sum(groups.values())
