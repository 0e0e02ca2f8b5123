"""Service time by sleeping: an instance is busy for as long as its records would take, without using a processor."""

from __future__ import annotations

import random
import time

from streamtune.dataflow.physics import OperatorPhysics

# Shorter sleeps cost more than they give; what is owed is carried over until it is worth one.
_SHORTEST_SLEEP_S = 0.001
# Between two turns a worker sees to its channels and waits for a processor. On a worker of its own, that is overhead of
# the emulation, not of the operator emulated, so time that passes in front of waiting records counts as service. On a
# shared worker others had their turns in it, and only a small gap counts.
_LARGEST_GAP_S = 1.0
_LARGEST_SHARED_GAP_S = 0.003
# What a sleep took too long is credited to the records that wait, or forgotten if there are none.
_LARGEST_CREDIT_S = 1.0
_LARGEST_IDLE_CREDIT_S = 0.005


class ServiceClock:
    """What one instance owes in service time, and how much of it was delivered.

    The time of a record is that of the physics at the operator's parallelism (universal scalability law), varied by
    its ``cv``. Computing in Python counts towards it. Oversleeping is credited to the records that wait, so that the
    rate over many records is exact although no single sleep is, on a busy machine too.
    """

    def __init__(
        self, physics: OperatorPhysics, parallelism: int, quantum_s: float, seed: int, *, is_alone: bool = True
    ) -> None:
        self.record_s = physics.service_us / 1e6 * parallelism / physics.speedup(parallelism)
        self._cv = physics.cv
        self._quantum_s = quantum_s
        self._random = random.Random(seed)
        self._largest_gap_s = _LARGEST_GAP_S if is_alone else _LARGEST_SHARED_GAP_S
        self.owed_s = 0.0
        self.busy_s = 0.0
        self._ended_s: float | None = None

    @property
    def is_behind(self) -> bool:
        """Whether service is owed for records that were taken already."""
        return self.owed_s >= _SHORTEST_SLEEP_S

    def room(self) -> int:
        """How many records fit into a turn now; at least one when nothing is owed."""
        left = self._quantum_s - self.owed_s
        return max(0 if self.is_behind else 1, int(left / self.record_s)) if left > 0 else 0

    def serve(self, records: float) -> None:
        """Add the service time of ``records`` records to what is owed."""
        if records <= 0:
            return
        spread = self._cv / records**0.5
        varied = max(0.0, self._random.gauss(1.0, spread)) if spread else 1.0
        self.owed_s += records * self.record_s * varied

    def begin(self) -> float:
        """The start of a turn, on the monotonic clock."""
        now_s = time.perf_counter()
        if self._ended_s is None:
            return now_s
        gap_s = now_s - self._ended_s
        return now_s - min(gap_s, self._largest_gap_s)

    def end(self, began_s: float, *, more_waits: bool) -> None:
        """The end of a turn: sleep off what is owed, a turn's length at most."""
        owed_s = min(self.owed_s, self._quantum_s)
        pause_s = owed_s - (time.perf_counter() - began_s)
        if pause_s >= _SHORTEST_SLEEP_S:
            time.sleep(pause_s)
        now_s = time.perf_counter()
        credit_s = _LARGEST_CREDIT_S if more_waits else _LARGEST_IDLE_CREDIT_S
        left_s = self.owed_s - (now_s - began_s)
        self.owed_s = max(left_s, -credit_s)
        # What is forgotten is oversleeping, not work of the operator: no record was served by it.
        self.busy_s += now_s - began_s - (self.owed_s - left_s)
        self._ended_s = now_s if more_waits else None
