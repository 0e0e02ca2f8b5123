"""Per-epoch latency: from the end of a fixed interval of event time until its last result has reached the sinks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_FEWEST_FOR_A_TREND = 3


@dataclass(frozen=True)
class EpochLatencies:
    """The epochs that reached the sinks within one window; ``reached_s`` is when, in event time.

    If the oldest epoch that had not reached them when the window closed was already late by more than all of these, it
    is the last entry, with its age: a job that gets nothing done must not look good because it has no results.
    ``open_epochs`` says how many had ended and not reached the sinks.
    """

    reached_s: tuple[float, ...]
    latency_ms: tuple[float, ...]
    open_epochs: int = 0

    def __len__(self) -> int:
        return len(self.latency_ms)

    @property
    def mean_ms(self) -> float:
        return math.fsum(self.latency_ms) / len(self) if self.latency_ms else math.nan

    def percentile_ms(self, percent: float) -> float:
        """
        >>> EpochLatencies((1, 2, 3), (10.0, 20.0, 90.0)).percentile_ms(50)
        20.0
        """
        return float(np.percentile(self.latency_ms, percent)) if self.latency_ms else math.nan

    def cdf(self) -> list[tuple[float, float]]:
        """Latency in ms → share of the epochs that took at most that long.

        >>> EpochLatencies((1, 2), (30.0, 10.0)).cdf()
        [(10.0, 0.5), (30.0, 1.0)]
        """
        return [(latency, (rank + 1) / len(self)) for rank, latency in enumerate(sorted(self.latency_ms))]

    @property
    def growth_ms_per_s(self) -> float | None:
        """The trend of latency: 0 for a job that keeps up, 1,000 for one that gets nothing done."""
        return slope(self.reached_s, self.latency_ms)

    def and_then(self, later: EpochLatencies) -> EpochLatencies:
        """Two windows as one."""
        return EpochLatencies(
            self.reached_s + later.reached_s, self.latency_ms + later.latency_ms, self.open_epochs + later.open_epochs
        )


def epoch_latencies(
    completed_us: Sequence[tuple[int, int]], start_us: int, end_us: int, epoch_us: int
) -> EpochLatencies:
    """The epochs of the window [start, end), from pairs of an epoch's end and when it had reached the sinks.

    >>> epoch_latencies([(500_000, 510_000), (1_000_000, 1_030_000)], 0, 1_200_000, 500_000).latency_ms
    (10.0, 30.0)
    >>> epoch_latencies([(500_000, 510_000)], 0, 2_400_000, 500_000)
    EpochLatencies(reached_s=(0.51, 2.4), latency_ms=(10.0, 1400.0), open_epochs=3)
    """
    reached = [(end, done) for end, done in completed_us if start_us <= done < end_us]
    points = [(done / 1e6, (done - end) / 1e3) for end, done in reached]
    done_until = max((end for end, done in completed_us if done < end_us), default=0)
    oldest_open = done_until + epoch_us
    age_ms = (end_us - oldest_open) / 1e3
    if age_ms > max((latency for _, latency in points), default=0.0):
        points.append((end_us / 1e6, age_ms))
    return EpochLatencies(
        tuple(moment for moment, _ in points),
        tuple(latency for _, latency in points),
        max(0, end_us // epoch_us - done_until // epoch_us),
    )


def slope(times: Sequence[float], values: Sequence[float]) -> float | None:
    """Least-squares slope; none for fewer than three points.

    >>> slope([0, 1, 2, 3], [5, 7, 9, 11])
    2.0
    """
    if len(times) < _FEWEST_FOR_A_TREND:
        return None
    x = np.asarray(times, dtype=np.float64)
    x = x - x.mean()
    return float(x @ np.asarray(values, dtype=np.float64) / (x @ x))
