"""A job on hosts as a fluid: how fast can it run under an assignment, and what goes over each link?

Sources are raised together until a resource is full: the thread of a task, the cores of a host, or what a host can send
or receive. Sources that use it stay where they are, the others go on (max–min fairness by progressive filling,
Bertsekas and Gallager). Bytes on the wire are those of ``HopCost``, as calibrated on real hosts; nothing is drawn at
random. Links are filled by what one more tuple costs; what the flushes of all channels can cost at most is kept free.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pydantic import Field

from streamtune.frozen import Frozen
from streamtune.placement.graph import CommunicationGraph, Floats, Ints, PlacementError
from streamtune.placement.wire import HopCost

_FULL = 1e-9
# A link that flushes alone would fill still carries this share of it.
_LEAST_LINK = 0.01
# Tuples/s of a channel that nothing slows: as good as endless to its flushes.
_FASTEST = 1e12


class HostLimits(Frozen):
    """What every host has. The thesis' hosts: four cores, 1 Gbit/s."""

    cores: float = Field(default=4.0, gt=0, description="Cores.")
    mbit_per_s: float = Field(default=1000.0, gt=0, description="Bandwidth of the host's link, each way, Mbit/s.")


@dataclass(frozen=True, eq=False)
class TaskFlows:
    """A job at the level of tasks: what each source task's tuples become, linearly.

    ``per_source[s, e]`` tuples/s go over edge e when source s emits one tuple/s; ``handled[s, v]`` are handled by
    task v. ``wanted`` is what each source would emit if nothing slowed it.
    """

    tasks: tuple[str, ...]
    operators: tuple[str, ...]
    source_tasks: Ints
    wanted: Floats
    edge_source: Ints
    edge_target: Ints
    tuple_bytes: Floats
    per_source: Floats
    handled: Floats

    def graph(self, cost: HopCost | None = None, *, counted: bool = False) -> CommunicationGraph:
        """The communication graph at the wanted rates: bytes on the wire; or, as in the thesis, tuples counted."""
        cost = cost or HopCost()
        tuples = self.wanted @ self.per_source
        weights = tuples if counted else cost.per_second(tuples, self.tuple_bytes)
        sent = np.bincount(self.edge_source, weights=tuples, minlength=len(self.tasks))
        loads = self.wanted @ self.handled + sent
        return CommunicationGraph.from_arrays(
            self.tasks, loads, self.edge_source, self.edge_target, weights, operators=self.operators
        )


@dataclass(frozen=True, eq=False)
class FluidRun:
    """What a job does under an assignment."""

    flows: TaskFlows
    rates: Floats
    sent: Floats
    received: Floats
    cpu: Floats
    bottlenecks: tuple[str, ...]

    @cached_property
    def throughput(self) -> float:
        """Tuples/s that all sources emit (the thesis' measure)."""
        return float(self.rates.sum())

    @property
    def remote_bytes_per_s(self) -> float:
        return float(self.sent.sum())

    @property
    def bytes_per_tuple(self) -> float:
        """Bytes between hosts per tuple that the sources emit."""
        return self.remote_bytes_per_s / self.throughput if self.throughput else 0.0

    @property
    def handled_per_s(self) -> float:
        """Tuples/s that all tasks handle together."""
        return float((self.rates @ self.flows.handled).sum())


