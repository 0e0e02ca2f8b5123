"""A sample of weighted points that stands for all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def weighted_sample(weights: Indices, size: int, random: np.random.Generator) -> tuple[Indices, Indices]:
    """Positions of ``size`` points, ascending, and the weight each of them stands for.

    Systematic sampling with probabilities proportional to size (Madow 1949): a point is drawn with probability
    p = min(1, c · weight) and then counts weight / p, so that sums over the sample are right on average (Horvitz and
    Thompson 1952). What has a large weight is always in it. Neighbours in the given order are seldom drawn together.

    >>> weighted_sample(np.array([1, 1, 1, 1, 96]), 3, np.random.default_rng(0))[1].tolist()
    [2, 2, 96]
    """
    if size >= len(weights):
        return np.arange(len(weights)), weights.astype(np.int64)
    share = _probabilities(weights.astype(np.float64), size)
    # Rounded, so that the sum over certain points stays whole and no point is drawn twice.
    reached = np.round(np.cumsum(share), 9)
    ticks = np.floor(reached + random.random())
    chosen = np.flatnonzero(np.diff(ticks, prepend=0.0) > 0)
    return chosen, np.maximum(1, np.round(weights[chosen] / share[chosen])).astype(np.int64)


def _probabilities(weights: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """min(1, c · weight), with c such that they add up to ``size``."""
    certain = np.zeros(len(weights), dtype=np.bool_)
    while True:
        rest = weights[~certain].sum()
        share = np.where(certain, 1.0, weights * (size - certain.sum()) / max(rest, 1e-300))
        more = (share >= 1.0) & ~certain
        if not more.any():
            return share
        certain |= more
