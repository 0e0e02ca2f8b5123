"""From Flink's plan to a ``Dataflow``: one operator per vertex, because a vertex is what has a parallelism."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streamtune.dataflow import Dataflow, Edge, Job, Operator, Plan
from streamtune.dataflow.operator import SINK, SOURCE, Partitioning
from streamtune.dataflow.spec import parse_spec
from streamtune.engines.base import JobNotYetRunningError
from streamtune.engines.flink.descriptions import UNKNOWN, Description, describe
from streamtune.engines.flink.identity import operator_ids as operator_ids
from streamtune.engines.flink.identity import resolve
from streamtune.engines.flink.overrides import Overrides
from streamtune.engines.flink.responses import FlinkGarbledError, JobDetails, PlanNode, Vertex
from streamtune.errors import DataflowError, EngineError, StreamTuneError
from streamtune.similarity.continuity import still_there

_SHIPPING: dict[str, Partitioning] = {
    "FORWARD": "forward",
    "HASH": "hash",
    "CUSTOM": "hash",
    "BROADCAST": "broadcast",
}
_LEAST_KEY_GROUPS, _MOST_KEY_GROUPS = 128, 1 << 15


@dataclass(frozen=True)
class ImportedJob:
    """A running job as tuners see it, and which vertex each of its operators is."""

    job: Job
    plan: Plan
    vertex_of: Mapping[str, str]
    exclude: frozenset[str] = frozenset()
    said_rates: Mapping[str, float] = field(default_factory=dict)
    read_from: Mapping[str, str] = field(default_factory=dict)  # operator → the words that its type was read from
    slot_group_of: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def operator_of(self) -> dict[str, str]:
        return {vertex: operator for operator, vertex in self.vertex_of.items()}

    def slots_needed(self, plan: Plan) -> int:
        """Slots that a plan takes; who shares them with whom is the job's own and stays as long as it runs."""
        return _slots((self.slot_group_of.get(key), degree) for key, degree in plan.items())


def import_job(
    details: JobDetails,
    *,
    overrides: Overrides | None = None,
    published: str | None = None,
    rates: Mapping[str, float] | None = None,
) -> ImportedJob:
    """Read a job's plan.

    ``published`` is what the job says about itself (a job spec as JSON, as our own workload publishes), ``rates`` what
    its sources offer where that is known.
    """
    overrides = overrides or Overrides()
    if not details.plan.nodes:
        raise JobNotYetRunningError(f"job {details.id} has no plan yet (it is {details.state}): wait until it runs")
    vertices = {vertex.id: vertex for vertex in details.vertices}
    nodes = [node for node in details.plan.nodes if node.id in vertices]
    _check_plan(details, nodes)
    by_vertex = operator_ids(details)
    overrides = resolved(overrides, details)
    known = _published_operators(published)
    has_readers = {entry.id for node in nodes for entry in node.inputs}
    operators = []
    read_from = {}
    for node in nodes:
        key = by_vertex[node.id]
        found = describe(vertices[node.id].name, node.description)
        operator = known.get(key) or _operator(key, found, node, is_last=node.id not in has_readers)
        read_from[key] = "the job's own spec" if key in known else _words(found, operator)
        limit = _limit(vertices[node.id], overrides)
        operator = operator.model_copy(update={"parallelism": vertices[node.id].parallelism, "max_parallelism": limit})
        if key in overrides.operators:
            operator = overrides.operators[key].apply(operator)
            read_from[key] = "the overrides"
        if operator.is_source:
            rate = (rates or {}).get(key, operator.rate or 0.0)
            operator = operator.model_copy(update={"rate": rate})
        operators.append(operator)
    try:
        flow = Dataflow(_with_widths(tuple(operators), nodes, by_vertex), _edges(nodes, by_vertex))
        plan = Plan({by_vertex[vertex.id]: vertex.parallelism for vertex in vertices.values()})
        job = Job(details.name, flow, max(operator.max_parallelism or 1 for operator in flow.operators))
    except DataflowError as error:
        raise FlinkGarbledError(f"job {details.id}: its plan is no dataflow: {error}") from error
    vertex_of = {operator: vertex for vertex, operator in by_vertex.items()}
    said = {key: one.rate for key, one in overrides.operators.items() if one.rate is not None}
    groups = {by_vertex[vertex.id]: vertex.slot_sharing_group for vertex in vertices.values()}
    return ImportedJob(job, plan, vertex_of, frozenset(overrides.exclude), said, read_from, groups)


