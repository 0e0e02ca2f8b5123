"""The cheapest plan: exactly where that is affordable, and with a proven gap everywhere."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.envelope import undominated
from streamtune.provisioning.levels import needed_counts, plan_one_size
from streamtune.provisioning.plans import ProvisionPlan, checked_plan
from streamtune.provisioning.problem import SLACK, Problem, ProvisioningError
from streamtune.provisioning.programme import Instance, Programme, affordable_states
from streamtune.provisioning.qcesa import plan_qcesa
from streamtune.provisioning.search import STEPS_A_SECOND, Found, search
from streamtune.provisioning.settings import SolverSettings

Counts = npt.NDArray[np.int64]
_RIVALS_SHARE = 0.4  # of the time, at most, for each plan that ours must not cost more than
_PEAK_SECONDS = 2.0
_LEAST_SEARCH = 0.2
_WEAK = 1e-4  # of the strongest size's performance: so many instances make lattices too large


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
    whole, unit = Instance.of(problem).in_shares()
    counts, bound, rivals = np.zeros((whole.epochs, whole.sizes), dtype=np.int64), 0.0, list[Counts]()
    has_initial = whole.initial is not None and bool(whole.initial.any())
    if whole.workload.max() > 0 or has_initial:
        useful = np.flatnonzero(whole.performance > 0)
        if len(useful):
            part = whole.only(useful)
            columns = useful[undominated(part.performance, part.price, part.initial)]
            found, rivals = _solve(whole.only(columns), problem, settings)
            counts[:, columns] = found.counts
            bound = found.bound
        if whole.initial is not None:
            bound += _dismiss_useless(whole, counts)
    counts = min([counts, *rivals], key=whole.cost)  # of equal ones the first, which is ours
    return checked_plan(problem, counts, "exact", bound * unit, time.perf_counter() - begun)


def plan_held_peak(problem: Problem, seconds: float) -> Counts:
    """The cheapest combination that serves the highest workload, from the first epoch to the last."""
    sizes = tuple(size.model_copy(update={"price": size.price * problem.epochs}) for size in problem.sizes)
    wanted = problem.model_copy(update={"workload": (max(problem.workload),), "sizes": sizes})
    return np.repeat(plan_exact(wanted, SolverSettings(seconds=seconds)).counts, problem.epochs, axis=0)


def _rivals(problem: Problem, seconds: float) -> list[Counts]:
    """Plans that a search which stops short must not cost more than; those with one size are where it begins.

    The paper's is left out where its candidates alone would take more than ``seconds``.
    """
    found = []
    if problem.epochs > 1:
        found.append(plan_held_peak(problem, min(_PEAK_SECONDS, seconds)))
    most = affordable_states(Instance.of(problem), STEPS_A_SECOND * seconds / 2)
    with suppress(ProvisioningError):
        found.append(plan_qcesa(problem, most).counts)
    return found


def _dismiss_useless(whole: Instance, counts: Counts) -> float:
    """Running instances that serve nothing: stopped at once, or kept where stopping costs more. Gives their cost."""
    cost = 0.0
    idle = np.zeros(whole.epochs, dtype=np.int64)
    for column in np.flatnonzero(whole.performance == 0).tolist():
        before = int(whole.initial[column]) if whole.initial is not None else 0
        counts[:, column] = plan_one_size(idle, float(whole.price[column]), whole.start_cost, whole.stop_cost, before)
        cost += whole.only([column]).cost(counts[:, [column]])
    return cost


def _without_weak(instance: Instance, steps: float) -> Found | None:
    """The optimum, where sizes far weaker than the strongest cannot be part of a plan that is cheaper without them.

    A plan that costs no more than c holds at most c / price instances of a size in any epoch: those of all weak sizes
    together serve at most c times their best performance per price. So what serves the rest without them is a bound.
    """
    is_weak = instance.performance < _WEAK * instance.performance.max()
    if instance.initial is not None:
        is_weak &= instance.initial == 0
    if not is_weak.any() or (instance.price[is_weak] == 0).any():
        return None
    per_price = float((instance.performance[is_weak] / instance.price[is_weak]).max())
    strong = np.flatnonzero(~is_weak)
    counts = np.zeros((instance.epochs, instance.sizes), dtype=np.int64)
    cost, served = np.inf, 0.0
    for _ in range(2):
        part = instance.only(strong, np.maximum(instance.workload - served, 0.0))
        programme = Programme.of(part, part.limits(), affordable_states(part, steps / 2))
        if programme is None:
            return None
        value, plan = programme.solve()
        if served == 0:
            counts[:, strong], cost, served = plan, value, value * per_price
    return Found(counts, cost) if value >= cost * (1 - SLACK) else None


def _solve(instance: Instance, problem: Problem, settings: SolverSettings) -> tuple[Found, list[Counts]]:
    """A plan with its bound, and what it has to be compared with where it is not the optimum."""
    begun = time.perf_counter()
    if instance.sizes == 1:
        needed = needed_counts(instance.workload, float(instance.performance[0]))
        before = None if instance.initial is None else int(instance.initial[0])
        counts = plan_one_size(needed, float(instance.price[0]), instance.start_cost, instance.stop_cost, before)[
            :, None
        ]
        return Found(counts, instance.cost(counts)), []
    limits = instance.limits()
    seconds = settings.time_for(instance.epochs * instance.sizes)
    steps = min(settings.exact_steps, 0.8 * STEPS_A_SECOND * seconds)
    programme = Programme.of(instance, limits, affordable_states(instance, steps))
    if programme is not None:
        value, counts = programme.solve()
        return Found(counts, value), []
    found = _without_weak(instance, steps)
    if found is not None:
        return found, []
    rivals = _rivals(problem, _RIVALS_SHARE * seconds)
    left = max(begun + seconds - time.perf_counter(), _LEAST_SEARCH * seconds)
    return search(instance, limits, left, settings.gap, settings.seed), rivals