class FluidHosts:
    """Hosts with cores and links, and a job's flows under an assignment on them."""

    def __init__(
        self, flows: TaskFlows, hosts: int, limits: HostLimits | None = None, cost: HopCost | None = None
    ) -> None:
        self.flows = flows
        self.hosts = hosts
        self.limits = limits or HostLimits()
        self.cost = cost or HopCost()

    def run(self, part: Ints, *, unlimited: bool = False, together: bool = False) -> FluidRun:
        """Raise the sources until each meets a full resource or emits what it wants to.

        ``unlimited`` sources ignore what they want: the throughput a cluster can reach. ``together``: where one source
        is stopped, all stop, as when a fixed number of tuples of each is run to its end.
        """
        if part.size != len(self.flows.tasks) or part.min() < 0 or part.max() >= self.hosts:
            raise PlacementError(
                f"the assignment must put all {len(self.flows.tasks)} tasks on hosts 0 to {self.hosts - 1}"
            )
        usage, capacity, names = self._resources(part, unlimited)
        wanted = np.full(self.flows.wanted.size, np.inf) if unlimited else self.flows.wanted
        # Sources share in proportion to what they want: a ticker and a contract spout keep their proportions.
        weight = self.flows.wanted / max(self.flows.wanted.max(), 1e-300)
        rates, full = _filled(usage, capacity, weight, wanted, together)
        sent, received = self._on_the_wire(part, rates)
        cpu = rates @ self._per_host(part)[2]
        return FluidRun(self.flows, rates, sent, received, cpu, tuple(names[place] for place in full))

    def _on_the_wire(self, part: Ints, rates: Floats) -> tuple[Floats, Floats]:
        """Bytes/s that every host sends and receives, flushes included."""
        flows = self.flows
        a, b = part[flows.edge_source], part[flows.edge_target]
        wire = self.cost.between_hosts(rates @ flows.per_source, flows.tuple_bytes, a, b, self.hosts)
        return wire.sum(axis=1), wire.sum(axis=0)

    def _per_host(self, part: Ints) -> tuple[Floats, Floats, Floats]:
        """sources × hosts: bytes sent, bytes received and CPU seconds per tuple of a source."""
        flows, cost = self.flows, self.cost
        a, b = part[flows.edge_source], part[flows.edge_target]
        remote = a != b
        wire = np.where(remote, cost.per_tuple(flows.tuple_bytes), 0.0)
        hop = np.where(remote, cost.remote_us * 1e-6 + flows.tuple_bytes * cost.remote_ns_per_byte * 1e-9, 0.0)
        sent = _summed(flows.per_source * wire, a, self.hosts)
        received = _summed(flows.per_source * wire, b, self.hosts)
        cpu = _summed(flows.per_source * hop, a, self.hosts) + _summed(flows.per_source * hop, b, self.hosts)
        cpu += _summed(flows.per_source * np.where(remote, 0.0, cost.local_us * 1e-6), b, self.hosts)
        cpu += _summed(flows.handled * cost.service_us * 1e-6, part, self.hosts)
        return sent, received, cpu

    def _flushes(self, part: Ints, unlimited: bool) -> tuple[Floats, Floats]:
        """The most bytes/s that every host sends and receives in buffers that are sent before they are full."""
        flows = self.flows
        most = flows.wanted @ flows.per_source
        if unlimited:
            most = np.where(most > 0, _FASTEST, 0.0)
        only_flushes = self.cost.replace(overhead_bytes=0.0, byte_factor=0.0)
        a, b = part[flows.edge_source], part[flows.edge_target]
        wire = only_flushes.between_hosts(most, np.zeros_like(most), a, b, self.hosts)
        return wire.sum(axis=1), wire.sum(axis=0)

    def _resources(self, part: Ints, unlimited: bool) -> tuple[Floats, Floats, list[str]]:
        sent, received, cpu = self._per_host(part)
        flows, cost = self.flows, self.cost
        a, b = part[flows.edge_source], part[flows.edge_target]
        hop = np.where(a != b, cost.remote_us * 1e-6 + flows.tuple_bytes * cost.remote_ns_per_byte * 1e-9, 0.0)
        thread = flows.handled * cost.service_us * 1e-6
        thread = thread + _summed(flows.per_source * hop, flows.edge_source, len(flows.tasks))
        thread = thread + _summed(flows.per_source * hop, flows.edge_target, len(flows.tasks))
        bandwidth = self.limits.mbit_per_s * 1e6 / 8
        usage = np.concatenate([sent, received, cpu, thread], axis=1)
        k, n = self.hosts, len(flows.tasks)
        links = np.maximum(bandwidth - np.concatenate(self._flushes(part, unlimited)), _LEAST_LINK * bandwidth)
        capacity = np.concatenate([links, np.full(k, self.limits.cores), np.ones(n)])
        kinds = [("sending of host", k), ("receiving of host", k), ("cores of host", k)]
        names = [f"{kind} {number}" for kind, count in kinds for number in range(count)]
        return usage, capacity, [*names, *(f"task {task}" for task in flows.tasks)]


def _summed(values: Floats, group: Ints, count: int) -> Floats:
    """Columns added up by group."""
    total = np.zeros((count, values.shape[0]))
    np.add.at(total, group, values.T)
    return total.T


def _filled(
    usage: Floats, capacity: Floats, weight: Floats, wanted: Floats, together: bool
) -> tuple[Floats, list[int]]:
    """Progressive filling; the resources that stopped a source, in that order."""
    rates = np.zeros(weight.size)
    active = (weight > 0) & (wanted > 0)
    left = capacity.copy()
    full: list[int] = []
    while active.any():
        growing = (weight * active) @ usage
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(growing > 0, left / growing, np.inf)
            to_wish = np.where(active, (wanted - rates) / weight, np.inf)
        step = min(float(room.min()), float(to_wish.min()))
        if not np.isfinite(step):
            raise PlacementError("nothing limits the sources: give a service time or a rate")
        rates += weight * active * step
        left -= growing * step
        tight = np.flatnonzero((growing > 0) & (left <= _FULL * capacity))
        full.extend(int(place) for place in tight)
        stopped = (usage[:, tight] > 0).any(axis=1) | (rates >= wanted * (1 - _FULL))
        if together or not (stopped & active).any():
            break
        active &= ~stopped
    return rates, full
