"""The hidden truth of an emulated job: read by the simulator and the Flink workload, by nothing that learns."""

from __future__ import annotations

from pydantic import Field

from streamtune.frozen import Frozen

# A capacity that misses a rate by float noise alone still serves it.
_ROUNDING = 1e-9


class OperatorPhysics(Frozen):
    """What one operator really costs, and how it really scales.

    One instance alone serves a record in ``service_us`` on average; p instances together serve
    ``p / (1 + contention·(p−1) + coherency·p·(p−1))`` times as many (Gunther's universal scalability law).
    ``skew`` is by how much the hottest subtask of many exceeds the mean share of the records, ``cv`` the coefficient
    of variation of the service time, ``fire_share`` the part of a window operator's work that is done when it fires.
    """

    service_us: float = Field(gt=0, allow_inf_nan=False, description="time one instance needs for a record, µs")
    selectivity: float = Field(default=1.0, ge=0, allow_inf_nan=False, description="records out per record in")
    contention: float = Field(default=0.0, ge=0, lt=1, description="of the universal scalability law")
    coherency: float = Field(default=0.0, ge=0, lt=1, description="of the universal scalability law")
    skew: float = Field(
        default=0.0, ge=0, le=1, description="by how much the hottest of many subtasks exceeds the mean"
    )
    cv: float = Field(default=0.0, ge=0, le=2, description="coefficient of variation of the service time")
    fire_share: float = Field(default=0.1, ge=0, lt=1, description="part of a window's work that is done when it fires")

    def speedup(self, parallelism: int) -> float:
        """How many times the capacity of one instance ``parallelism`` instances have, skew aside."""
        p = parallelism
        return p / (1 + self.contention * (p - 1) + self.coherency * p * (p - 1))

    def hot_factor(self, parallelism: int) -> float:
        """Load of the hottest subtask over the mean load: 1 at p = 1, rising to 1 + skew."""
        return 1 + self.skew * (1 - 1 / parallelism)

    def capacity_per_s(self, parallelism: int) -> float:
        """Records/s that ``parallelism`` instances sustain: the hottest subtask is the limit.

        >>> OperatorPhysics(service_us=1000).capacity_per_s(4)
        4000.0
        """
        return 1e6 / self.service_us * self.speedup(parallelism) / self.hot_factor(parallelism)


def smallest_parallelism(physics: OperatorPhysics, rate_per_s: float, limit: int) -> int | None:
    """The smallest parallelism up to ``limit`` whose capacity is at least ``rate_per_s``; None if there is none.

    >>> smallest_parallelism(OperatorPhysics(service_us=1000), 3500, 100)
    4
    """
    for parallelism in range(1, limit + 1):
        if physics.capacity_per_s(parallelism) >= rate_per_s * (1 - _ROUNDING):
            return parallelism
    return None
