"""The rule by which the certainty of the running loop is chosen, and how sure that choice is.

The cost of a quantile is what its mistakes and its instances cost together. Which quantile costs least is known only
as well as there are validation jobs: resampling them tells whether the default is measurably worse than the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamtune.experiments.paper.contest import Judged, Score
from streamtune.experiments.paper.findings import Shown

Floats = npt.NDArray[np.float64]

RESAMPLED = 2_000
_RESTART_STEPS = 1 / 60


def cost(score: Score) -> float:
    """A deployment with backpressure counts as one that is twice as large as need be.

    What is left after tuning lasts until the rates change, what is seen on the way for one step; a restart costs
    ten seconds of the ten minutes between reconfigurations.
    """
    return score.over_oracle - 1 + score.backpressure + score.on_the_way + score.reconfigurations * _RESTART_STEPS


@dataclass(frozen=True)
class Certainty:
    """The quantile of least cost, and what it is better by than the default: an interval (90 %) over jobs, below zero
    where it is better."""

    quantiles: tuple[float, ...]
    costs: tuple[float, ...]
    behind: tuple[float, float]
    best: float

    @property
    def keeps_default(self) -> bool:
        """The default moves only where another one is measurably better."""
        return self.behind[1] >= 0

    @property
    def table(self) -> Shown:
        cells = tuple(f"{one:.4f}" for one in self.costs)
        return Shown("cost on validation jobs", ("", *(f"{q:g}" for q in self.quantiles)), (("cost", *cells),))

    @classmethod
    def chosen(cls, quantiles: Sequence[float], judged: Sequence[Sequence[Judged]], default: float) -> Certainty:
        """``judged`` has the changes of every quantile, on the same jobs."""
        costs = tuple(cost(Score.of(some)) for some in judged)
        best = int(np.argmin(costs))
        sums = [_by_job(judged[place]) for place in (best, list(quantiles).index(default))]
        rng = np.random.default_rng(22)
        jobs = len(sums[0])
        apart = []
        for _ in range(RESAMPLED):
            some = rng.integers(jobs, size=jobs)
            apart.append(_cost_of(sums[0][some].sum(axis=0)) - _cost_of(sums[1][some].sum(axis=0)))
        behind = float(np.quantile(apart, 0.05)), float(np.quantile(apart, 0.95))
        return cls(tuple(quantiles), costs, behind, quantiles[best])


def _by_job(judged: Sequence[Judged]) -> Floats:
    """Jobs × sums: total, oracle, backpressure, backpressure on the way, restarts, changes."""
    jobs = sorted({one.workload for one in judged})
    place = {job: number for number, job in enumerate(jobs)}
    sums = np.zeros((len(jobs), 6))
    for one in judged:
        left, seen = float(one.backpressure), one.backpressure_on_the_way
        sums[place[one.workload]] += (one.total, one.oracle, left, seen, one.reconfigurations, 1.0)
    return sums


def _cost_of(sums: Floats) -> float:
    total, oracle, left, seen, restarts, changes = (float(one) for one in sums)
    return total / oracle - 1 + (left + seen + restarts * _RESTART_STEPS) / changes
