"""First plans of jobs never seen against the limit, scored by the law instead of by the one job that was drawn.

A job of the benchmark is one draw of what its operators cost; whether a plan is clean for it is a coin that fell once.
Here a plan's chance of being clean is taken over fresh draws of the same law, which neither side has seen: the same
draws for both, so that they are compared job by job, and resampling jobs tells how sure the comparison is.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Plan
from streamtune.experiments.coldstart.jobs import Start
from streamtune.experiments.coldstart.limit import drawn, limit_plan, need_of, tuned
from streamtune.frozen import Frozen

Floats = npt.NDArray[np.float64]
Planner = Callable[[Start, float], Plan]

DRAWS = 1_500
RESAMPLED = 1_000
_FRESH = 5


class ScoredPair(Frozen):
    """Our plan and the limit's for one start and one certainty: totals, and chances of being clean."""

    job: str
    certainty: float
    total: int
    clean: float
    limit_total: int
    limit_clean: float


def score_pairs(
    starts: Sequence[Start], certainties: Sequence[float], ours: Planner, draws: int = DRAWS
) -> list[ScoredPair]:
    """Every start at every certainty; starts of one job stand together, so that its draws are made once."""
    found: list[ScoredPair] = []
    name, law = "", None
    for start in starts:
        if law is None or start.workload.name != name:
            name = start.workload.name
            law = drawn(start.workload, np.random.default_rng([_FRESH, zlib.crc32(name.encode())]), draws)
        need, inner = need_of(start, law), tuned(start)

        def chance(plan: Plan) -> float:
            return need.share_served(np.array([plan[key] for key in inner]))  # noqa: B023  # called in this turn

        for certainty in certainties:
            mine, best = ours(start, certainty), limit_plan(start, certainty)
            found.append(
                ScoredPair(
                    job=name,
                    certainty=certainty,
                    total=mine.total,
                    clean=chance(mine),
                    limit_total=best.total,
                    limit_clean=chance(best),
                )
            )
    return found


@dataclass(frozen=True)
class Point:
    """One certainty: shares, our total over the limit's as they are, and at the same share with its interval (90 %)."""

    certainty: float
    clean: float
    limit_clean: float
    ratio: float
    same_share: float
    between: tuple[float, float]


@dataclass(frozen=True)
class Against:
    """Our curve against the limit's, and the worst of its points."""

    points: tuple[Point, ...]
    jobs: int
    worst: float
    worst_between: tuple[float, float]


def against_limit(pairs: Sequence[ScoredPair], resampled: int = RESAMPLED) -> Against:
    """Both curves over all starts; the uncertainty is over which jobs were drawn."""
    jobs = sorted({one.job for one in pairs})
    certainties = sorted({one.certainty for one in pairs})
    sums = np.zeros((len(jobs), len(certainties), 5))
    place = {job: number for number, job in enumerate(jobs)}
    step = {certainty: number for number, certainty in enumerate(certainties)}
    for one in pairs:
        sums[place[one.job], step[one.certainty]] += (one.clean, one.total, one.limit_clean, one.limit_total, 1.0)
    rng = np.random.default_rng(22)
    everything = np.arange(len(jobs))
    drawn_jobs = [everything, *(rng.integers(len(jobs), size=len(jobs)) for _ in range(resampled))]
    ratios = np.array([_ratios(sums[some].sum(axis=0)) for some in drawn_jobs])
    worst = np.array([np.nanmax(row) if np.isfinite(row).any() else np.nan for row in ratios])
    total = sums.sum(axis=0)
    points = tuple(
        Point(
            certainty,
            clean=float(total[number, 0] / total[number, 4]),
            limit_clean=float(total[number, 2] / total[number, 4]),
            ratio=float(total[number, 1] / total[number, 3]),
            same_share=float(ratios[0, number]),
            between=_between(ratios[1:, number]),
        )
        for number, certainty in enumerate(certainties)
    )
    return Against(points, len(jobs), float(worst[0]), _between(worst[1:]))


def _ratios(sums: Floats) -> Floats:
    """Our total at each certainty over the limit's at the same share of clean plans; NaN outside of its curve."""
    clean, total, best_clean, best_total = (sums[:, column] for column in range(4))
    curve = sorted(zip(best_clean.tolist(), best_total.tolist(), strict=True))
    return np.array([mine / at(share, curve) for share, mine in zip(clean, total, strict=True)])


def at(share: float, curve: Sequence[tuple[float, float]]) -> float:
    """The total at a share, straight between the points of a curve; NaN outside of it."""
    for (low, below), (high, above) in pairwise(curve):
        if low <= share <= high:
            return below if high == low else below + (share - low) / (high - low) * (above - below)
    return float("nan")


def _between(values: Floats) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return (float("nan"), float("nan"))
    return float(np.quantile(known, 0.05)), float(np.quantile(known, 0.95))
