"""Greedy: one more instance to the current bottleneck, again and again."""

from __future__ import annotations

from streamtune.dataflow import Job, Observation
from streamtune.readings.metrics import LastKnownPlan, suspects
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.settings import GreedySettings


class Greedy(Tuner):
    """Until the source rate is met or the budget is spent, the bottleneck gets one more instance.

    The bottleneck is the busiest reader of a last backpressured operator that is not at its limit. One instance per
    reconfiguration, so it takes as many as instances are missing; it never takes an instance back.
    """

    name = "greedy"

    def __init__(self, job: Job, settings: GreedySettings | None = None) -> None:
        super().__init__(job)
        self._settings = settings or GreedySettings()
        self._known = LastKnownPlan(job)

    def recommend(self, observation: Observation) -> Recommendation:
        observation = self._known.complete(observation)
        current, budget = observation.plan, self._settings.budget
        if not observation.has_backpressure:
            return Recommendation(current, dict.fromkeys(current, "the source rates are met: kept as it is"))
        if budget is not None and current.total >= budget:
            return Recommendation(current, dict.fromkeys(current, f"the budget of {budget} is spent: kept as it is"))
        open_to_growth = (
            key for key in suspects(self.job.dataflow, observation) if current[key] < self.job.limit_of(key)
        )
        bottleneck = next(open_to_growth, None)
        if bottleneck is None:
            return Recommendation(current, dict.fromkeys(current, "every bottleneck is at its limit: kept as it is"))
        plan = current.replace({bottleneck: current[bottleneck] + 1})
        why = dict.fromkeys(current, "not the bottleneck: kept as it is")
        why[bottleneck] = "the bottleneck: one instance more"
        self._known.asked_for(plan)
        figures = {bottleneck: {"busy_share": observation.operators[bottleneck].busy_share}}
        return Recommendation(plan, why, figures)
