"""The communication graph of a running Flink job, read from its REST interface alone.

Subtasks report the bytes they read and wrote as counters; two looks some seconds apart give rates. What a subtask sends
is spread over the receivers as the exchange says: forward to the same number, all else by what the receivers read.
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


@dataclass(frozen=True)
class RunningJob:
    """What a Flink job does now: its graph, the host of every subtask, and which exchanges it has."""

    name: str
    graph: CommunicationGraph
    current: dict[str, str]
    exchanges: dict[tuple[str, str], str]


def running_job(
    fetch: Fetch, job_id: str | None = None, seconds: float = 10.0, sleep: Callable[[float], None] = time.sleep
) -> RunningJob:
    """Look at a job twice and work out what its subtasks exchange; ``fetch`` is ``FlinkClient.read``, or its like."""
    job_id = job_id or _only_job(fetch)
    details = fetch(f"/jobs/{job_id}")
    plan = details["plan"]
    vertices = {vertex["id"]: vertex for vertex in details["vertices"]}
    names = _short_names(vertices)
    first = {vertex: fetch(f"/jobs/{job_id}/vertices/{vertex}")["subtasks"] for vertex in vertices}
    sleep(seconds)
    second = {vertex: fetch(f"/jobs/{job_id}/vertices/{vertex}")["subtasks"] for vertex in vertices}
    rates = {vertex: _rates(first[vertex], second[vertex], seconds) for vertex in vertices}
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
    for key in ("read-bytes", "write-bytes", "read-records", "write-records"):
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
