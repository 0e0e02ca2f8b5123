"""Labelled plans for cost models, one by one: a query of ZeroTune's Table III, a plan for it, and its simulated run.

Every plan is drawn from (seed, its number): it depends neither on the other plans nor on the machine that draws it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from streamtune.dataflow import Job, Observation, Plan
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import simulate_once
from streamtune.labs.settings import PlanDataSettings
from streamtune.models.costmodel.columns import PlanColumns
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.readings.selectivity import observed_selectivity
from streamtune.workloads.zerotune import (
    SEEN,
    UNSEEN,
    ParameterRanges,
    ZeroTuneQuery,
    draw_query,
    random_degrees,
    with_unseen,
)

_PLANS, _CALIBRATION = 1, 2
# OptiSample alone gives one plan per query, and a model that has seen nothing else cannot tell what a plan with far too
# few instances would do. Half of the plans are therefore stretched by a factor between these, and each operator by one
# of its own.
_STRETCH_ALL = (1 / 16, 4.0)
_STRETCH_ONE = 0.4
_CALIBRATION_QUERIES = 300


def parameter_ranges(name: str) -> ParameterRanges:
    """What the parameters of a query are drawn from."""
    return {"seen": SEEN, "unseen": UNSEEN}.get(name) or with_unseen(name)


def query_of(number: int, settings: PlanDataSettings) -> ZeroTuneQuery:
    """The query of this number; structures take turns."""
    structure = settings.structures[number % len(settings.structures)]
    return draw_query(structure, settings.first + number, settings.seed, parameter_ranges(settings.ranges))


def plan_of(query: ZeroTuneQuery, number: int, settings: PlanDataSettings, optisample: OptiSample) -> Plan:
    """One enumerated plan."""
    rng = np.random.default_rng([settings.seed, settings.first + number, _PLANS])
    if settings.enumeration == "random":
        return Plan(random_degrees(query, rng))
    scale: dict[str, float] | float = 1.0
    if settings.explore and rng.random() < 0.5:
        overall = np.exp(rng.uniform(*np.log(_STRETCH_ALL)))
        scale = {key: float(overall * rng.lognormal(0.0, _STRETCH_ONE)) for key in query.job.dataflow.index}
    return Plan(optisample.degrees(query.job, query.largest_parallelism, scale=scale))


def observe(query: ZeroTuneQuery, plan: Plan, seed: int, window: MeasurementWindow) -> Observation:
    """Run a plan once on its hosts."""
    rates = query.job.source_rates
    return simulate_once(query.job, query.physics, plan, rates, window=window, seed=seed, cluster=query.cluster)


@lru_cache(maxsize=8)
def calibrated_optisample(seed: int = 0, queries: int = _CALIBRATION_QUERIES) -> OptiSample:
    """Scaling factors and usual selectivities from random plans of training queries, as the paper's footnote asks."""
    settings = PlanDataSettings(seed=seed, enumeration="random", first=10**8)
    window = MeasurementWindow(settings.settle_s, settings.window_s)
    runs: list[tuple[Job, Observation]] = []
    for number in range(queries):
        query = query_of(number, settings)
        plan = Plan(random_degrees(query, np.random.default_rng([seed, number, _CALIBRATION])))
        runs.append((query.job, observe(query, plan, number, window)))
    return OptiSample.calibrated(runs)


def labelled_plan(number: int, settings: PlanDataSettings, optisample: OptiSample) -> dict[str, Any]:
    """One row: the plan's columns, and what was measured."""
    query = query_of(number, settings)
    plan = plan_of(query, number, settings, optisample)
    noise = int(np.random.SeedSequence([settings.seed, settings.first + number]).generate_state(1)[0])
    seen = observe(query, plan, noise, MeasurementWindow(settings.settle_s, settings.window_s))
    return {**describe(query, plan, seen), "enumeration": settings.enumeration, "ranges": settings.ranges}


def describe(query: ZeroTuneQuery, plan: Plan, seen: Observation) -> dict[str, Any]:
    """The row of an observed plan; selectivities as they were seen."""
    job = query.job
    metrics = [seen.operators[operator.id] for operator in job.dataflow.operators]
    ratios = observed_selectivity([m.records_in_per_s for m in metrics], [m.records_out_per_s for m in metrics])
    selectivities = dict(zip(job.dataflow.index, ratios.tolist(), strict=True))
    degrees = [plan[key] for key in job.dataflow.index]
    columns = PlanColumns.of_plans(job, degrees, query.cluster, rates=seen.source_rates, selectivities=selectivities)
    return {
        "query": job.name,
        "structure": query.structure,
        "latency_ms": seen.latency_ms,
        "throughput_per_s": seen.throughput_per_s,
        **columns.to_record(),
    }
