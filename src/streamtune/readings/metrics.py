"""What the rivals read off an observation, with missing values handled in one place."""

from __future__ import annotations

import math

from streamtune.dataflow import Dataflow, Job, Observation, OperatorMetrics, Plan


class LastKnownPlan:
    """Completes observations that lack operators, so that a lost metric never resets a running operator.

    An operator that an observation does not name is taken to run as it was last seen or last asked for, with NaN for
    everything that was not measured.

    >>> from streamtune.dataflow import Edge, Operator
    >>> flow = Dataflow((Operator(id="s", type="source", rate=1), Operator(id="t", type="sink")), (Edge("s", "t"),))
    >>> known = LastKnownPlan(Job("j", flow))
    >>> known.asked_for(Plan({"s": 1, "t": 7}))
    >>> known.complete(Observation(observed_at="2026-01-01", window_s=1, source_rates={}, operators={})).plan["t"]
    7
    """

    def __init__(self, job: Job) -> None:
        self._order = tuple(job.dataflow.index)
        self._plan = job.initial_plan

    def complete(self, observation: Observation) -> Observation:
        if all(key in observation.operators for key in self._order):
            self._plan = observation.plan
            return observation
        operators = {key: observation.operators.get(key) or _unmeasured(self._plan[key]) for key in self._order}
        completed = observation.model_copy(update={"operators": operators})
        self._plan = completed.plan
        return completed

    def asked_for(self, plan: Plan) -> None:
        self._plan = plan


def _unmeasured(parallelism: int) -> OperatorMetrics:
    nothing = math.nan
    return OperatorMetrics(
        parallelism=parallelism,
        records_in_per_s=nothing,
        records_out_per_s=nothing,
        busy_ms_per_s=nothing,
        idle_ms_per_s=nothing,
        backpressured_ms_per_s=nothing,
    )


def processing_ability(metrics: OperatorMetrics, calibration: float = 1.0) -> float | None:
    """Records/s that all instances together would serve if they were busy all the time; None if not measured.

    ``calibration`` is the busy share that this kind of operator reports when it is truly busy all the time. The
    calibrated share is capped at 1, so that the result is never below what was actually served.
    """
    useful = min(1.0, metrics.busy_share / calibration) if calibration != 1.0 else metrics.busy_share
    taken = metrics.records_in_per_s
    if not (math.isfinite(useful) and useful > 0 and math.isfinite(taken) and taken > 0):
        return None
    return taken / useful


def hottest_busy_share(metrics: OperatorMetrics) -> float:
    """Busy share of the busiest subtask, of the mean one where the busiest is not reported; NaN if neither is."""
    hottest = metrics.busy_max_ms_per_s
    if hottest is not None and math.isfinite(hottest):
        return hottest / 1000
    return metrics.busy_share


def suspects(dataflow: Dataflow, observation: Observation) -> tuple[str, ...]:
    """Where backpressure begins: the readers of the last backpressured operators, the busiest first.

    An engine without backpressure names its bottlenecks itself. Readers whose load is unknown come last. Ties keep the
    order of the dataflow.
    """
    held_up = set(observation.backpressured())
    found = set(observation.bottlenecks) | {
        reader
        for key in held_up
        if not held_up.intersection(dataflow.successors(key))
        for reader in dataflow.successors(key)
    }

    def by_load(key: str) -> tuple[float, int]:
        busy = hottest_busy_share(observation.operators[key])
        return (-busy if math.isfinite(busy) else 1.0, dataflow.index[key])

    return tuple(sorted(found, key=by_load))
