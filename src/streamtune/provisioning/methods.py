"""Plans by the name of their method, as the command line gives it."""

from __future__ import annotations

from streamtune.provisioning.exact import plan_exact
from streamtune.provisioning.plans import ProvisionPlan
from streamtune.provisioning.problem import Problem, Size, check_method
from streamtune.provisioning.qcesa import plan_qcesa
from streamtune.provisioning.rivals import plan_cba, plan_peak
from streamtune.provisioning.settings import SolverSettings


def plan_by(method: str, problem: Problem, settings: SolverSettings | None = None) -> ProvisionPlan:
    """A plan by one of the methods. What a rival's plan misses is in its gap: the distance to the proven bound."""
    check_method(method, problem)
    if method == "exact":
        return plan_exact(problem, settings)
    if method == "qcesa":
        return with_bound(plan_qcesa(problem), settings)
    if method == "peak":
        return with_bound(plan_peak(problem), settings)
    return with_bound(plan_cba(problem, method.removeprefix("cba:")), settings)


def with_bound(plan: ProvisionPlan, settings: SolverSettings | None = None) -> ProvisionPlan:
    """A rival's plan together with what our solver proves about the problem; the seconds stay the rival's own."""
    best = plan_exact(plan.problem, settings)
    bound = min(best.bound, plan.costs.total)
    return ProvisionPlan(plan.problem, plan.counts, plan.costs, plan.method, bound, plan.seconds)


def compile_kernels() -> None:
    """Let numba compile (or load) everything once, so that no plan's seconds contain it."""
    sizes = tuple(
        Size(name=name, cpu=1, memory_mb=1, performance_per_s=rate, price=price)
        for name, rate, price in (("a", 1.0, 1.0), ("b", 2.5, 2.0), ("c", 4.2, 3.0))
    )
    problem = Problem(sizes=sizes, start_cost=0.3, stop_cost=0.1, workload=(9.0, 3.0, 7.0), initial={"a": 1})
    plan_exact(problem, SolverSettings(exact_steps=1.0, seconds=0.2))
    plan_qcesa(problem)
