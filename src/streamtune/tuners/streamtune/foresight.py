"""What a job will need at rates it was not seen at: beliefs, joint draws, and the least plan that is sure enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamtune.dataflow import Job
from streamtune.models.transfer.model import OperatorPrior
from streamtune.readings.demand import carried_rates
from streamtune.tuners.streamtune.estimator import Situation, Verdict
from streamtune.tuners.streamtune.first_plan import Draws, Need, least_plan, needed
from streamtune.tuners.streamtune.posterior import PosteriorEstimator

# Selectivities that were measured are known to about this.
_MEASURED_SD = 0.02
_UNKNOWN_SD = 0.3
_HARDLY, _NO_CHANCE = 0.5, 1e-9


@dataclass(frozen=True)
class Foreseen:
    """The plan of all operators but sources, and how sure one is of it."""

    degrees: Mapping[str, int]
    verdicts: dict[str, Verdict]
    demand: Mapping[str, tuple[float, float]]  # 10 % and 90 % of the draws
    certainty: float
    unknown: tuple[str, ...]
    out_of_reach: tuple[str, ...] = ()  # more likely than not they do not keep up with all instances they may have


def foresee(
    job: Job,
    estimator: PosteriorEstimator,
    situation: Situation,
    prior: Mapping[str, OperatorPrior],
    certainty: float,
    rate_sds: Mapping[str, float] | None = None,
) -> Foreseen:
    """The least plan under which all operators together keep up with this certainty.

    ``rate_sds`` are standard deviations of the logarithms of rates that are not known: those of sources.
    """
    flow = job.dataflow
    keys = estimator.keys
    demand, normals = _draw(job, situation, prior, rate_sds or {})
    columns = [flow.index[key] for key in keys]
    known = np.array([estimator.is_known(key) for key in keys], dtype=np.bool_)
    mean, sd = estimator.curves(situation)
    need = needed(mean, sd, demand[:, columns] * situation.headroom, normals[:, columns])
    # Nothing can be promised of operators that nothing is known of: the others are chosen without them.
    counted = Need(np.where(known[None, :], need.degrees, 1), need.limit)
    limits = np.array([job.limit_of(key) for key in keys])
    chosen_for = counted
    if counted.share_served(limits) < certainty:
        # Out of reach. Who cannot keep up takes what it may have, and the others are sized as if that sufficed.
        chosen_for = Need(np.minimum(counted.degrees, limits), need.limit)
    plan = np.minimum(least_plan(chosen_for, certainty), limits)
    safe = need.marginals()
    words = estimator.judge(situation)
    verdicts = {
        key: Verdict(
            safe[place, : limits[place]],
            max(float(safe[place, plan[place] - 1]), _NO_CHANCE),
            words[key].told if known[place] else "",
        )
        for place, key in enumerate(keys)
    }
    low, high = np.quantile(demand, [0.1, 0.9], axis=0)
    return Foreseen(
        degrees={key: int(degree) for key, degree in zip(keys, plan, strict=True)},
        verdicts=verdicts,
        demand={key: (float(low[flow.index[key]]), float(high[flow.index[key]])) for key in flow.index},
        certainty=counted.share_served(plan),
        unknown=tuple(key for place, key in enumerate(keys) if not known[place]),
        out_of_reach=tuple(
            key for place, key in enumerate(keys) if known[place] and safe[place, limits[place] - 1] < _HARDLY
        ),
    )


def _draw(
    job: Job, situation: Situation, prior: Mapping[str, OperatorPrior], rate_sds: Mapping[str, float]
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Demand of all operators in every draw, and the normals by which their capacity is drawn."""
    flow = job.dataflow
    draws = Draws.of(len(flow.index))
    mean, sd = np.zeros(len(flow.index)), np.zeros(len(flow.index))
    for key, place in flow.index.items():
        measured = situation.selectivities.get(key)
        if measured is not None and measured >= 0:
            mean[place], sd[place] = np.log(max(measured, 1e-9)), _MEASURED_SD
        elif key in prior:
            mean[place], sd[place] = prior[key].log_selectivity, prior[key].selectivity_sd
        else:
            sd[place] = _UNKNOWN_SD
        if flow.operator(key).is_source:
            mean[place], sd[place] = (0.0 if measured is None else mean[place]), 0.0
    offered = np.array([[situation.source_rates.get(key, 0.0) for key in flow.index]])
    # The selectivity of a source is never in doubt: its normals are free, and move all that lies after it together.
    offered = offered * np.exp(np.array([[rate_sds.get(key, 0.0) for key in flow.index]]) * draws.selectivity)
    demand = carried_rates(flow, offered, np.exp(mean + sd * draws.selectivity), situation.edge_ratios)
    return demand, draws.capacity
