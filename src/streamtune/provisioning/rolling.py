"""Rolling horizon: plan, apply the first epoch, look again. What that costs and serves when forecasts err."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.exact import plan_exact
from streamtune.provisioning.plans import Costs, costs_of, uncovered
from streamtune.provisioning.problem import Problem
from streamtune.provisioning.settings import SolverSettings

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rolled:
    """What was run epoch by epoch, what it cost by Eq. 1, and the share of epochs whose workload it served."""

    counts: Counts
    costs: Costs
    covered: float
    shortest: float  # records/s missing in the worst epoch, over its workload


def roll(problem: Problem, forecasts: Sequence[Sequence[float]], *, seconds: float = 2.0) -> Rolled:
    """Re-plan in every epoch from ``forecasts[t]``, the rates foreseen before epoch t for t, t + 1, …

    ``problem.workload`` is what really came. A forecast of no rate at all plans for nothing, and is served as such.
    """
    running = dict(problem.initial) if problem.initial is not None else None
    names = [size.name for size in problem.sizes]
    rows = []
    for foreseen in forecasts:
        ahead = problem.model_copy(update={"workload": tuple(map(float, foreseen)), "initial": running})
        first = plan_exact(ahead, SolverSettings(seconds=seconds)).counts[0]
        rows.append(first)
        running = dict(zip(names, map(int, first), strict=True))
    counts = np.array(rows, dtype=np.int64)
    done = problem.model_copy(update={"workload": problem.workload[: len(rows)]})
    short = uncovered(done, counts)
    rates = np.array(done.workload)
    served = counts @ np.array([size.performance_per_s for size in problem.sizes])
    missing = np.where(rates > 0, np.maximum(rates - served, 0) / np.maximum(rates, 1e-12), 0.0)
    return Rolled(counts, costs_of(done, counts), 1 - len(short) / max(len(rows), 1), float(missing.max(initial=0.0)))


def perfect_forecasts(workload: Sequence[float], horizon: int) -> list[list[float]]:
    """What someone who knows the future foresees."""
    return [list(workload[t : t + horizon]) for t in range(len(workload))]
