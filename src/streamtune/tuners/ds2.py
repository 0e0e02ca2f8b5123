"""DS2: three steps is all you need (Kalavri et al., OSDI 2018), as published."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from streamtune.dataflow import Job, Observation, OperatorMetrics, ParallelismPlan
from streamtune.errors import TuningError
from streamtune.tuners.base import Recommendation, Tuner

# A factor that exceeds a whole number by float noise alone must not cost an instance.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class DS2Settings:
    """``scaling_factor`` is DS2's head room (published: 0); ``ignored_drop`` the largest drop not worth a restart."""

    scaling_factor: float = 0.0
    ignored_drop: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.scaling_factor < 10:
            raise TuningError(f"scaling_factor must be in [0, 10), but got {self.scaling_factor!r}")
        if self.ignored_drop < 0:
            raise TuningError(f"ignored_drop must be at least 0, but got {self.ignored_drop!r}")


class DS2(Tuner):
    """Assumes that capacity is linear in parallelism.

    In topological order, with t_i the records/s that must reach operator i, λ_i its observed input rate, W_i its
    share of useful (busy) time and s_i its selectivity:

        true rate per instance  μ_i = λ_i / (W_i · p_i)
        factor                  f_i = t_i / μ_i,          p_i' = ⌈f_i · (1 + scaling_factor)⌉
        passed on               o_i = t_i · s_i           (the unrounded factor, without the scaling factor)
        t_i = Σ o_j over the predecessors j; a source passes on its nominal rate and keeps its parallelism.

    A plan is proposed when an operator goes up, or down by more than ``ignored_drop``.
    """

    name = "ds2"

    def __init__(self, job: Job, settings: DS2Settings | None = None) -> None:
        super().__init__(job)
        self._settings = settings or DS2Settings()

    def recommend(self, observation: Observation) -> Recommendation:
        current = observation.plan
        degrees: dict[str, int] = {}
        why: dict[str, str] = {}
        figures: dict[str, dict[str, float]] = {}
        passed_on: dict[str, float] = {}
        for key in self.job.dataflow.order:
            metrics = observation.operators[key]
            selectivity = _selectivity(metrics)
            if key in observation.source_rates:
                passed_on[key] = observation.source_rates[key] * (selectivity if selectivity is not None else 1.0)
                degrees[key], why[key] = current[key], "a source keeps its parallelism"
                continue
            target = sum(passed_on[before] for before in self.job.dataflow.predecessors(key))
            rate = _true_rate_per_instance(metrics)
            passed_on[key] = target * (selectivity if selectivity is not None else 1.0)
            if rate is None:
                degrees[key], why[key] = current[key], "no usable rate or busy time was measured: kept as it is"
                continue
            factor = target / rate
            degrees[key] = self._degree(factor)
            figures[key] = {"target_per_s": target, "true_rate_per_instance": rate, "factor": factor}
            why[key] = f"{target:,.0f} records/s at {rate:,.0f} per instance is {factor:.2f} instances"
        plan = ParallelismPlan({key: degrees[key] for key in current})
        if not self._worth_a_restart(current, plan):
            why = {key: f"{text}; the change is not worth a restart" for key, text in why.items()}
            plan = current
        return Recommendation(plan, why, figures)

    def _degree(self, factor: float) -> int:
        needed = math.ceil(factor * (1 + self._settings.scaling_factor) - _ROUNDING)
        return min(max(1, needed), self.job.max_parallelism)

    def _worth_a_restart(self, current: ParallelismPlan, wanted: Mapping[str, int]) -> bool:
        return any(
            wanted[key] > current[key] or wanted[key] < current[key] - self._settings.ignored_drop for key in current
        )


def _selectivity(metrics: OperatorMetrics) -> float | None:
    if metrics.records_in_per_s > 0 and math.isfinite(metrics.records_out_per_s):
        return metrics.records_out_per_s / metrics.records_in_per_s
    return None


def _true_rate_per_instance(metrics: OperatorMetrics) -> float | None:
    """Records/s that one instance serves while it is busy."""
    useful = metrics.busy_share
    if not (math.isfinite(useful) and useful > 0 and metrics.records_in_per_s > 0):
        return None
    return metrics.records_in_per_s / useful / metrics.parallelism
