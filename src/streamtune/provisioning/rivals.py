"""What our plans are compared with: one size all the time, peak all day, and following the rate one epoch late."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.descent import single_size_plan
from streamtune.provisioning.exact import plan_held_peak
from streamtune.provisioning.levels import needed_counts, plan_one_size
from streamtune.provisioning.plans import Costs, ProvisionPlan, checked_plan, costs_of
from streamtune.provisioning.problem import Problem, ProvisioningError
from streamtune.provisioning.programme import Instance

Counts = npt.NDArray[np.int64]


def plan_cba(problem: Problem, size_name: str) -> ProvisionPlan:
    """CBA, the cost-balancing rival of the paper [11]: instances of one size, running and operation cost balanced.

    BGElasor's own algorithm is not printed in the paper; this is the best any algorithm with one size can do, so no
    comparison with it flatters us.
    """
    begun = time.perf_counter()
    size = problem.size(size_name)
    column = [one.name for one in problem.sizes].index(size_name)
    instance = Instance.of(problem)
    if instance.performance[column] == 0 and max(problem.workload) > 0:
        raise ProvisioningError(
            f"cba:{size_name} cannot serve the workload: the size's performance is {size.performance_per_s:g}"
        )
    counts = single_size_plan(instance, column) if max(problem.workload) > 0 else _nothing(problem)
    return checked_plan(problem, counts, f"cba:{size_name}", 0.0, time.perf_counter() - begun)


def plan_peak(problem: Problem) -> ProvisionPlan:
    """Peak all day: the cheapest combination that serves the highest workload, from the first epoch to the last."""
    begun = time.perf_counter()
    counts = plan_held_peak(problem, 2.0)
    return checked_plan(problem, counts, "peak", 0.0, time.perf_counter() - begun)


def follow_rate(problem: Problem, size_name: str, headroom: float = 0.0) -> tuple[Counts, Costs]:
    """DS2-style: each epoch gets what the epoch before needed, plus headroom. It may fall short: not a valid plan.

    >>> from streamtune.provisioning.problem import Size
    >>> small = Size(name="small", cpu=1, memory_mb=512, performance_per_s=100, price=1)
    >>> problem = Problem(sizes=(small,), start_cost=0, stop_cost=0, workload=(50, 250, 100))
    >>> follow_rate(problem, "small")[0].ravel().tolist()
    [1, 1, 3]
    """
    column = [one.name for one in problem.sizes].index(problem.size(size_name).name)
    rate = np.array(problem.workload)
    seen = np.concatenate([rate[:1], rate[:-1]]) * (1 + headroom)
    counts = _nothing(problem)
    counts[:, column] = needed_counts(seen, problem.sizes[column].performance_per_s)
    return counts, costs_of(problem, counts)


def plan_oracle(problem: Problem, size_name: str) -> Counts:
    """The fewest instances of one size in every epoch, by someone who knows the future and pays nothing for changes."""
    size = problem.size(size_name)
    needed = needed_counts(np.array(problem.workload), size.performance_per_s)
    return plan_one_size(needed, size.price, 0.0, 0.0)


def _nothing(problem: Problem) -> Counts:
    """What is free to keep of ``initial``, and else no instances."""
    instance = Instance.of(problem)
    counts = np.zeros((problem.epochs, len(problem.sizes)), dtype=np.int64)
    if instance.initial is not None:
        for column, before in enumerate(instance.initial):
            price = float(instance.price[column])
            idle = np.zeros(problem.epochs, dtype=np.int64)
            counts[:, column] = plan_one_size(idle, price, problem.start_cost, problem.stop_cost, int(before))
    return counts
