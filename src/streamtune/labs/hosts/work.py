"""``TaskWork``: a job down to its tasks, with the host of each, as real engines on hosts run it. Plain JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamtune.errors import EngineError
from streamtune.placement.fluid import TaskFlows
from streamtune.placement.graph import Ints


@dataclass(frozen=True)
class TaskWork:
    """Tasks by number. Sources emit ``count`` tuples at ``rate``; ``routes`` has (task, tuples per tuple, bytes)."""

    hosts: tuple[int, ...]
    depth: tuple[int, ...]
    sources: Mapping[int, tuple[float, int]]
    routes: tuple[tuple[tuple[int, float, int], ...], ...]

    @classmethod
    def of(cls, flows: TaskFlows, part: Ints, rate: float, count: int) -> TaskWork:
        """The work of flows under an assignment; ``rate`` and ``count`` are those of the fastest source task."""
        tasks = len(flows.tasks)
        handled = flows.handled.sum(axis=0)
        sent = flows.per_source.sum(axis=0)
        routes: list[list[tuple[int, float, int]]] = [[] for _ in range(tasks)]
        ends = zip(flows.edge_source.tolist(), flows.edge_target.tolist(), sent, flows.tuple_bytes, strict=True)
        for a, b, tuples, size in ends:
            if tuples > 0:
                routes[a].append((b, float(tuples / handled[a]), round(float(size))))
        # Sources keep their proportions: the fastest gets the rate and the count.
        shares = flows.wanted / flows.wanted.max()
        sources = {
            int(task): (rate * float(share), round(count * float(share)))
            for task, share in zip(flows.source_tasks, shares, strict=True)
        }
        return cls(tuple(int(host) for host in part), _depths(routes), sources, tuple(tuple(route) for route in routes))

    @property
    def stages(self) -> int:
        return max(self.depth) + 1

    def tuples(self) -> dict[tuple[int, int], tuple[float, int]]:
        """(sender, receiver) → (tuples in all, bytes of one): what the routes add up to."""
        handled = np.zeros(len(self.hosts))
        for task, (_, count) in self.sources.items():
            handled[task] = count
        found: dict[tuple[int, int], tuple[float, int]] = {}
        for task in sorted(range(len(self.hosts)), key=self.depth.__getitem__):
            for target, ratio, size in self.routes[task]:
                found[task, target] = (handled[task] * ratio, size)
                handled[target] += handled[task] * ratio
        return found

    def remote(self) -> list[tuple[float, int]]:
        """(tuples, bytes of one) of every pair of tasks on different hosts."""
        return [entry for (a, b), entry in self.tuples().items() if self.hosts[a] != self.hosts[b]]

    def write(self, path: Path) -> None:
        record = asdict(self)
        record["sources"] = {str(task): list(value) for task, value in self.sources.items()}
        path.write_text(json.dumps(record), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> TaskWork:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            tuple(record["hosts"]),
            tuple(record["depth"]),
            {int(task): (float(rate), int(count)) for task, (rate, count) in record["sources"].items()},
            tuple(tuple((int(b), float(r), int(s)) for b, r, s in route) for route in record["routes"]),
        )


def _depths(routes: list[list[tuple[int, float, int]]]) -> tuple[int, ...]:
    """The longest way to each task; acknowledgements that go back make a cycle, which a dataflow cannot have."""
    depth = [0] * len(routes)
    for _ in range(len(routes) + 1):
        changed = False
        for task, targets in enumerate(routes):
            for target, _, _ in targets:
                if depth[target] < depth[task] + 1:
                    depth[target], changed = depth[task] + 1, True
        if not changed:
            return tuple(depth)
    raise EngineError("the tasks send in a circle: run the topology without acknowledgements")
