"""Many Flink clusters in miniature, for measuring the service: a process that answers like JobManagers, and is cheap.

python benchmarks/fake_clusters.py CLUSTERS JOBS prints the ports, one line of JSON, and serves until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import time
from typing import Any

VERTICES = ("source", "parse", "enrich", "sink")
NAMES = {"source": "Source: events", "parse": "Flat Map", "enrich": "Map", "sink": "Sink: out"}
_PATH = re.compile(r"/jobs/([0-9a-f]{32})(?:/([a-z-]+)(?:/([0-9a-f]{32})(/subtasks/metrics)?)?)?")
_STARTED = time.time()


class Job:
    """One job: a source, two operators and a sink; its rate moves over an hour."""

    def __init__(self, cluster: int, number: int) -> None:
        self.id = f"{cluster:04x}{number:028x}"
        self.name = f"job-{cluster:02d}-{number:03d}"
        self.phase = 2 * math.pi * ((number * 37) % 100) / 100
        self.degrees = {"source": 1, "parse": 2 + number % 3, "enrich": 3 + number % 5, "sink": 1}
        self.vertices = {key: f"{place + 1:04x}{cluster:04x}{number:024x}" for place, key in enumerate(VERTICES)}
        self.keys = {vertex: key for key, vertex in self.vertices.items()}

    def counters(self, key: str, elapsed_s: float) -> dict[str, float]:
        """Per subtask, as sums since the start: the rate is 1000 ± 300 records/s."""
        swing = (
            300 * 3600 / (2 * math.pi) * (math.cos(self.phase) - math.cos(2 * math.pi * elapsed_s / 3600 + self.phase))
        )
        records = (1000 * elapsed_s + swing) / self.degrees[key]
        able = {"source": 5000.0, "parse": 700.0, "enrich": 400.0, "sink": 5000.0}[key]
        total_ms = 1000 * elapsed_s
        busy = min(total_ms, 1000 * records / able)
        return {
            "read-records": round(records),
            "write-records": 0 if key == "sink" else round(records),
            "accumulated-busy-time": busy,
            "accumulated-backpressured-time": 0.0,
            "accumulated-idle-time": total_ms - busy,
        }


def details(job: Job) -> dict[str, Any]:
    elapsed_s = time.time() - _STARTED + 600
    vertices = [
        {
            "id": job.vertices[key],
            "name": NAMES[key],
            "parallelism": job.degrees[key],
            "maxParallelism": 128,
            "status": "RUNNING",
            "start-time": round((_STARTED - 600) * 1000),
            "tasks": {"RUNNING": job.degrees[key]},
            "metrics": {name: value * job.degrees[key] for name, value in job.counters(key, elapsed_s).items()},
        }
        for key in VERTICES
    ]
    nodes = [
        {
            "id": job.vertices[key],
            "parallelism": job.degrees[key],
            "description": NAMES[key],
            "inputs": [{"id": job.vertices[VERTICES[place - 1]], "ship_strategy": "REBALANCE"}] if place else [],
        }
        for place, key in enumerate(VERTICES)
    ]
    now_ms = round(time.time() * 1000)
    return {
        "jid": job.id, "name": job.name, "state": "RUNNING", "now": now_ms, "vertices": vertices,
        "plan": {"nodes": nodes},
    }  # fmt: skip


def answer(jobs: dict[str, Job], method: str, target: str, body: bytes) -> tuple[int, Any]:
    path, _, query = target.partition("?")
    if path == "/overview":
        return 200, {"taskmanagers": 1, "slots-total": 9000, "slots-available": 5000, "flink-version": "2.3.0"}
    if path == "/jobs/overview":
        listed = [{"jid": job.id, "name": job.name, "state": "RUNNING", "start-time": 1} for job in jobs.values()]
        return 200, {"jobs": listed}
    if path == "/jobmanager/config":
        return 200, [{"key": "jobmanager.scheduler", "value": "adaptive"}]
    match = _PATH.fullmatch(path)
    job = jobs.get(match[1]) if match else None
    if match is None or job is None:
        return 404, {"errors": ["FlinkJobNotFoundException"]}
    rest = match[2]
    if rest is None:
        return 200, details(job)
    if rest == "vertices" and match[3] in job.keys:
        return vertex(job, job.keys[match[3]], bool(match[4]), query)
    if rest == "resource-requirements":
        if method == "PUT":
            wanted = json.loads(body)
            job.degrees = {key: wanted[job.vertices[key]]["parallelism"]["upperBound"] for key in VERTICES}
            return 200, {}
        bounds = {
            job.vertices[key]: {"parallelism": {"lowerBound": 1, "upperBound": job.degrees[key]}} for key in VERTICES
        }
        return 200, bounds
    fixed = {
        "status": {"status": "RUNNING"},
        "config": {"jid": job.id, "execution-config": {"user-config": {}}},
        "exceptions": {"exceptionHistory": {"entries": []}},
        "checkpoints": {"counts": {"total": 0, "completed": 0, "failed": 0}, "latest": {"completed": None}},
    }
    return (200, fixed[rest]) if rest in fixed else (404, {"errors": ["not found"]})


def vertex(job: Job, key: str, metrics: bool, query: str) -> tuple[int, Any]:
    if metrics:
        lag = "Source__events.pendingRecords"
        if "get=" in query:
            return 200, [{"id": lag, "sum": 0.0, "avg": 0.0, "max": 0.0}] if key == "source" else []
        return 200, [{"id": "numRecordsIn"}, *([{"id": lag}] if key == "source" else [])]
    one = job.counters(key, time.time() - _STARTED + 600)
    subtasks = [
        {"subtask": n, "attempt": 0, "status": "RUNNING", "start-time": round((_STARTED - 600) * 1000), "metrics": one}
        for n in range(job.degrees[key])
    ]
    return 200, {"id": job.vertices[key], "name": NAMES[key], "parallelism": job.degrees[key], "subtasks": subtasks}


class Cluster(asyncio.Protocol):
    """HTTP/1.1 with kept connections, as little of it as a client of ours needs."""

    def __init__(self, jobs: dict[str, Job]) -> None:
        self._jobs = jobs
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, rest = self._buffer.partition(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
            )
            if len(rest) < length:
                return
            body, self._buffer = rest[:length], rest[length:]
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            status, payload = answer(self._jobs, method, target, body)
            content = json.dumps(payload).encode()
            self._transport.write(  # type: ignore[attr-defined]
                b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % (status, len(content))
                + content
            )


async def serve(clusters: int, jobs: int) -> None:
    loop, ports = asyncio.get_running_loop(), []
    for cluster in range(clusters):
        some = {job.id: job for job in (Job(cluster, number) for number in range(jobs))}
        server = await loop.create_server(lambda some=some: Cluster(some), "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
