"""The communication graph of a running Flink job, read from its REST interface alone.

Subtasks report the bytes they read and wrote as counters; two looks some seconds apart give rates. Flink refreshes what
it answers only after somebody has asked, and by default every ten seconds at most: an answer may be as old as the
question before. So it is asked every second, and the looks are two moments in which the counters were seen to change.
What a subtask sends is spread over the receivers as the exchange says: forward to the same number, all else by what the
receivers read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamtune.placement.graph import CommunicationGraph, Floats, PlacementError
from streamtune.placement.unroll import task_id

Fetch = Callable[[str], Any]
Subtasks = dict[str, list[Any]]
_COUNTERS = ("read-bytes", "write-bytes", "read-records", "write-records")
_POLL_S = 1.0
# Two refreshes by Flink's defaults, and a little.
_PATIENCE_S = 25.0


@dataclass(frozen=True)
class RunningJob:
    """What a Flink job does now: its graph, the host of every subtask, and which exchanges it has."""

    name: str
    graph: CommunicationGraph
    current: dict[str, str]
    exchanges: dict[tuple[str, str], str]


def running_job(
    fetch: Fetch,
    job_id: str | None = None,
    seconds: float = 10.0,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> RunningJob:
    """Look at a job and work out what its subtasks exchange; ``fetch`` is ``FlinkClient.read`` or its like."""
    job_id = job_id or _only_job(fetch)
    details = fetch(f"/jobs/{job_id}")
    plan = details["plan"]
    vertices = {vertex["id"]: vertex for vertex in details["vertices"]}
    names = _short_names(vertices)

    def look() -> Subtasks:
        return {vertex: fetch(f"/jobs/{job_id}/vertices/{vertex}")["subtasks"] for vertex in vertices}

    first, second, between_s = _two_looks(look, seconds, sleep, now)
    if any(len(first[vertex]) != len(second[vertex]) for vertex in vertices):
        raise PlacementError(f"job '{details['name']}' was rescaled meanwhile: look at it again")
    rates = {vertex: _rates(first[vertex], second[vertex], between_s) for vertex in vertices}
    inputs = [
        (entry["id"], node["id"], str(entry.get("ship_strategy", "HASH")).upper())
        for node in plan["nodes"]
        for entry in node.get("inputs", [])
        if entry["id"] in vertices and node["id"] in vertices
    ]
    graph = _graph(vertices, names, rates, inputs)
    current = {
        task_id(names[vertex], number): str(subtask.get("endpoint") or subtask.get("host") or "?")
        for vertex in vertices
        for number, subtask in enumerate(second[vertex])
    }
    return RunningJob(details["name"], graph, current, {(names[a], names[b]): way for a, b, way in inputs})


def _two_looks(
    look: Callable[[], Subtasks], seconds: float, sleep: Callable[[float], None], now: Callable[[], float]
) -> tuple[Subtasks, Subtasks, float]:
    """The counters after their first and after their last refresh within the seconds, and the time between the two.

    It takes longer where there were no two refreshes yet; where nothing changes at all, nothing flows.
    """
    began = now()
    seen = [(began, look())]
    passed_s = 0.0
    while passed_s < seconds or (len(seen) < 3 and passed_s < seconds + _PATIENCE_S):
        sleep(_POLL_S)
        answer = look()
        passed_s = now() - began
        if _counters(answer) != _counters(seen[-1][1]):
            seen.append((began + passed_s, answer))
    if len(seen) < 3:
        return seen[0][1], seen[-1][1], passed_s
    (start_s, first), (end_s, last) = seen[1], seen[-1]
    return first, last, end_s - start_s


def _counters(looked: Subtasks) -> list[list[Any]]:
    return [[subtask["metrics"][name] for name in _COUNTERS] for found in looked.values() for subtask in found]


def _only_job(fetch: Fetch) -> str:
    jobs = [job["jid"] for job in fetch("/jobs/overview")["jobs"] if job["state"] == "RUNNING"]
    if len(jobs) != 1:
        raise PlacementError(f"{len(jobs)} jobs are running ({', '.join(jobs[:5]) or 'none'}): name one with --job-id")
    return str(jobs[0])


def _short_names(vertices: dict[str, Any]) -> dict[str, str]:
    names: dict[str, str] = {}
    for key, vertex in vertices.items():
        name = str(vertex["name"]).split(" -> ")[-1].strip()[:40] or key
        while name in names.values():
            name += "'"
        names[key] = name
    return names


def _rates(before: list[Any], after: list[Any], seconds: float) -> dict[str, Floats]:
    """Bytes/s and records/s of every subtask from two looks at its counters."""
    found = {}
    for key in _COUNTERS:
        values = [
            max(0.0, float(b["metrics"][key]) - float(a["metrics"][key])) / seconds
            for a, b in zip(before, after, strict=True)
        ]
        found[key] = np.array(values)
    return found


def _graph(
    vertices: dict[str, Any],
    names: dict[str, str],
    rates: dict[str, dict[str, Floats]],
    inputs: list[tuple[str, str, str]],
) -> CommunicationGraph:
    first: dict[str, int] = {}
    tasks: list[str] = []
    for vertex in vertices:
        first[vertex] = len(tasks)
        tasks.extend(task_id(names[vertex], number) for number in range(rates[vertex]["read-bytes"].size))
    outputs = {vertex: sum(1 for a, _, _ in inputs if a == vertex) for vertex in vertices}
    edges: list[tuple[int, int, float]] = []
    for a, b, way in inputs:
        sent = rates[a]["write-bytes"] / outputs[a]
        pairs = _spread(sent, rates[b]["read-bytes"], way)
        edges.extend(
            (first[a] + int(i), first[b] + int(j), float(pairs[i, j])) for i, j in zip(*np.nonzero(pairs), strict=True)
        )
    loads = np.concatenate([rates[v]["read-records"] + rates[v]["write-records"] for v in vertices])
    operators = [names[v] for v in vertices for _ in range(rates[v]["read-bytes"].size)]
    return CommunicationGraph.of(tasks, loads, edges, operators=operators)


def _spread(sent: Floats, received: Floats, way: str) -> Floats:
    if way == "FORWARD" and sent.size == received.size:
        return np.diag(sent)
    if way == "BROADCAST":
        return np.repeat(sent[:, None] / received.size, received.size, axis=1)
    total = received.sum()
    shares = received / total if total > 0 else np.full(received.size, 1 / received.size)
    pairs: Floats = sent[:, None] * shares[None, :]
    return pairs
