"""``CommunicationGraph``: what the task instances of a running job do and what they send each other.

The graph G = (V, E) of Section 3.3 of Fischer's first study: a vertex is a task instance, its weight the work it does,
an edge weight what is sent from one instance to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamtune.errors import StreamTuneError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


# Sums, their multiples by prices and by hosts stay far from what a float can hold.
MOST_IN_ALL = 1e250


class PlacementError(StreamTuneError):
    """A placement that cannot be: a broken graph, hosts that are too small, a pin to a host that is not there."""


class Adjacency(NamedTuple):
    """The undirected view in compressed rows: neighbours of v are ``indices[indptr[v]:indptr[v + 1]]``.

    Both directions of a pair are added up; sending to oneself and edges without traffic are left out.
    """

    indptr: Ints
    indices: Ints
    weights: Floats


@dataclass(frozen=True, eq=False)
class CommunicationGraph:
    """Task instances with their load, and bytes/s between pairs of them. Arrays are read-only.

    ``loads`` have any unit (the thesis counts tuples in and out); ``memory_mb`` and ``state_mb`` are 0 where unknown.
    ``operators`` names the operator of each instance where the graph was made from a dataflow.

    >>> graph = CommunicationGraph.of(["a", "b"], [1.0, 2.0], [(0, 1, 50.0), (1, 0, 10.0)])
    >>> graph.total_bytes_per_s, graph.adjacency.weights.tolist()
    (60.0, [60.0, 60.0])
    """

    tasks: tuple[str, ...]
    loads: Floats
    memory_mb: Floats
    state_mb: Floats
    sources: Ints
    targets: Ints
    bytes_per_s: Floats
    operators: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.tasks:
            raise PlacementError("the graph has no tasks: there is nothing to place")
        if len(set(self.tasks)) < len(self.tasks):
            raise PlacementError(f"the task id '{_first_double(self.tasks)}' is used twice: give every task its own")
        for name in ("loads", "memory_mb", "state_mb"):
            self._check_values(name, getattr(self, name), self.tasks)
        if self.sources.size and not self._ends_exist():
            raise PlacementError(f"an edge points outside the {len(self.tasks)} tasks")
        self._check_values("bytes_per_s", self.bytes_per_s, None)
        for name in ("loads", "memory_mb", "state_mb", "sources", "targets", "bytes_per_s"):
            getattr(self, name).setflags(write=False)

    def _ends_exist(self) -> bool:
        low = min(int(self.sources.min()), int(self.targets.min()))
        high = max(int(self.sources.max()), int(self.targets.max()))
        return low >= 0 and high < len(self.tasks)

    def _check_values(self, name: str, values: Floats, tasks: Sequence[str] | None) -> None:
        field = {"loads": "load"}.get(name, name)
        good = np.isfinite(values) & (values >= 0)
        if good.all():
            with np.errstate(over="ignore"):
                total = float(values.sum())
            if total > MOST_IN_ALL:
                raise PlacementError(f"{field} adds up to {total:g}, the most is {MOST_IN_ALL:g}: use a larger unit")
            return
        place = int(np.flatnonzero(~good)[0])
        if tasks is None:
            ends = f"{self.tasks[self.sources[place]]} → {self.tasks[self.targets[place]]}"
            where = f"edge {ends}"
        else:
            where = f"task '{tasks[place]}'"
        raise PlacementError(f"{where}: {field} must be finite and at least 0, but got {values[place]:g}")

    @classmethod
    def of(
        cls,
        tasks: Sequence[str],
        loads: npt.ArrayLike,
        edges: Sequence[tuple[int, int, float]] = (),
        *,
        memory_mb: npt.ArrayLike | None = None,
        state_mb: npt.ArrayLike | None = None,
        operators: Sequence[str] | None = None,
    ) -> CommunicationGraph:
        """A graph from plain lists; edges are (position of sender, position of receiver, bytes/s)."""
        ends = np.array([(a, b) for a, b, _ in edges], dtype=np.int64).reshape(-1, 2)
        weights = np.array([weight for _, _, weight in edges], dtype=np.float64)
        return cls.from_arrays(
            tasks, loads, ends[:, 0], ends[:, 1], weights, memory_mb=memory_mb, state_mb=state_mb, operators=operators
        )

    @classmethod
    def from_arrays(
        cls,
        tasks: Sequence[str],
        loads: npt.ArrayLike,
        sources: npt.ArrayLike,
        targets: npt.ArrayLike,
        bytes_per_s: npt.ArrayLike,
        *,
        memory_mb: npt.ArrayLike | None = None,
        state_mb: npt.ArrayLike | None = None,
        operators: Sequence[str] | None = None,
    ) -> CommunicationGraph:
        """A graph from arrays, which are copied."""
        count = len(tasks)
        return cls(
            tuple(tasks),
            np.array(loads, dtype=np.float64),
            np.zeros(count) if memory_mb is None else np.array(memory_mb, dtype=np.float64),
            np.zeros(count) if state_mb is None else np.array(state_mb, dtype=np.float64),
            np.array(sources, dtype=np.int64),
            np.array(targets, dtype=np.int64),
            np.array(bytes_per_s, dtype=np.float64),
            None if operators is None else tuple(operators),
        )

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def index(self) -> dict[str, int]:
        """Task id → position."""
        return {task: position for position, task in enumerate(self.tasks)}

    @cached_property
    def total_bytes_per_s(self) -> float:
        return float(self.bytes_per_s.sum())

    @cached_property
    def total_load(self) -> float:
        return float(self.loads.sum())

    @cached_property
    def adjacency(self) -> Adjacency:
        """The undirected view that partitioners work on."""
        count = len(self.tasks)
        kept = (self.sources != self.targets) & (self.bytes_per_s > 0)
        a, b, w = self.sources[kept], self.targets[kept], self.bytes_per_s[kept]
        rows, columns, weights = np.concatenate([a, b]), np.concatenate([b, a]), np.concatenate([w, w])
        return compressed(count, rows, columns, weights)

    @cached_property
    def directed(self) -> tuple[Ints, Ints, Floats, Floats]:
        """The rows of ``adjacency`` with bytes/s sent to each neighbour and received from it."""
        kept = (self.sources != self.targets) & (self.bytes_per_s > 0)
        a, b, w = self.sources[kept], self.targets[kept], self.bytes_per_s[kept]
        rows, columns, nothing = np.concatenate([a, b]), np.concatenate([b, a]), np.zeros(w.size)
        sends = compressed(len(self.tasks), rows, columns, np.concatenate([w, nothing]))
        receives = compressed(len(self.tasks), rows, columns, np.concatenate([nothing, w]))
        return sends.indptr, sends.indices, sends.weights, receives.weights

    @cached_property
    def pieces(self) -> Ints:
        """The number of the connected piece each task belongs to; edges without traffic do not connect."""
        from streamtune.placement.graph_kernels import connected_pieces

        found: Ints = connected_pieces(self.adjacency.indptr, self.adjacency.indices)
        return found


def compressed(count: int, rows: Ints, columns: Ints, weights: Floats) -> Adjacency:
    """Compressed rows of (row, column, weight) triples; the weights of equal pairs are added up."""
    if rows.size == 0:
        return Adjacency(np.zeros(count + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    from streamtune.placement.graph_kernels import merge_rows

    order = np.argsort(rows, kind="stable")
    indptr = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=count), out=indptr[1:])
    merged = merge_rows(indptr, columns[order], weights[order])
    return Adjacency(*merged)


def _first_double(tasks: Sequence[str]) -> str:
    seen: set[str] = set()
    for task in tasks:
        if task in seen:
            return task
        seen.add(task)
    raise AssertionError("unreachable: called only when an id is used twice")
