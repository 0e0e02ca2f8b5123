"""Names of vertices that survive a resubmission.

SQL's planner numbers its operators as it goes, so ``Join[23]`` is called ``Join[228]`` when the same script is
submitted again. An operator id is made of what does not change: the head of the chain without its counter and, where
several vertices share it, their place in the graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import count

from streamtune.engines.flink.descriptions import chained_names
from streamtune.engines.flink.responses import JobDetails, PlanNode, Vertex

_COUNTER = re.compile(r"\[(?:vertex-)?\d+\]")
_NUMBERED = re.compile(r"^(.+?)-\d+$")
_LONGEST_ID = 48


def operator_ids(details: JobDetails) -> dict[str, str]:
    """Vertex id → operator id: readable, unique, and the same for every submission of a job.

    It is the head of each chain; those that share one are numbered by depth and by what they read and do.
    """
    vertices = {vertex.id: vertex for vertex in details.vertices}
    nodes = [node for node in details.plan.nodes if node.id in vertices]
    place = _places(nodes, vertices)
    slugs = {node.id: _slug(vertices[node.id].name, node.id) for node in nodes}
    reserved = set(slugs.values())  # a vertex may be called Map-2 by itself
    ids: dict[str, str] = {}
    given: set[str] = set()
    for node in sorted(nodes, key=lambda one: place[one.id]):
        slug = slugs[node.id]
        numbered = (f"{slug}-{number}" for number in count(2))
        key = slug if slug not in given else next(one for one in numbered if one not in reserved | given)
        ids[node.id] = key
        given.add(key)
    return {node.id: ids[node.id] for node in nodes}


def without_counters(text: str) -> str:
    """A name or description as it reads whenever the job is submitted.

    >>> without_counters("[23]:Join(joinType=[InnerJoin]) -> Calc[24]")
    ':Join(joinType=[InnerJoin]) -> Calc'
    >>> without_counters("[vertex-3]Calc[24]")
    'Calc'
    """
    return _COUNTER.sub("", text)


def resolve(name: str, ids: Mapping[str, str], details: JobDetails) -> str | None:
    """The operator that a user's name means: its id, its vertex' id, or an id with the counter of another submission.

    None where there is no such operator, or more than one.
    """
    if name in ids:
        return ids[name]
    if name in ids.values():
        return name
    numbered = {_slug(vertex.name, vertex.id, keep_counter=True): vertex.id for vertex in details.vertices}
    if numbered.get(name) in ids:
        return ids[numbered[name]]
    match = _NUMBERED.match(name)
    heads = [one for vertex, one in ids.items() if match and _slug_of(vertex, details) == match[1]]
    return heads[0] if len(heads) == 1 else None


def _slug_of(vertex_id: str, details: JobDetails) -> str:
    return next(_slug(vertex.name, vertex.id) for vertex in details.vertices if vertex.id == vertex_id)


def _slug(name: str, vertex_id: str, *, keep_counter: bool = False) -> str:
    head = (chained_names(name) or [name])[0]
    bare = re.sub(r"^(Source|Sink): ", "", head if keep_counter else without_counters(head)).strip()
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", bare).strip("-")[:_LONGEST_ID] or vertex_id[:8]


def _places(nodes: Iterable[PlanNode], vertices: Mapping[str, Vertex]) -> dict[str, tuple[int, str, str, int]]:
    """Where each vertex stands: depth, what it does, what lies before it, and last the order that Flink gives."""
    given = {node.id: (number, node) for number, node in enumerate(nodes)}
    depth: dict[str, int] = {}
    before: dict[str, str] = {}

    def visit(node_id: str) -> int:
        if node_id not in depth:
            depth[node_id] = 0  # a plan is acyclic; this ends the search where an answer is not
            _, node = given[node_id]
            inputs = [entry.id for entry in node.inputs if entry.id in given]
            depth[node_id] = 1 + max((visit(one) for one in inputs), default=-1)
            before[node_id] = "|".join(sorted(_told(given[one][1], vertices) + before.get(one, "") for one in inputs))
        return depth[node_id]

    for node_id in given:
        visit(node_id)
    return {
        node_id: (depth[node_id], _told(node, vertices), before[node_id], number)
        for node_id, (number, node) in given.items()
    }


def _told(node: PlanNode, vertices: Mapping[str, Vertex]) -> str:
    return without_counters(f"{vertices[node.id].name} {node.description}")
