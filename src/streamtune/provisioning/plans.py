"""A plan over epochs, and what it costs by Eq. 1 to 3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.problem import SLACK, Problem, ProvisioningError

Counts = npt.NDArray[np.int64]  # epochs × sizes
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """Eq. 1, term by term."""

    running: float
    starts: int
    stops: int
    total: float


@dataclass(frozen=True)
class ProvisionPlan:
    """Counts per epoch with their cost and with what was proven about it: no plan costs less than ``bound``."""

    problem: Problem
    counts: Counts
    costs: Costs
    method: str
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """How much cheaper a plan could be at most, as a share of this one's cost.

        Costs are sums of rounded numbers: a difference in their last digits is none.
        """
        if self.costs.total <= 0:
            return 0.0
        gap = (self.costs.total - self.bound) / self.costs.total
        return 0.0 if gap < SLACK else float(gap)

    @property
    def is_optimal(self) -> bool:
        return self.gap == 0.0

    def as_dict(self) -> dict[str, Any]:
        """The answer in the fixed format of ``streamtune provision plan --json``."""
        names = [size.name for size in self.problem.sizes]
        return {
            "method": self.method,
            "cost": self.costs.total,
            "running_cost": self.costs.running,
            "starts": self.costs.starts,
            "stops": self.costs.stops,
            "optimal": self.is_optimal,
            "gap": self.gap,
            "seconds": self.seconds,
            "plan": [dict(zip(names, map(int, row), strict=True)) for row in self.counts],
        }


def performances(problem: Problem) -> Floats:
    return np.array([size.performance_per_s for size in problem.sizes])


def prices(problem: Problem) -> Floats:
    return np.array([size.price for size in problem.sizes])


def initial_counts(problem: Problem) -> Counts | None:
    """What runs before the first epoch, or nothing said."""
    if problem.initial is None:
        return None
    return np.array([problem.initial.get(size.name, 0) for size in problem.sizes], dtype=np.int64)


def costs_of(problem: Problem, counts: Counts) -> Costs:
    """What a plan costs. Without ``initial`` the first epoch's instances are there already, at no charge.

    >>> from streamtune.provisioning.problem import Size
    >>> small = Size(name="small", cpu=1, memory_mb=512, performance_per_s=100, price=2)
    >>> problem = Problem(sizes=(small,), start_cost=5, stop_cost=1, workload=(50, 250, 100))
    >>> costs_of(problem, np.array([[1], [3], [1]]))  # 5 instance-epochs, 2 starts, 2 stops
    Costs(running=10.0, starts=2, stops=2, total=22.0)
    """
    before = initial_counts(problem)
    rows = counts if before is None else np.vstack([before[None, :], counts])
    change = np.diff(rows, axis=0)
    starts, stops = int(np.maximum(change, 0).sum()), int(np.maximum(-change, 0).sum())
    running = float((counts @ prices(problem)).sum())
    return Costs(running, starts, stops, running + problem.start_cost * starts + problem.stop_cost * stops)


def capacities(problem: Problem, counts: Counts) -> Floats:
    """Records/s that a plan serves in each epoch."""
    return np.asarray(counts @ performances(problem))


def uncovered(problem: Problem, counts: Counts) -> npt.NDArray[np.int64]:
    """The epochs whose workload the plan does not serve."""
    short = capacities(problem, counts) < np.array(problem.workload) * (1 - SLACK)
    return np.flatnonzero(short)


def checked_plan(problem: Problem, counts: Counts, method: str, bound: float, seconds: float) -> ProvisionPlan:
    """A plan that serves every epoch; anything else is our mistake and never leaves this room."""
    counts = np.asarray(counts, dtype=np.int64)
    short = uncovered(problem, counts)
    if len(short) or (counts < 0).any():
        raise ProvisioningError(f"{method}: epoch {short[:1]} is not served: please report this problem file")
    costs = costs_of(problem, counts)
    return ProvisionPlan(problem, counts, costs, method, min(bound, costs.total), seconds)
