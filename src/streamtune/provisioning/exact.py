"""The cheapest plan: exactly where that is affordable, and with a proven gap everywhere."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.envelope import undominated
from streamtune.provisioning.levels import needed_counts, plan_one_size
from streamtune.provisioning.plans import ProvisionPlan, checked_plan
from streamtune.provisioning.problem import Problem, ProvisioningError
from streamtune.provisioning.programme import Instance, Programme, affordable_states
from streamtune.provisioning.qcesa import plan_qcesa
from streamtune.provisioning.search import STEPS_A_SECOND, Found, search
from streamtune.provisioning.settings import SolverSettings

Counts = npt.NDArray[np.int64]
# With more sizes the paper's candidates take longer than the search itself.
_QCESA_SIZES = 4


def plan_exact(problem: Problem, settings: SolverSettings | None = None) -> ProvisionPlan:
    """Solve Eq. 1 to 3: closed form for one size, one dynamic programme for a few, descent and bound for many.

    >>> from streamtune.provisioning.problem import Size
    >>> small = Size(name="small", cpu=1, memory_mb=512, performance_per_s=100, price=1)
    >>> large = Size(name="large", cpu=4, memory_mb=512, performance_per_s=350, price=3)
    >>> problem = Problem(sizes=(small, large), start_cost=0.5, stop_cost=0, workload=(90, 340, 120))
    >>> plan_exact(problem).as_dict()["plan"]  # one small, one large, and two small
    [{'small': 1, 'large': 0}, {'small': 0, 'large': 1}, {'small': 2, 'large': 0}]
    """
    begun = time.perf_counter()
    settings = settings or SolverSettings()
    whole = Instance.of(problem)
    counts, bound = np.zeros((whole.epochs, whole.sizes), dtype=np.int64), 0.0
    has_initial = whole.initial is not None and bool(whole.initial.any())
    if whole.workload.max() > 0 or has_initial:
        useful = np.flatnonzero(whole.performance > 0)
        if len(useful):
            part = whole.only(useful)
            columns = useful[undominated(part.performance, part.price, part.initial)]
            found = _solve(whole.only(columns), settings)
            counts[:, columns] = found.counts
            bound = found.bound
        if whole.initial is not None:
            bound += _dismiss_useless(whole, counts)
    plan = checked_plan(problem, counts, "exact", bound, time.perf_counter() - begun)
    if plan.is_optimal or len(problem.sizes) > _QCESA_SIZES:
        return plan
    with suppress(ProvisioningError):  # a search that stopped short must not cost more than the paper's plan
        rival = plan_qcesa(problem)
        if rival.costs.total < plan.costs.total:
            return checked_plan(problem, rival.counts, "exact", bound, time.perf_counter() - begun)
    return plan


def _dismiss_useless(whole: Instance, counts: Counts) -> float:
    """Running instances that serve nothing: stopped at once, or kept where stopping costs more. Gives their cost."""
    cost = 0.0
    idle = np.zeros(whole.epochs, dtype=np.int64)
    for column in np.flatnonzero(whole.performance == 0).tolist():
        before = int(whole.initial[column]) if whole.initial is not None else 0
        counts[:, column] = plan_one_size(idle, float(whole.price[column]), whole.start_cost, whole.stop_cost, before)
        cost += whole.only([column]).cost(counts[:, [column]])
    return cost


def _solve(instance: Instance, settings: SolverSettings) -> Found:
    if instance.sizes == 1:
        needed = needed_counts(instance.workload, float(instance.performance[0]))
        before = None if instance.initial is None else int(instance.initial[0])
        counts = plan_one_size(needed, float(instance.price[0]), instance.start_cost, instance.stop_cost, before)[
            :, None
        ]
        return Found(counts, instance.cost(counts))
    limits = instance.limits()
    steps = min(settings.exact_steps, 0.8 * STEPS_A_SECOND * settings.time_for(instance.epochs * instance.sizes))
    programme = Programme.of(instance, limits, affordable_states(instance, steps))
    if programme is not None:
        value, counts = programme.solve()
        return Found(counts, value)
    return search(instance, limits, settings.time_for(instance.epochs * instance.sizes), settings.gap, settings.seed)
