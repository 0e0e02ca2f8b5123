"""Communication graphs as JSON.

``tasks: [{id, load, memory_mb?, state_mb?, host?, operator?}]``, ``edges: [{from, to, bytes_per_s}]``. ``host`` pins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamtune.dataflow.documents import DocumentError, parse_json, read_text
from streamtune.placement.graph import CommunicationGraph, Floats, PlacementError

MOST_BYTES = 2**31  # some ten million edges
_TASK_KEYS = {"id", "load", "memory_mb", "state_mb", "host", "operator"}
_EDGE_KEYS = {"from", "to", "bytes_per_s", "records_per_s"}


@dataclass(frozen=True)
class GraphFile:
    """A graph as read, and the hosts that its tasks ask for."""

    graph: CommunicationGraph
    pins: dict[str, str]


def read_graph(path: str | Path) -> GraphFile:
    """Read a graph; every problem is a ``PlacementError`` that names the file."""
    path = Path(path)
    try:
        return parse_graph(parse_json(read_text(path, MOST_BYTES)))
    except DocumentError as error:
        raise PlacementError(f"{path} {error.problem}. Expected a JSON object with tasks and edges") from error
    except PlacementError as error:
        raise PlacementError(f"{path}: {error}") from error


def parse_graph(data: Any) -> GraphFile:
    """Build a graph from plain values, as JSON gives them. A million tasks take a few seconds.

    >>> found = parse_graph({"tasks": [{"id": "a", "load": 1}, {"id": "b", "load": 1}],
    ...                      "edges": [{"from": "a", "to": "b", "bytes_per_s": 10}]})
    >>> found.graph.total_bytes_per_s
    10.0
    """
    if not isinstance(data, dict) or "tasks" not in data:
        raise PlacementError('must be an object with tasks and edges, for instance {"tasks": [], "edges": []}')
    unknown = set(data) - {"tasks", "edges"}
    if unknown:
        raise PlacementError(f"unknown key '{sorted(unknown)[0]}': the keys are tasks and edges")
    tasks, edges = data["tasks"], data.get("edges", [])
    _check_entries(tasks, "task", _TASK_KEYS, ("id", "load"))
    _check_entries(edges, "edge", _EDGE_KEYS, ("from", "to", "bytes_per_s"))
    ids = [_name(task["id"]) for task in tasks]
    index = {task: place for place, task in enumerate(ids)}
    where: Callable[[int], str] = lambda place: f"task '{ids[place]}'"  # noqa: E731
    graph = CommunicationGraph(
        tuple(ids),
        _numbers([task["load"] for task in tasks], "load", where),
        _numbers([task.get("memory_mb", 0) for task in tasks], "memory_mb", where),
        _numbers([task.get("state_mb", 0) for task in tasks], "state_mb", where),
        _ends(edges, "from", index),
        _ends(edges, "to", index),
        _numbers([edge["bytes_per_s"] for edge in edges], "bytes_per_s", lambda place: f"edge #{place + 1}"),
        _operators(tasks),
    )
    pins = {_name(task["id"]): _name(task["host"]) for task in tasks if task.get("host") is not None}
    return GraphFile(graph, pins)


def _name(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _operators(tasks: Sequence[dict[str, Any]]) -> tuple[str, ...] | None:
    if not tasks or "operator" not in tasks[0]:
        return None
    return tuple(str(task.get("operator", "")) for task in tasks)


def _check_entries(entries: Any, kind: str, known: set[str], needed: tuple[str, ...]) -> None:
    if not isinstance(entries, list):
        raise PlacementError(f"{kind}s must be a list, but got {type(entries).__name__}")
    shapes: set[tuple[str, ...]] = set()
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise PlacementError(f"{kind} #{place + 1} must be an object with {', '.join(needed)}, but got {entry!r}")
        shape = tuple(entry)
        if shape in shapes:
            continue
        missing = [key for key in needed if key not in entry]
        if missing:
            raise PlacementError(f"{kind} #{place + 1} has no {missing[0]}: add it")
        unknown = sorted(set(entry) - known)
        if unknown:
            raise PlacementError(
                f"{kind} #{place + 1}: unknown key '{unknown[0]}': the keys are {', '.join(sorted(known))}"
            )
        shapes.add(shape)
    if kind == "task":
        _check_ids(entries)


def _check_ids(tasks: Sequence[dict[str, Any]]) -> None:
    for place, task in enumerate(tasks):
        if isinstance(task["id"], bool) or not isinstance(task["id"], str | int) or task["id"] == "":
            raise PlacementError(f"task #{place + 1}: id must be a name, but got {task['id']!r}")


def _numbers(values: list[Any], name: str, where: Callable[[int], str]) -> Floats:
    if not set(map(type, values)) <= {int, float}:
        place = next(place for place, value in enumerate(values) if type(value) not in (int, float))
        raise PlacementError(f"{where(place)}: {name} must be a number, but got {values[place]!r}")
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise PlacementError(f"{name} has a number that is too large") from error


def _ends(edges: Sequence[dict[str, Any]], key: str, index: dict[str, int]) -> Any:
    try:
        return np.array([index[_name(edge[key])] for edge in edges], dtype=np.int64)
    except KeyError:
        place = next(place for place, edge in enumerate(edges) if _name(edge[key]) not in index)
        raise PlacementError(f"edge #{place + 1}: {key} names task '{edges[place][key]}', which is not there") from None


def to_mapping(graph: CommunicationGraph) -> dict[str, Any]:
    """Plain values that ``parse_graph`` reads back to an equal graph."""
    tasks: list[dict[str, Any]] = []
    for place, task in enumerate(graph.tasks):
        entry: dict[str, Any] = {"id": task, "load": float(graph.loads[place])}
        if graph.memory_mb.any():
            entry["memory_mb"] = float(graph.memory_mb[place])
        if graph.state_mb.any():
            entry["state_mb"] = float(graph.state_mb[place])
        if graph.operators is not None:
            entry["operator"] = graph.operators[place]
        tasks.append(entry)
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), graph.bytes_per_s.tolist(), strict=True)
    edges = [{"from": graph.tasks[a], "to": graph.tasks[b], "bytes_per_s": w} for a, b, w in ends]
    return {"tasks": tasks, "edges": edges}
