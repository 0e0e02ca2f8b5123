"""A plan for rates at which nothing of the job was seen: all operators must keep up together.

Ten operators that each keep up with 90 % let the job keep up with 35 %. So a first plan is chosen as a whole: what the
operators need is drawn many times from what is believed of them (capacity curves, and selectivities, which move the
demand of everything downstream together), and the least total is sought under which the wanted share of the draws is
served by every operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DRAWS = 600
_STEPS = 24
_PRICES = (1e-3, 1e5)
_NOTHING = -50.0


@dataclass(frozen=True)
class Need:
    """What operators need in each draw (draws × operators), up to one more than the limit: beyond reach."""

    degrees: Ints
    limit: int

    def share_served(self, plan: Ints) -> float:
        """The share of the draws that a plan serves."""
        return float((self.degrees <= plan).all(axis=1).mean())

    def marginals(self) -> Floats:
        """Operators × limit: the share of the draws in which each parallelism is enough for the operator alone."""
        size = self.degrees.shape[1]
        counts = np.zeros((size, self.limit + 2))
        for place in range(size):
            counts[place] = np.bincount(self.degrees[:, place], minlength=self.limit + 2)
        return np.cumsum(counts, axis=1)[:, 1 : self.limit + 1] / len(self.degrees)


def least_plan(need: Need, certainty: float) -> Ints:
    """The least total that serves the wanted share of the draws, or the most that any plan serves.

    Every instance has the same price, and what it buys is log probability: at one price of failure each operator takes
    the parallelism where price and gain balance. The price that meets the certainty is found by bisection; then
    whatever instance can be spared is taken back.

    >>> draws = np.array([[1, 4], [1, 5], [2, 4], [1, 9]])
    >>> least_plan(Need(draws, 10), 0.75).tolist(), least_plan(Need(draws, 10), 1.0).tolist()
    ([2, 5], [2, 9])
    """
    with np.errstate(divide="ignore"):
        gains = np.maximum(np.log(need.marginals()), _NOTHING)
    cost = np.arange(1, need.limit + 1)[None, :]
    low, high = np.log(_PRICES)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        plan = np.argmin(cost - np.exp(middle) * gains, axis=1) + 1
        low, high = (low, middle) if need.share_served(plan) >= certainty else (middle, high)
    plan = (np.argmin(cost - np.exp(high) * gains, axis=1) + 1).astype(np.int64)
    return _spared(need, plan, certainty)


def _spared(need: Need, plan: Ints, certainty: float) -> Ints:
    """Take instances back one at a time, where the share of draws served stays high enough."""
    wanted = min(certainty, need.share_served(plan))
    short = need.degrees > plan
    misses = short.sum(axis=1)
    improved = True
    while improved:
        improved = False
        for place in np.argsort(-plan, kind="stable"):
            while plan[place] > 1:
                now_short = need.degrees[:, place] > plan[place] - 1
                after = misses + now_short - short[:, place]
                if (after == 0).mean() < wanted:
                    break
                plan[place] -= 1
                misses, short[:, place], improved = after, now_short, True
    return plan


@dataclass(frozen=True)
class Draws:
    """Standard normals of capacity and selectivity for every operator, the same for every question asked of a job."""

    capacity: Floats  # draws × operators
    selectivity: Floats

    @classmethod
    def of(cls, operators: int, draws: int = DRAWS, seed: int = 0) -> Draws:
        """Each column has mean 0 and spread 1 exactly, so that few draws say as much as many."""
        raw = np.random.default_rng([seed, operators]).standard_normal((2, draws, operators))
        raw -= raw.mean(axis=1, keepdims=True)
        raw /= raw.std(axis=1, keepdims=True)
        return cls(raw[0], raw[1])


def needed(mean: Floats, sd: Floats, demand: Floats, normals: Floats) -> Need:
    """The least parallelism of every operator in every draw, from its log capacity (operators × limit)."""
    limit = mean.shape[1]
    found = np.ones(demand.shape, dtype=np.int64)
    with np.errstate(divide="ignore"):
        wanted = np.log(demand)
    rising = np.maximum.accumulate(mean, axis=1)
    for place in range(mean.shape[0]):
        usual = min(int(np.searchsorted(rising[place], np.median(wanted[:, place]))), limit - 1)
        target = wanted[:, place] - sd[place, usual] * normals[:, place]
        found[:, place] = np.searchsorted(rising[place], target) + 1
    return Need(found, limit)


def reach(seen_rates: Sequence[float], wanted: Sequence[float]) -> float:
    """How many times the highest rate ever seen of an operator is asked for, at worst; infinite where none was.

    >>> reach([100.0, 50.0], [200.0, 50.0])
    2.0
    """
    worst = 0.0
    for seen, rate in zip(seen_rates, wanted, strict=True):
        if rate > 0:
            worst = max(worst, rate / seen if seen > 0 else float("inf"))
    return worst
