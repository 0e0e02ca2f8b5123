"""What a new job should start with: the plan of least predicted cost (ZeroTune Section III-C3, Eq. 1).

Candidates are OptiSample's plan, stretched and squeezed, and random plans around it. Their cost is

    C = wt · C_L + (1 − wt) · C_T + wr · C_R

with latency, throughput (negated) and total parallelism each normalised to [0, 1] over the candidates. The last term is
ours: Eq. 1 alone takes any number of instances for the smallest gain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Job, Plan
from streamtune.dataflow.hosts import Cluster
from streamtune.errors import StreamTuneError
from streamtune.models.costmodel.columns import PlanColumns
from streamtune.models.costmodel.settings import AdviceSettings

if TYPE_CHECKING:
    from streamtune.models.costmodel.model import CostModel, Predictions

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Advice:
    """The chosen plan among its candidates."""

    plan: Plan
    latency_ms: float
    throughput_per_s: float
    latency_spread: float
    throughput_spread: float
    degrees: Ints  # candidates × operators
    predictions: Predictions
    costs: Floats
    chosen: int
    outside: tuple[str, ...]  # where the model has to extrapolate

    @property
    def totals(self) -> Ints:
        totals: Ints = self.degrees.sum(axis=1)
        return totals


def normalised(values: Floats) -> Floats:
    """To [0, 1], the smallest value being 0; all 0 where there is no difference.

    >>> normalised(np.array([2.0, 4.0, 3.0])).tolist()
    [0.0, 1.0, 0.5]
    """
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def weighted_costs(latency_ms: Floats, throughput_per_s: Floats, totals: Ints, settings: AdviceSettings) -> Floats:
    """Eq. 1 with the resource term, for each candidate."""
    wt = settings.latency_weight
    costs: Floats = (
        wt * normalised(latency_ms)
        + (1 - wt) * normalised(-throughput_per_s)
        + settings.resource_weight * normalised(totals.astype(np.float64))
    )
    return costs


def candidate_degrees(
    model: CostModel,
    job: Job,
    cluster: Cluster,
    settings: AdviceSettings,
    *,
    rates: Mapping[str, float] | None = None,
    selectivities: Mapping[str, float] | None = None,
    fixed: Mapping[str, int] | None = None,
) -> Ints:
    """Distinct plans, candidates × operators. ``fixed`` operators keep their parallelism in all of them."""
    keys = list(job.dataflow.index)
    limits = np.array([min(job.limit_of(key), cluster.cores) for key in keys], dtype=np.int64)
    for key, degree in (fixed or {}).items():
        if degree > limits[keys.index(key)]:
            raise StreamTuneError(
                f"operator '{key}' is kept at parallelism {degree}, but the hosts have {cluster.cores} cores and the "
                f"job's limit is {job.limit_of(key)}: lower it, or add hosts"
            )
    known = {key: value for key, value in (selectivities or {}).items() if np.isfinite(value)}
    base = model.optisample.degrees(job, 10**6, rates=rates, known=known)
    centre = np.array([float(base[key]) for key in keys])
    random = np.random.default_rng(settings.seed)
    draws = max(1, settings.candidates)
    overall = np.exp(random.uniform(np.log(0.25), np.log(4.0), size=(draws, 1)))
    single = np.exp(random.normal(0.0, 0.35, size=(draws, len(keys))))
    overall[0], single[0] = 1.0, 1.0  # OptiSample's own plan is always among them
    degrees = np.clip(np.ceil(centre * overall * single - 1e-9), 1, limits).astype(np.int64)
    # Equal parallelism lets operators chain, which independent draws would hardly ever hit.
    even = np.unique(np.geomspace(1, limits.max(), 16).round().astype(np.int64))
    degrees = np.concatenate([degrees, np.minimum(even[:, None], limits[None, :])])
    for key, degree in (fixed or {}).items():
        degrees[:, keys.index(key)] = degree
    unique: Ints = np.unique(degrees, axis=0)
    return unique


def advise(
    model: CostModel,
    job: Job,
    cluster: Cluster | None = None,
    settings: AdviceSettings | None = None,
    *,
    rates: Mapping[str, float] | None = None,
    selectivities: Mapping[str, float] | None = None,
    fixed: Mapping[str, int] | None = None,
) -> Advice:
    """The candidate of least predicted cost; of equals the one with the least total parallelism."""
    cluster, settings = cluster or model.encoder.usual_cluster, settings or AdviceSettings()
    degrees = candidate_degrees(model, job, cluster, settings, rates=rates, selectivities=selectivities, fixed=fixed)
    columns = PlanColumns.of_plans(job, degrees, cluster, rates=rates, selectivities=selectivities)
    predicted = model.predict(columns)
    totals = degrees.sum(axis=1)
    costs = weighted_costs(predicted.latency_ms, predicted.throughput_per_s, totals, settings)
    chosen = int(np.lexsort((totals, costs))[0])
    keys = list(job.dataflow.index)
    plan = Plan(zip(keys, degrees[chosen].tolist(), strict=True))
    one = PlanColumns.of_plans(job, degrees[chosen], cluster, rates=rates, selectivities=selectivities)
    return Advice(
        plan=plan,
        latency_ms=float(predicted.latency_ms[chosen]),
        throughput_per_s=float(predicted.throughput_per_s[chosen]),
        latency_spread=float(predicted.latency_spread[chosen]),
        throughput_spread=float(predicted.throughput_spread[chosen]),
        degrees=degrees,
        predictions=predicted,
        costs=costs,
        chosen=chosen,
        outside=tuple(model.encoder.outside(one)),
    )


def starting_plan(model: CostModel, job: Job, *, rates: Mapping[str, float] | None = None) -> Plan:
    """The plan ``tune`` can start a job with instead of parallelism 1; sources keep what the spec asks for."""
    initial = job.initial_plan
    fixed = {source.id: initial[source.id] for source in job.dataflow.sources}
    return advise(model, job, rates=rates, fixed=fixed).plan
