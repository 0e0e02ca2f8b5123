"""ContTune: continuous tuning by conservative Bayesian optimisation (Lian et al., VLDB 2023)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Literal

from streamtune.dataflow import Job, Observation, Plan
from streamtune.readings.metrics import LastKnownPlan, processing_ability
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.gaussian_process import GaussianProcess
from streamtune.tuners.settings import ContTuneSettings

_ROUNDING = 1e-9
Phase = Literal["watching", "big", "small"]


class ContTune(Tuner):
    """The Big-small algorithm. Processing ability PA = observed input rate / share of useful time.

    *Big*, while the job is under-provisioned: all operators to p_max, the largest parallelism in the job's own
    history; if all are there already, twice that. The input rates then seen are the demand λ of every operator.

    *Small*, each operator alone: a Gaussian process over its history (p, mean of the last K values of PA there).
    p_acq = the smallest p in 1..p_max whose posterior mean reaches λ. If p_acq is at most α away from a parallelism
    that was tried, take it; else the linear answer ⌈λ / (PA/p)⌉ from what runs now, as DS2 would.

    How that maps to our loop, which asks again only while there is backpressure:

    - under-provisioned → Big, as a *provisional* recommendation, so that the loop comes back without backpressure too;
      still under-provisioned → Big again, with p_max doubled up to the job's limit;
    - then Small, not provisional: the tuning process ends when backpressure is gone; else Small again for the same
      λ with what was just observed in the history (every observation reaches ``learn`` first);
    - over-provisioned at the start → Small at once: without backpressure the rates seen are the demand;
    - neither → what runs stays.

    Big and Small count as one reconfiguration each, as they do in the paper. Another source rate starts over; the
    history stays. Sources are left alone. At the job's limit with backpressure left, Small serves what got through.
    """

    name = "conttune"

    def __init__(self, job: Job, settings: ContTuneSettings | None = None) -> None:
        super().__init__(job)
        self._settings = settings or ContTuneSettings()
        self._known = LastKnownPlan(job)
        self._tuned = tuple(operator.id for operator in job.dataflow.operators if not operator.is_source)
        self._abilities: dict[str, dict[int, deque[float]]] = {key: {} for key in self._tuned}
        self._largest = 1
        self._phase: Phase = "watching"
        self._rates: Mapping[str, float] | None = None
        self._demand: dict[str, float] = {}

    def learn(self, observation: Observation) -> None:
        for key in self._tuned:
            metrics = observation.operators.get(key)
            if metrics is None:
                continue
            self._largest = max(self._largest, metrics.parallelism)
            ability = processing_ability(metrics)
            if ability is not None:
                kept = self._abilities[key].setdefault(metrics.parallelism, deque(maxlen=self._settings.remembered))
                kept.append(ability)

    def recommend(self, observation: Observation) -> Recommendation:
        observation = self._known.complete(observation)
        if self._rates != observation.source_rates:
            self._rates, self._phase = dict(observation.source_rates), "watching"
        recommendation = self._next(observation)
        self._known.asked_for(recommendation.plan)
        return recommendation

    def _next(self, observation: Observation) -> Recommendation:
        short = self._is_under_provisioned(observation)
        if short and self._phase != "small":
            larger = self._big_plan(observation.plan)
            if larger != observation.plan:
                self._phase = "big"
                why = dict.fromkeys(larger, "a source keeps its parallelism")
                why |= {key: f"Big: backpressure, so all operators go to {larger[key]}" for key in self._tuned}
                return Recommendation(larger, why, provisional=True)
        if self._phase == "big" or short or self._is_over_provisioned(observation):
            if not (short and self._phase == "small"):
                self._demand = {key: observation.operators[key].records_in_per_s for key in self._tuned}
            self._phase = "small"
            return self._small(observation)
        why = dict.fromkeys(observation.plan, "neither under- nor over-provisioned: kept as it is")
        return Recommendation(observation.plan, why)

    def _is_under_provisioned(self, observation: Observation) -> bool:
        """An operator whose load is unknown may be the busy one."""
        return observation.has_backpressure and any(
            not observation.operators[key].busy_share <= self._settings.upper_limit for key in self._tuned
        )

    def _is_over_provisioned(self, observation: Observation) -> bool:
        return not observation.has_backpressure and any(
            observation.operators[key].busy_share < self._settings.lower_limit and observation.plan[key] > 1
            for key in self._tuned
        )

    def _big_plan(self, current: Plan) -> Plan:
        if all(current[key] >= min(self._largest, self.job.limit_of(key)) for key in self._tuned):
            self._largest = 2 * self._largest
        self._largest = min(self._largest, self.job.max_parallelism)
        return current.replace({key: min(self._largest, self.job.limit_of(key)) for key in self._tuned})

    def _small(self, observation: Observation) -> Recommendation:
        why = dict.fromkeys(observation.plan, "a source keeps its parallelism")
        figures: dict[str, dict[str, float]] = {}
        degrees: dict[str, int] = {}
        for key in self._tuned:
            degrees[key], why[key], figures[key] = self._small_step(key, observation)
        return Recommendation(observation.plan.replace(degrees), why, figures)

    def _small_step(self, key: str, observation: Observation) -> tuple[int, str, dict[str, float]]:
        """One operator's parallelism, why, and the figures behind it."""
        demand, metrics = self._demand[key], observation.operators[key]
        if not math.isfinite(demand) or not self._abilities[key]:
            return metrics.parallelism, "Small: no usable rate or busy time was ever measured: kept as it is", {}
        tried = {p: sum(values) / len(values) for p, values in sorted(self._abilities[key].items())}
        acquired, process = self._acquire(tried, demand, self.job.limit_of(key))
        figures = {"demand_per_s": demand, "length_scale": process.length_scale, "tried": float(len(tried))}
        reason = "the process reaches the demand nowhere"
        if acquired is not None:
            distance = min(abs(p - acquired) for p in tried)
            figures |= {"acquired": float(acquired), "distance": float(distance)}
            if distance <= self._settings.alpha:
                return acquired, f"Small: the process says {acquired} serve {demand:,.0f} records/s", figures
            reason = f"{acquired} is {distance} from anything tried"
        nearest = min(tried, key=lambda p: abs(p - metrics.parallelism))
        measured = processing_ability(metrics)
        per_instance = tried[nearest] / nearest if measured is None else measured / metrics.parallelism
        linear = max(1, math.ceil(min(demand / per_instance - _ROUNDING, self.job.limit_of(key))))
        figures["per_instance"] = per_instance
        return linear, f"Small: {reason}, so linear: {demand:,.0f} records/s at {per_instance:,.0f} each", figures

    def _acquire(self, tried: Mapping[int, float], demand: float, limit: int) -> tuple[int | None, GaussianProcess]:
        """p_acq, if the process reaches the demand anywhere, and the process."""
        process = GaussianProcess.climb(list(tried), list(tried.values()))
        candidates = range(1, min(self._largest, limit) + 1)
        means = process.mean(list(candidates))
        enough = (p for p, mean in zip(candidates, means, strict=True) if mean >= demand * (1 - _ROUNDING))
        return next(enough, None), process
