"""Which Timely worker runs which instance, and what it costs when instances share one.

Every Timely worker runs every operator. Parallelism per operator is made by routing: bytewax sends a record to worker
``SipHash-1-3(key) mod workers``, so p keys that land on p different workers give an operator p instances.

A worker is one thread that gives its operators turns. Instances get workers of their own as long as there are enough;
beyond that they share, and a shared worker divides its time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from streamtune.dataflow import Dataflow, Plan
from streamtune.errors import EngineError

_WORD = (1 << 64) - 1


def siphash13(data: bytes) -> int:
    """SipHash-1-3 under an all-zero key (Aumasson and Bernstein, 2012; one compression and three final rounds).

    >>> hex(siphash13(b""))
    '0xd1fba762150c532c'
    """
    v0, v1, v2, v3 = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _WORD
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 = (v2 + v3) & _WORD
    v3 = _rotate(v3, 16) ^ v2
    v0 = (v0 + v3) & _WORD
    v3 = _rotate(v3, 21) ^ v0
    v2 = (v2 + v1) & _WORD
    v1 = _rotate(v1, 17) ^ v2
    return v0, v1, _rotate(v2, 32), v3


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _WORD


def worker_keys(workers: int) -> list[str]:
    """For every worker a key that bytewax routes to it. Rust ends the bytes of a string with 0xff when it hashes it."""
    found: dict[int, str] = {}
    for number in itertools.count():
        key = str(number)
        found.setdefault(siphash13(key.encode() + b"\xff") % workers, key)
        if len(found) == workers:
            return [found[worker] for worker in range(workers)]
    raise AssertionError("unreachable: every residue is hit sooner or later")


@dataclass(frozen=True)
class Placement:
    """The worker of every instance, by operator. No two instances of one operator are on the same worker."""

    workers: int
    instances: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, flow: Dataflow, plan: Plan, max_workers: int) -> Placement:
        """Workers of their own as far as they go; then the least occupied ones. Sources are kept alone if possible.

        >>> flow = Dataflow.from_edges(["source", "map", "sink"], [(0, 1), (1, 2)])
        >>> Placement.of(flow, Plan({"op0": 1, "op1": 2, "op2": 1}), 10).instances
        {'op0': (0,), 'op1': (1, 2), 'op2': (3,)}
        """
        workers = min(plan.total, max_workers)
        for key, degree in plan.items():
            if degree > workers:
                raise EngineError(
                    f"operator '{key}' needs parallelism {degree}, but Timely may have {max_workers} workers: "
                    "raise max_workers or lower the parallelism"
                )
        occupied: Counter[int] = Counter()
        instances: dict[str, tuple[int, ...]] = {}
        sources = {source.id for source in flow.sources}
        for key in sorted(flow.order, key=lambda key: key not in sources):
            open_to_all = range(workers)
            apart = [worker for worker in open_to_all if worker >= sum(plan[source] for source in sources)]
            pool: Sequence[int] = apart if key not in sources and len(apart) >= plan[key] else open_to_all
            chosen = sorted(pool, key=lambda worker: (occupied[worker], worker))[: plan[key]]
            occupied.update(chosen)
            instances[key] = tuple(sorted(chosen))
        return cls(workers, {key: instances[key] for key in flow.index})

    @cached_property
    def residents(self) -> dict[int, tuple[str, ...]]:
        """Worker → the operators that have an instance on it."""
        found: dict[int, list[str]] = {worker: [] for worker in range(self.workers)}
        for key, places in self.instances.items():
            for worker in places:
                found[worker].append(key)
        return {worker: tuple(keys) for worker, keys in found.items()}

    @property
    def shared(self) -> dict[int, tuple[str, ...]]:
        """The workers with more than one operator; empty when all instances are alone."""
        return {worker: keys for worker, keys in self.residents.items() if len(keys) > 1}

    def served(self, loads: Mapping[str, float]) -> dict[str, float]:
        """The share of its work that each operator gets done when each of its instances wants ``loads`` of a worker.

        Model: a worker gives turns of equal length, so its time is divided max-min fairly.

        >>> Placement(1, {"a": (0,), "b": (0,)}).served({"a": 1.0, "b": 0.25})
        {'a': 0.75, 'b': 1.0}
        """
        granted: dict[str, float] = dict.fromkeys(self.instances, 0.0)
        for keys in self.residents.values():
            for key, share in zip(keys, fair_shares([loads[key] for key in keys]), strict=True):
                granted[key] += share
        return {
            key: granted[key] / (loads[key] * len(places)) if loads[key] > 0 else 1.0
            for key, places in self.instances.items()
        }


def fair_shares(wanted: Sequence[float]) -> list[float]:
    """One second divided max-min fairly among those who want it.

    >>> fair_shares([1.0, 1.0]), fair_shares([0.2, 0.3])
    ([0.5, 0.5], [0.2, 0.3])
    """
    granted = [0.0] * len(wanted)
    left, waiting = 1.0, sorted(range(len(wanted)), key=wanted.__getitem__)
    for position, index in enumerate(waiting):
        granted[index] = min(wanted[index], left / (len(waiting) - position))
        left -= granted[index]
    return granted
