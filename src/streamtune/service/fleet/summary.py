"""How a job stands, for the API: made after every change, read without locks."""

from __future__ import annotations

import math
from collections.abc import Mapping

from streamtune.dataflow import Job, Observation, Plan
from streamtune.readings.metrics import suspects
from streamtune.service.views import EdgeView, OperatorView


def finite(value: float | None) -> float | None:
    """A number that JSON can say."""
    return value if value is not None and math.isfinite(value) else None


def total_rate(seen: Observation) -> float | None:
    return finite(sum(seen.source_rates.values()))


def worst_backpressure(seen: Observation) -> float | None:
    shares = [one.backpressured_share for one in seen.operators.values() if math.isfinite(one.backpressured_share)]
    return max(shares, default=None)


def operators_of(
    job: Job, plan: Plan, seen: Observation | None, recommended: Mapping[str, int] | None, excluded: frozenset[str]
) -> list[OperatorView]:
    """Every operator with what was last seen of it."""
    blamed = set()
    if seen is not None and seen.has_backpressure:
        blamed = {*seen.bottlenecks, *suspects(job.dataflow, seen)[:1]}
    views = []
    for operator in job.dataflow.operators:
        metrics = None if seen is None else seen.operators.get(operator.id)
        busy = None if metrics is None else finite(metrics.busy_share)
        held = None if metrics is None else finite(metrics.backpressured_share)
        views.append(
            OperatorView(
                id=operator.id,
                type=operator.type,
                parallelism=plan[operator.id],
                max_parallelism=job.limit_of(operator.id),
                recommended=None if recommended is None else recommended.get(operator.id),
                busy=busy,
                backpressured=held,
                idle=None if busy is None or held is None else max(0.0, 1 - busy - held),
                rate_in=None if metrics is None else finite(metrics.records_in_per_s),
                rate_out=None if metrics is None else finite(metrics.records_out_per_s),
                bottleneck=operator.id in blamed,
                excluded=operator.id in excluded,
            )
        )
    return views


def edges_of(job: Job, seen: Observation | None) -> list[EdgeView]:
    """Every edge, with what went over it where that is known."""
    counted = {} if seen is None else {(edge.source, edge.target): edge.records_per_s for edge in seen.edges}
    views = []
    for edge in job.dataflow.edges:
        rate = counted.get((edge.source, edge.target))
        if rate is None and seen is not None and len(job.dataflow.predecessors(edge.target)) == 1:
            metrics = seen.operators.get(edge.target)
            rate = None if metrics is None else metrics.records_in_per_s
        views.append(EdgeView(source=edge.source, target=edge.target, rate=finite(rate)))
    return views