def finished_operators(details: JobDetails, vertex_of: Mapping[str, str]) -> frozenset[str]:
    """Operators of bounded inputs that have done all their work: nothing about them is left to tune."""
    finished = {vertex.id for vertex in details.vertices if vertex.has_finished}
    return frozenset(key for key, vertex in vertex_of.items() if vertex in finished)


def _check_plan(details: JobDetails, nodes: list[PlanNode]) -> None:
    """Vertices and the nodes of the plan are the same things, told twice by Flink."""
    planned, running = [node.id for node in nodes], [vertex.id for vertex in details.vertices]
    for kind, ids in (("vertex", running), ("node of the plan", planned)):
        twice = next((key for key in ids if ids.count(key) > 1), None)
        if twice is not None:
            raise FlinkGarbledError(f"job {details.id}: Flink tells of {kind} '{twice}' twice: ask again in a while")
    missing = next((key for key in running if key not in planned), None)
    if missing is not None or not running:
        what = f"vertex '{missing}' is not in its plan" if running else "it has no vertices"
        raise FlinkGarbledError(f"job {details.id}: {what}: wait until it runs, and ask again")


def resolved(overrides: Overrides, details: JobDetails) -> Overrides:
    """The same overrides by operator id, whichever name of an operator they use."""
    ids = operator_ids(details)
    names = {name: resolve(name, ids, details) for name in overrides.named}
    unknown = sorted(name for name, operator in names.items() if operator is None)
    if unknown:
        raise EngineError(
            f"the overrides name '{unknown[0]}', but the operators of the job are {', '.join(ids.values())}: one "
            "that the job now calls otherwise has to be renamed in the overrides too"
        )
    return overrides.renamed({name: operator for name, operator in names.items() if operator is not None})


def carried_over(overrides: Overrides, before: Dataflow, now: Dataflow) -> Overrides:
    """Overrides by the operator ids of a job as it was, by those of the changed job that came in its place.

    Ids that are still there stay. Of the others the cheapest edit from ``before`` to ``now`` tells; what it cannot
    tell stays too, to be refused.
    """
    if overrides.named <= now.index.keys():
        return overrides
    return overrides.renamed({old: new for old, new in still_there(before, now).items() if old not in now.index})


def _published_operators(published: str | None) -> dict[str, Operator]:
    """The operators a job describes by itself; a description that cannot be read is ignored, not an error."""
    if published is None:
        return {}
    try:
        return {operator.id: operator for operator in parse_spec(json.loads(published)).job.dataflow.operators}
    except (ValueError, RecursionError, StreamTuneError):
        return {}


def _words(found: Description, operator: Operator) -> str:
    if operator.type == found.kind:
        return found.read_from
    if operator.is_source:
        return "it reads nothing"
    # Sinks are last in a dataflow: with a committer of its own, the writer is no sink for us.
    why = "a sink's writer, which others read" if found.kind == SINK else "which does not fit its place"
    return f"{found.read_from}, {why}"


def _operator(key: str, found: Description, node: PlanNode, *, is_last: bool) -> Operator:
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


def _limit(vertex: Vertex, overrides: Overrides) -> int:
    """A vertex may not go past its own key groups, or what the user allows; slots come and go, and are no part of it.

    What Flink does not tell is what it takes by itself. What runs already is never above the limit, whoever set it.
    """
    groups = vertex.max_parallelism if vertex.max_parallelism > 0 else _key_groups_of(vertex.parallelism)
    return max(min(groups, overrides.max_parallelism or groups), vertex.parallelism)


def _key_groups_of(parallelism: int) -> int:
    """Flink's own rule where nobody sets a maximum parallelism (``KeyGroupRangeAssignment``).

    >>> [_key_groups_of(degree) for degree in (1, 85, 86, 100_000)]
    [128, 128, 256, 32768]
    """
    power: int = 1 << (parallelism + parallelism // 2 - 1).bit_length()
    return min(max(power, _LEAST_KEY_GROUPS), _MOST_KEY_GROUPS)


def slots_needed(details: JobDetails, degrees: Mapping[str, int]) -> int:
    """Slots a job takes: vertices of one slot-sharing group share them, groups do not share.

    ``degrees`` are by vertex id; vertices that are not in it count with what they run at.
    """
    return _slots(
        (vertex.slot_sharing_group, degrees.get(vertex.id, vertex.parallelism)) for vertex in details.vertices
    )


def _slots(degrees: Iterable[tuple[str | None, int]]) -> int:
    """The sum over groups of the most instances of one of its members."""
    groups: dict[str | None, int] = {}
    for group, degree in degrees:
        groups[group] = max(groups.get(group, 0), degree)
    return sum(groups.values())
