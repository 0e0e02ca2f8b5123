"""Fig. 2 (total cost) and Fig. 3 (workload covered) of QEScalor on real traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamtune.experiments.provisioning.traces import load_trace, scaled
from streamtune.forecasts.selection import FORECASTERS
from streamtune.forecasts.series import RateSeries
from streamtune.provisioning.exact import plan_exact
from streamtune.provisioning.plans import ProvisionPlan
from streamtune.provisioning.prices import PriceList, sizes_for
from streamtune.provisioning.problem import Problem
from streamtune.provisioning.qcesa import plan_qcesa
from streamtune.provisioning.rivals import plan_cba, plan_peak
from streamtune.provisioning.rolling import perfect_forecasts, roll
from streamtune.provisioning.sampling.physics import KNOWN
from streamtune.provisioning.sampling.samples import Provision
from streamtune.provisioning.settings import SolverSettings

# The paper's r1 to r4; its MB look like utilisation (33.2 to 33.8), so memory that holds the state stands in.
PROVISIONS = tuple(Provision(cpu=cpu, memory_mb=96.0) for cpu in (0.6, 1.2, 1.8, 2.4))
WEIGHTS = {"light": 0.25, "heavy": 4.0}  # start cost in epochs of the smallest size; a stop costs a quarter of it


def problem_of(series: RateSeries, weight: float, operator: str = "CMO1", instances: float = 40.0) -> Problem:
    """A trace as a planning problem for r1 to r4; the peak needs about ``instances`` of the smallest."""
    physics = KNOWN[operator].model_copy(update={"cores": 2.0})
    rates = [float(physics.performance(one.cpu, one.memory_mb)) for one in PROVISIONS]
    prices = PriceList()
    sizes = sizes_for(PROVISIONS, rates, prices, series.step_s)
    start = weight * sizes[0].price
    workload = scaled(series, instances * rates[0]).values
    return Problem(sizes=sizes, start_cost=start, stop_cost=start / 4, workload=tuple(workload.tolist()))


def total_costs(trace: str, days: float, weight: str) -> dict[str, Any]:
    """Fig. 2: the cost of each method over the days, and day by day."""
    series = load_trace(trace, 1800.0, days=days)
    problem = problem_of(series, WEIGHTS[weight])
    plans: list[ProvisionPlan] = [
        plan_exact(problem, SolverSettings(seconds=60)),
        plan_qcesa(problem),
        plan_peak(problem),
    ]
    plans += [plan_cba(problem, size.name) for size in problem.sizes]
    best = plans[0]
    return {
        "trace": trace,
        "days": len(series) * series.step_s / 86_400,
        "start_cost": weight,
        "gap": best.gap,
        "methods": {
            plan.method: {
                "cost": plan.costs.total,
                "above_ours": plan.costs.total / best.costs.total - 1,
                "starts": plan.costs.starts,
                "stops": plan.costs.stops,
                "by_day": _by_day(plan, series),
            }
            for plan in plans
        },
    }


def _by_day(plan: ProvisionPlan, series: RateSeries) -> list[float]:
    running = plan.counts @ np.array([size.price for size in plan.problem.sizes])
    change = np.diff(plan.counts, axis=0, prepend=plan.counts[:1])
    turned = plan.problem.start_cost * np.maximum(change, 0).sum(1) + plan.problem.stop_cost * np.maximum(
        -change, 0
    ).sum(1)
    day = round(86_400 / series.step_s)
    whole = len(running) // day * day
    return [float(x) for x in np.cumsum((running + turned)[:whole].reshape(-1, day).sum(axis=1))]


def coverage(
    trace: str, days: float, levels: Sequence[float], *, horizon: int = 8, method: str = "boosting"
) -> dict[str, Any]:
    """Fig. 3: epochs served and cost, rolling over the last part of a trace, by perfect and by real forecasts.

    The forecaster learns from the first half. Its levels are held to their promise as the days go by (adaptive
    conformal inference: after a miss the forecast is raised, after a hit lowered a little).
    """
    series = scaled(load_trace(trace, 1800.0, days=days), 40.0)
    half = len(series) // 2
    problem = problem_of(series, WEIGHTS["light"])
    actual = np.array(problem.workload)
    series = RateSeries(actual, series.step_s, series.start_s)
    late = problem.model_copy(update={"workload": tuple(actual[half:].tolist())})
    perfect = roll(late, perfect_forecasts(late.workload, horizon))
    rows = [{"level": "perfect", "covered": perfect.covered, "cost": perfect.costs.total, "over_perfect": 1.0}]
    for level in levels:
        forecaster = FORECASTERS[method]()
        forecaster.fit(series.until(half), horizon, (level,))
        foreseen = adapted(forecaster, series, half, horizon, level)
        done = roll(late, foreseen)
        rows.append(
            {
                "level": level,
                "covered": done.covered,
                "worst_missing": done.shortest,
                "cost": done.costs.total,
                "over_perfect": done.costs.total / perfect.costs.total,
            }
        )
    return {"trace": trace, "epochs": len(actual) - half, "horizon": horizon, "method": method, "rows": rows}


def adapted(forecaster: Any, series: RateSeries, first: int, horizon: int, level: float) -> list[list[float]]:
    """Forecasts from every step on, with a shift that follows misses and hits (Gibbs and Candès, 2021)."""
    unit = float(np.mean(np.abs(np.diff(series.values[:first])))) + 1e-12
    shift, rows = 0.0, []
    for now in range(first, len(series)):
        raw = forecaster.predict(series.until(now), min(horizon, len(series) - now))[:, 0]
        rows.append(np.maximum(raw + shift, 0.0).tolist())
        missed = series.values[now] > rows[-1][0]
        shift += 2.0 * unit * ((1.0 if missed else 0.0) - (1 - level))
    return rows
