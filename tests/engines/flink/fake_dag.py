"""A JobManager in miniature for jobs of any shape: limits per vertex, rates per edge, sources that are held up.

Every vertex has a capacity per subtask and a ratio per input (records over the edge per record into the writer). When
some vertex cannot keep up, all that lies before it is slowed down alike, and blocked for the time it does not work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engines.flink.fake_flink import START, Answer, FakeFlink


@dataclass(frozen=True)
class FakeVertex:
    """One vertex. ``inputs`` maps writers to records over the edge per record that the writer takes in."""

    name: str
    per_subtask: float = 1000.0
    inputs: Mapping[str, float] = field(default_factory=dict)
    ship: str = "REBALANCE"
    max_parallelism: int = 128
    description: str = ""
    group: str | None = None  # of those that share their slots
    metrics: Mapping[str, float] = field(default_factory=dict)  # per record that the vertex takes in, cumulative


class FakeDag(FakeFlink):
    """Serves one job of the given vertices, in topological order; ``rates`` are offered to the sources."""

    def __init__(self, vertices: Mapping[str, FakeVertex], rates: Mapping[str, float], *, slots: int = 40) -> None:
        super().__init__(slots=slots)
        self.vertices = dict(vertices)
        self.rates = dict(rates)
        self.ids = {key: f"{number:032x}" for number, key in enumerate(vertices, start=10)}
        self.degrees = dict.fromkeys(vertices, 1)
        self.bounds = dict.fromkeys(vertices, (1, 1))
        self.finished: dict[str, int] = {}  # how many subtasks of a bounded vertex have done all their work
        self.gauges: dict[str, dict[str, float]] = {}  # vertex → metric → value, as asked for with agg
        self.is_idle_when_blocked = False
        self.counts_each_output = True  # Flink counts a record once for every output it goes to

    # What flows

    def demand(self) -> dict[str, float]:
        wanted: dict[str, float] = {}
        for key, vertex in self.vertices.items():
            wanted[key] = self.rates.get(key, 0.0) + sum(wanted[u] * ratio for u, ratio in vertex.inputs.items())
        return wanted

    def load(self) -> dict[str, float]:
        return {key: rate / (self.vertices[key].per_subtask * self.degrees[key]) for key, rate in self.demand().items()}

    def taken(self, key: str) -> float:
        return self.demand()[key] / max(1.0, *self.load().values())

    def _before_the_bottleneck(self) -> set[str]:
        load = self.load()
        worst = max(load, key=load.__getitem__)
        if load[worst] <= 1.0:
            return set()
        found, stack = set(), [worst]
        while stack:
            for writer in self.vertices[stack.pop()].inputs:
                if writer not in found:
                    found.add(writer)
                    stack.append(writer)
        return found

    def emitted(self, key: str) -> float:
        """What the vertex' own counter says: once per output, or the most that any reader got."""
        over = [v.inputs[key] * self.taken(key) for v in self.vertices.values() if key in v.inputs]
        return sum(over) if self.counts_each_output else max(over, default=0.0)

    def _subtask(self, key: str) -> dict[str, float]:
        elapsed_s = self.now_s - self.started_s if self.metrics_move else 0.0
        p = self.degrees[key]
        busy = min(1.0, self.taken(key) / (self.vertices[key].per_subtask * p))
        blocked = 0.0
        if key in self._before_the_bottleneck():
            blocked = (1 - 1 / max(self.load().values())) if self.is_idle_when_blocked else 1 - busy
        reads = 0.0 if not self.vertices[key].inputs else self.taken(key)
        total_ms = 1000 * elapsed_s
        return {
            "read-records": round(reads / p * elapsed_s),
            "write-records": round(self.emitted(key) / p * elapsed_s),
            "accumulated-busy-time": busy * total_ms,
            "accumulated-backpressured-time": blocked * total_ms,
            "accumulated-idle-time": max(0.0, 1 - busy - blocked) * total_ms,
        }

    def slots_used(self) -> int:
        groups = {vertex.group for vertex in self.vertices.values()}
        return sum(
            max(self.degrees[key] for key, one in self.vertices.items() if one.group == group) for group in groups
        )

    # Answers

    def _tasks(self, key: str) -> dict[str, int]:
        if self.state != "RUNNING":
            return {"RUNNING": 0, "FINISHED": 0}
        ended = min(self.finished.get(key, 0), self.degrees[key])
        return {"RUNNING": self.degrees[key] - ended, "FINISHED": ended}

    def _ended(self) -> dict[str, float]:
        """The counters of a subtask that has finished: they stand still."""
        return {**dict.fromkeys(self._subtask(next(iter(self.vertices))), 0.0), "write-records": 10.0}

    def _totals(self, key: str) -> dict[str, float]:
        tasks, running, ended = self._tasks(key), self._subtask(key), self._ended()
        alive = self.degrees[key] - tasks["FINISHED"]
        return {name: value * alive + ended[name] * tasks["FINISHED"] for name, value in running.items()}

    def _details(self) -> dict[str, Any]:
        started_ms = round((START.timestamp() + self.started_s) * 1000)
        vertices = []
        for key, vertex in self.vertices.items():
            p = self.degrees[key]
            vertices.append(
                {
                    "id": self.ids[key],
                    "name": vertex.name,
                    "parallelism": p,
                    "maxParallelism": vertex.max_parallelism,
                    "status": self.state,
                    "start-time": started_ms,
                    "slotSharingGroupId": vertex.group,
                    "tasks": self._tasks(key),
                    "metrics": self._totals(key),
                }
            )
        nodes = [
            {
                "id": self.ids[key],
                "parallelism": self.degrees[key],
                "description": vertex.description or vertex.name,
                "inputs": [{"id": self.ids[one], "ship_strategy": vertex.ship} for one in vertex.inputs],
            }
            for key, vertex in self.vertices.items()
        ]
        return {
            "jid": self.job_id,
            "name": self.job_name,
            "state": self.state,
            "now": round(self.clock.now().timestamp() * 1000),
            "vertices": vertices,
            "plan": {"nodes": nodes},
        }

    def _requirements(self, method: str, body: Any) -> Answer:
        if self.scheduler != "adaptive":
            return 500, {"errors": ["java.lang.UnsupportedOperationException: not an adaptive scheduler"]}
        if method != "PUT":
            return 200, {
                self.ids[key]: {"parallelism": {"lowerBound": low, "upperBound": high}}
                for key, (low, high) in self.bounds.items()
            }
        for key, vertex in self.vertices.items():
            upper = body[self.ids[key]]["parallelism"]["upperBound"]
            if upper > vertex.max_parallelism:
                return 400, {"errors": [f"{vertex.name} asks for {upper}, its maximum is {vertex.max_parallelism}"]}
        for key in self.vertices:
            wanted = body[self.ids[key]]["parallelism"]
            self.bounds[key] = (wanted["lowerBound"], wanted["upperBound"])
        self.degrees = {key: upper for key, (_, upper) in self.bounds.items()}
        self.restart()
        return 200, {}

    def _vertex(self, rest: str, query: str) -> Answer:
        key = next((key for key, vertex in self.ids.items() if f"/vertices/{vertex}" in rest), None)
        if key is None:
            return 404, {"errors": ["not found"]}
        if rest.endswith("/subtasks/metrics"):
            return 200, self._vertex_metrics(key, query)
        subtasks = [
            {
                "subtask": number,
                "attempt": self.attempt,
                "status": "FINISHED" if number < self.finished.get(key, 0) else "RUNNING",
                "start-time": round((START.timestamp() + self.started_s) * 1000),
                "metrics": self._ended() if number < self.finished.get(key, 0) else self._subtask(key),
            }
            for number in range(self.degrees[key])
        ]
        name, p = self.vertices[key].name, self.degrees[key]
        return 200, {"id": self.ids[key], "name": name, "parallelism": p, "subtasks": subtasks}

    def _vertex_metrics(self, key: str, query: str) -> list[dict[str, Any]]:
        from urllib.parse import parse_qs

        elapsed_s = self.now_s - self.started_s if self.metrics_move else 0.0
        values = {
            name: self.taken(key) * share * elapsed_s for name, share in self.vertices[key].metrics.items()
        } | self.gauges.get(key, {})
        wanted = parse_qs(query).get("get")
        if wanted is None:
            return [{"id": name} for name in values]
        asked = [name for name in wanted[0].split(",") if name in values]
        return [{"id": name, "sum": values[name], "max": values[name], "avg": values[name]} for name in asked]
