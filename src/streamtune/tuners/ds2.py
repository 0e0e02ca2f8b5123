"""DS2: three steps is all you need (Kalavri et al., OSDI 2018): as published, and as the strong plain rival."""

from __future__ import annotations

import math
from collections.abc import Mapping

from streamtune.dataflow import Job, Observation, OperatorMetrics, Plan
from streamtune.readings.demand import edge_ratios, input_rates
from streamtune.readings.metrics import LastKnownPlan, processing_ability
from streamtune.readings.selectivity import selectivity
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.settings import CalibratedDS2Settings, DS2Settings

# A factor that exceeds a whole number by float noise alone must not cost an instance.
_ROUNDING = 1e-9


class DS2(Tuner):
    """Assumes that capacity is linear in parallelism.

    In topological order, with t_i the records/s that must reach operator i, λ_i its observed input rate, W_i its
    share of useful (busy) time and s_i its selectivity:

        true rate per instance  μ_i = λ_i / (W_i · p_i)
        factor                  f_i = t_i / μ_i,          p_i' = ⌈f_i · (1 + scaling_factor)⌉
        passed on               o_i = t_i · s_i           (the unrounded factor, without the scaling factor)
        t_i = Σ o_j over the predecessors j; a source passes on its nominal rate and keeps its parallelism. Where the
        engine counts the records over an edge, o_j is what goes to i, not all of j's output.

    A plan is proposed when an operator goes up, or down by more than ``ignored_drop``. With a calibration c of i's
    type, W_i is replaced by min(1, W_i / c).
    """

    name = "ds2"

    def __init__(self, job: Job, settings: DS2Settings | None = None) -> None:
        super().__init__(job)
        self._settings = settings or DS2Settings()
        self._known = LastKnownPlan(job)

    def recommend(self, observation: Observation) -> Recommendation:
        observation = self._known.complete(observation)
        current = observation.plan
        degrees: dict[str, int] = {}
        why: dict[str, str] = {}
        figures: dict[str, dict[str, float]] = {}
        flow = self.job.dataflow
        passed = {key: selectivity(observation.operators[key]) for key in flow.index}
        demand = input_rates(flow, passed, observation.source_rates, edge_ratios(observation))
        for key in flow.order:
            metrics = observation.operators[key]
            if flow.operator(key).is_source:
                degrees[key], why[key] = current[key], "a source keeps its parallelism"
                continue
            target, rate = demand[key], self._true_rate_per_instance(key, metrics)
            if rate is None:
                degrees[key], why[key] = current[key], "no usable rate or busy time was measured: kept as it is"
                continue
            factor = target / rate
            degrees[key] = self._degree(factor, self.job.limit_of(key))
            figures[key] = {"target_per_s": target, "true_rate_per_instance": rate, "factor": factor}
            why[key] = f"{target:,.0f} records/s at {rate:,.0f} per instance is {factor:.2f} instances"
        plan = Plan({key: degrees[key] for key in current})
        if not self._worth_a_restart(current, plan):
            why = {key: f"{text}; the change is not worth a restart" for key, text in why.items()}
            plan = current
        self._known.asked_for(plan)
        return Recommendation(plan, why, figures)

    def _true_rate_per_instance(self, key: str, metrics: OperatorMetrics) -> float | None:
        kind = self.job.dataflow.operator(key).type
        ability = processing_ability(metrics, self._settings.calibration.get(kind, 1.0))
        return None if ability is None else ability / metrics.parallelism

    def _degree(self, factor: float, limit: int) -> int:
        needed = factor * (1 + self._settings.scaling_factor) - _ROUNDING
        return max(1, math.ceil(min(needed, limit)))

    def _worth_a_restart(self, current: Plan, wanted: Mapping[str, int]) -> bool:
        return any(
            wanted[key] > current[key] or wanted[key] < current[key] - self._settings.ignored_drop for key in current
        )


class CalibratedDS2(DS2):
    """The strong plain rival: DS2 with 10 % head room and useful time calibrated per operator type from history.

    Without a calibration it is DS2 with head room alone; one that the settings name wins over the given one.
    """

    name = "ds2-calibrated"

    def __init__(
        self,
        job: Job,
        calibration: Mapping[str, float] | None = None,
        settings: CalibratedDS2Settings | None = None,
    ) -> None:
        settings = settings or CalibratedDS2Settings()
        super().__init__(job, settings.replace(calibration={**(calibration or {}), **settings.calibration}))
