"""``Problem``: a graph, hosts and what is asked for (balance, pins, what runs today); ``Placement``: the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from streamtune.placement.graph import CommunicationGraph, Floats, Ints, PlacementError
from streamtune.placement.hosts import Hosts

DEFAULT_IMBALANCE = 1.03
# A load that misses a limit by float noise alone is within it.
ROUNDING = 1e-9
BYTES_PER_MB = 1e6
_LEAST_MOVE = 1e-6
_SETTLE_ROUNDS = 30


@dataclass(frozen=True, eq=False)
class Problem:
    """One placement to be decided.

    ``current`` (task → host) is where instances run today; hosts in it that are gone make their tasks homeless.
    Moving a task costs its state once; ``horizon_s`` is the time over which that has to pay off.
    """

    graph: CommunicationGraph
    hosts: Hosts
    imbalance: float = DEFAULT_IMBALANCE
    pins: Mapping[str, str] = field(default_factory=dict)
    current: Mapping[str, str] | None = None
    horizon_s: float = 3600.0

    def __post_init__(self) -> None:
        if not 1 <= self.imbalance < float("inf"):
            raise PlacementError(
                f"imbalance, the largest load over the mean, must be finite and at least 1, but got {self.imbalance:g}"
            )
        if not 0 < self.horizon_s < float("inf"):
            raise PlacementError(f"horizon_s must be finite and above 0, but got {self.horizon_s:g}")
        self.pinned  # noqa: B018  computed here so that a pin to nowhere is refused at once
        self._check_memory()

    def _check_memory(self) -> None:
        needs, room = self.graph.memory_mb, self.hosts.memory_mb
        largest = int(needs.argmax())
        if needs[largest] > room.max():
            raise PlacementError(
                f"task '{self.graph.tasks[largest]}' needs {needs[largest]:g} MB, the largest host has {room.max():g}: "
                "add a bigger host or make the task smaller"
            )
        if needs.sum() > room.sum() * (1 + ROUNDING):
            raise PlacementError(
                f"the tasks need {needs.sum():g} MB, the {len(self.hosts)} hosts have {room.sum():g} MB: add hosts"
            )
        for task, host in self.pins.items():
            place = self.hosts.index[host]
            if needs[self.graph.index[task]] > room[place]:
                raise PlacementError(
                    f"task '{task}' is pinned to '{host}' and needs {needs[self.graph.index[task]]:g} MB, but it has "
                    f"{room[place]:g} MB: pin it elsewhere"
                )
        pinned = self.pinned >= 0
        held = np.bincount(self.pinned[pinned], weights=needs[pinned], minlength=len(self.hosts))
        full = np.flatnonzero(held > room * (1 + ROUNDING))
        if full.size:
            raise PlacementError(
                f"the tasks pinned to '{self.hosts.names[full[0]]}' need {held[full[0]]:g} MB, but it has "
                f"{room[full[0]]:g} MB: pin fewer of them there"
            )

    @cached_property
    def pinned(self) -> Ints:
        """The host each task is pinned to by the user, −1 where it is free."""
        pinned = np.full(len(self.graph), -1, dtype=np.int64)
        for task, host in self.pins.items():
            if task not in self.graph.index:
                raise PlacementError(f"task '{task}' is pinned to '{host}', but the graph has no such task")
            if host not in self.hosts.index:
                known = ", ".join(self.hosts.names[:8]) + (", …" if len(self.hosts) > 8 else "")
                raise PlacementError(
                    f"task '{task}' is pinned to '{host}', but that host is not there (hosts: {known}): "
                    "add the host or remove the pin"
                )
            pinned[self.graph.index[task]] = self.hosts.index[host]
        return pinned

    @cached_property
    def home(self) -> Ints:
        """The host each task runs on today, −1 where there is none (any more)."""
        home = np.full(len(self.graph), -1, dtype=np.int64)
        for task, host in (self.current or {}).items():
            if task in self.graph.index and host in self.hosts.index:
                home[self.graph.index[task]] = self.hosts.index[host]
        return home

    @cached_property
    def vanished(self) -> tuple[str, ...]:
        """Hosts on which tasks run today that are not among the hosts any more."""
        return tuple(sorted({host for host in (self.current or {}).values() if host not in self.hosts.index}))

    @cached_property
    def move_cost(self) -> Floats:
        """What moving each task costs, in bytes/s over the horizon; never quite nothing: no move is free."""
        least = _LEAST_MOVE * max(1.0, self.graph.total_bytes_per_s) / len(self.graph)
        return self.graph.state_mb * BYTES_PER_MB / self.horizon_s + least

    @cached_property
    def usable(self) -> Any:
        """Hosts that have the memory for at least one task; the others stay empty and out of the mean."""
        return self.hosts.memory_mb >= self.graph.memory_mb.min()

    @cached_property
    def demand(self) -> Floats:
        """n × 2: load and memory."""
        return np.ascontiguousarray(np.column_stack([self.graph.loads, self.graph.memory_mb]))

    @cached_property
    def fair_share(self) -> Floats:
        """The load of every host if it were spread by size."""
        cpu = np.where(self.usable, self.hosts.cpu, 0.0)
        share: Floats = self.graph.total_load * cpu / cpu.sum()
        return share

    def limits(self, imbalance: float) -> Floats:
        """k × 2: the most load and memory each host may have."""
        load = self.fair_share * imbalance * (1 + ROUNDING)
        memory = np.where(self.usable, self.hosts.memory_mb * (1 + ROUNDING), -1.0)
        if self.graph.total_load == 0:
            load = np.where(self.usable, 1.0, 0.0)
        # A host nobody may use is closed by its memory; without any memory in the graph it is not closed at all.
        return np.ascontiguousarray(np.column_stack([load, memory]))

    @cached_property
    def unit(self) -> Floats:
        """A fair share of load and of memory: what overload is counted in."""
        shares: Floats = np.maximum(self.demand.sum(axis=0) / len(self.hosts), 1e-300)
        return shares

    def settled(self, part: Ints, imbalance: float, seed: int = 0) -> bool:
        """Bring a placement within the limits by swaps, in place; whether that worked."""
        from streamtune.placement.settling import settle

        limits, fixed = self.limits(imbalance), self.pinned >= 0
        return bool(
            settle(
                *self.graph.adjacency, self.demand, limits, self.unit, *self.prices, fixed, part, _SETTLE_ROUNDS, seed
            )
        )

    def host_loads(self, part: Ints) -> Floats:
        return np.bincount(part, weights=self.graph.loads, minlength=len(self.hosts)).astype(np.float64)

    def host_memory(self, part: Ints) -> Floats:
        return np.bincount(part, weights=self.graph.memory_mb, minlength=len(self.hosts)).astype(np.float64)

    def imbalance_of(self, part: Ints) -> float:
        """The thesis' loadImba: the largest load over the mean; loads count relative to the hosts' sizes.

        >>> from streamtune.placement.hosts import Hosts
        >>> graph = CommunicationGraph.of(["a", "b", "c"], [1.0, 1.0, 2.0])
        >>> Problem(graph, Hosts.equal(2)).imbalance_of(np.array([0, 1, 1]))
        1.5
        """
        if self.graph.total_load == 0:
            return 1.0
        loads = self.host_loads(part)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(self.fair_share > 0, loads / self.fair_share, np.where(loads > 0, np.inf, 0.0))
        return float(relative.max())

    def fits(self, part: Ints, imbalance: float) -> bool:
        """Whether a complete placement keeps memory, pins and the balance."""
        pins_kept = bool(np.all((self.pinned < 0) | (self.pinned == part)))
        memory_kept = bool(np.all(self.host_memory(part) <= self.hosts.memory_mb * (1 + ROUNDING)))
        return pins_kept and memory_kept and self.imbalance_of(part) <= imbalance * (1 + 2 * ROUNDING)

    def link_cost(self, part: Ints) -> float:
        """The other objective: what the busiest link carries, times the hosts; moves; and a hundredth of the bytes."""
        from streamtune.placement.link_kernel import BYTES_SHARE, link_use

        indptr, indices, sends, _ = self.graph.directed
        most = float(link_use(indptr, indices, sends, part, len(self.hosts)).max())
        moved = float(self.move_cost[(self.home >= 0) & (self.home != part)].sum())
        return len(self.hosts) * most + moved + BYTES_SHARE * (self.cost(part) - moved)

    def cost(self, part: Ints) -> float:
        """The objective: remote bytes/s weighted by zone, and the price of moves."""
        from streamtune.placement.kernels import total_cost

        return float(total_cost(*self.graph.adjacency, *self.prices, part))

    @cached_property
    def prices(self) -> tuple[Ints, Floats, Ints, Floats]:
        """What the kernels need to price a placement: zones, weights between them, homes and costs of moving."""
        return self.hosts.zones, np.ascontiguousarray(self.hosts.zone_weights), self.home, self.move_cost

    def place(self, part: Ints, scheduler: str, seconds: float, *, notes: tuple[str, ...] = ()) -> Placement:
        """The answer with everything that can be said about it."""
        return Placement(self, part, scheduler, seconds, notes)


@dataclass(frozen=True, eq=False)
class Placement:
    """Which host every task runs on, and what that means."""

    problem: Problem
    part: Ints
    scheduler: str
    seconds: float
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.part.size != len(self.problem.graph) or (self.part < 0).any():
            raise PlacementError(f"scheduler '{self.scheduler}' left a task without a host")
        # A copy: what numba gets to see elsewhere must not turn read-only, which is another type to it.
        frozen = self.part.astype(np.int64, copy=True)
        frozen.setflags(write=False)
        object.__setattr__(self, "part", frozen)

    @cached_property
    def assignment(self) -> dict[str, str]:
        names = self.problem.hosts.names
        return {task: names[host] for task, host in zip(self.problem.graph.tasks, self.part.tolist(), strict=True)}

    @cached_property
    def _remote(self) -> Any:
        graph = self.problem.graph
        return self.part[graph.sources] != self.part[graph.targets]

    @cached_property
    def remote_bytes_per_s(self) -> float:
        """The thesis' cost(G, P): the bytes/s of all edges between different hosts."""
        return float(self.problem.graph.bytes_per_s[self._remote].sum())

    @property
    def remote_share(self) -> float:
        total = self.problem.graph.total_bytes_per_s
        return self.remote_bytes_per_s / total if total else 0.0

    @cached_property
    def traffic(self) -> Floats:
        """k × k: bytes/s from host to host."""
        graph, k = self.problem.graph, len(self.problem.hosts)
        pair = self.part[graph.sources] * k + self.part[graph.targets]
        return np.bincount(pair, weights=graph.bytes_per_s, minlength=k * k).astype(np.float64).reshape(k, k)

    @cached_property
    def busiest_link_bytes_per_s(self) -> float:
        """The most that any host sends, or receives: what limits the job where links are slow."""
        graph, k = self.problem.graph, len(self.problem.hosts)
        remote = graph.bytes_per_s[self._remote]
        ends = (self.part[graph.sources[self._remote]], self.part[graph.targets[self._remote]])
        return max(float(np.bincount(end, weights=remote, minlength=k).max()) for end in ends)

    @cached_property
    def _zone_ends(self) -> tuple[Any, Any, Any]:
        graph, zones = self.problem.graph, self.problem.hosts.zones
        a, b = zones[self.part[graph.sources]], zones[self.part[graph.targets]]
        return a, b, a != b

    @cached_property
    def cross_zone_bytes_per_s(self) -> float:
        return float(self.problem.graph.bytes_per_s[self._zone_ends[2]].sum())

    @cached_property
    def price_per_s(self) -> float:
        """What the bytes between zones cost; a gigabyte is 10⁹ bytes."""
        a, b, _ = self._zone_ends
        return float((self.problem.graph.bytes_per_s * self.problem.hosts.zone_prices[a, b]).sum()) / 1e9

    @cached_property
    def imbalance(self) -> float:
        return self.problem.imbalance_of(self.part)

    @property
    def imbalance_kept(self) -> bool:
        return self.imbalance <= self.problem.imbalance * (1 + 2 * ROUNDING)

    @cached_property
    def moves(self) -> dict[str, tuple[str, str]]:
        """Task → (host today, host then) for all that move; a task without a home has an empty host today."""
        graph, current, names = self.problem.graph, self.problem.current, self.problem.hosts.names
        if current is None:
            return {}
        pairs = ((task, current.get(task, ""), names[host]) for task, host in zip(graph.tasks, self.part, strict=True))
        return {task: (before, then) for task, before, then in pairs if before != then}

    @property
    def moved_state_mb(self) -> float:
        graph = self.problem.graph
        return float(sum(graph.state_mb[graph.index[task]] for task in self.moves))

    def to_record(self) -> dict[str, Any]:
        """Plain values for JSON; the first five keys are the fixed format of ``streamtune place --graph``."""
        record: dict[str, Any] = {
            "assignment": self.assignment,
            "remote_bytes_per_s": self.remote_bytes_per_s,
            "total_bytes_per_s": self.problem.graph.total_bytes_per_s,
            "imbalance": self.imbalance,
            "seconds": self.seconds,
            "scheduler": self.scheduler,
            "busiest_link_bytes_per_s": self.busiest_link_bytes_per_s,
            "imbalance_asked": self.problem.imbalance,
            "imbalance_kept": self.imbalance_kept,
            "notes": list(self.notes),
        }
        if len(self.problem.hosts.zone_names) > 1:
            record["cross_zone_bytes_per_s"] = self.cross_zone_bytes_per_s
            record["price_per_s"] = self.price_per_s
        if self.problem.current is not None:
            record["moves"] = {task: {"from": a, "to": b} for task, (a, b) in self.moves.items()}
            record["moved_state_mb"] = self.moved_state_mb
        return record
