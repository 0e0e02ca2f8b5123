"""The oracle: the true minimum parallelism of every operator. For scoring only; no tuner may see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamtune.dataflow import BACKPRESSURE_SHARE, Job, Observation, Plan
from streamtune.dataflow.physics import OperatorPhysics, smallest_parallelism, true_ratios
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator.engine import simulate_once
from streamtune.engines.simulator.model import physics_in_order
from streamtune.engines.simulator.settings import SimulatorSettings
from streamtune.readings.demand import input_rates


@dataclass(frozen=True)
class OraclePlan:
    """The least plan that sustains the rates, and the operators for which no allowed parallelism is enough."""

    plan: Plan
    demand_per_s: Mapping[str, float]
    unreachable: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.plan.total


def find_oracle(
    job: Job,
    physics: Mapping[str, OperatorPhysics],
    rates: Mapping[str, float],
    *,
    fixed: Mapping[str, int] | None = None,
    settings: SimulatorSettings | None = None,
) -> OraclePlan:
    """Search the physics for the least plan without backpressure.

    Mean capacity against mean demand gives the floor of every operator; a noise-free run of that plan then shows
    whether bursts of windows need more somewhere, and what is short is raised until the run is clean. ``fixed``
    operators keep their parallelism and are never raised.
    """
    fixed = dict(fixed or {})
    truth = dict(zip(job.dataflow.index, physics_in_order(job, physics), strict=True))
    demand = input_rates(
        job.dataflow, {key: one.selectivity for key, one in truth.items()}, rates, true_ratios(job.dataflow, truth)
    )
    degrees, unreachable = {}, []
    for key in job.dataflow.index:
        limit = job.limit_of(key)
        least = smallest_parallelism(truth[key], demand[key], limit)
        if least is None or fixed.get(key, least) < least:
            unreachable.append(key)
        degrees[key] = fixed.get(key, least or limit)
    plan = Plan(degrees)
    if not unreachable:
        plan = _raise_until_clean(job, physics, rates, plan, fixed, settings or SimulatorSettings())
    return OraclePlan(plan, demand, tuple(unreachable))


def _raise_until_clean(
    job: Job,
    physics: Mapping[str, OperatorPhysics],
    rates: Mapping[str, float],
    plan: Plan,
    fixed: Mapping[str, int],
    settings: SimulatorSettings,
) -> Plan:
    exact = SimulatorSettings.exact().model_copy(
        update={name: getattr(settings, name) for name in ("step_s", "buffer_s", "backlog_s", "warmup_s")}
    )
    longest_period = max((o.window.period for o in job.dataflow.operators if o.window), default=0.0)
    window = MeasurementWindow(settle_s=120.0, length_s=max(120.0, 6 * longest_period))
    for _ in range(job.max_parallelism):
        seen = simulate_once(job, physics, plan, rates, window=window, settings=exact)
        short = [key for key in _behind_backpressure(job, seen) if key not in fixed and plan[key] < job.limit_of(key)]
        if not short:
            return plan
        plan = plan.replace({key: plan[key] + 1 for key in short})
    return plan


def _behind_backpressure(job: Job, seen: Observation) -> list[str]:
    """The busiest reader of every operator that is backpressured while none of its readers is."""
    flow = job.dataflow
    blocked = set(seen.backpressured(BACKPRESSURE_SHARE))
    short = set()
    for key in blocked:
        readers = flow.successors(key)
        if readers and not blocked.intersection(readers):
            short.add(max(readers, key=lambda reader: seen.operators[reader].busy_ms_per_s))
    return sorted(short)
