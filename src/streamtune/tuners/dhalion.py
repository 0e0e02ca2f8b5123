"""Dhalion: self-regulating stream processing in Heron (Floratou et al., VLDB 2017)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from streamtune.dataflow import Job, Observation, Plan
from streamtune.readings.metrics import LastKnownPlan, hottest_busy_share, suspects
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.settings import DhalionSettings

Direction = Literal["up", "down"]


@dataclass(frozen=True)
class _Action:
    operator: str
    direction: Direction
    suspended: float


class Dhalion(Tuner):
    """Symptom, diagnosis, resolution; one operator at a time.

    *Symptom* backpressure. *Diagnosis*: the busiest reader of a last backpressured operator is under-provisioned, or
    skewed if its hottest subtask stands out; slow instances need metrics per subtask, which an observation does not
    have. *Resolution*: with s the share of time under backpressure, the load that could not be handled is s / (1 − s)
    of what was, so

        p' = max(p + 1, ⌈p · (1 + s / (1 − s))⌉) = max(p + 1, ⌈p / (1 − s)⌉)

    Parallelism is all we can change, so skew is resolved in the same way.

    *Time under backpressure.* Heron stops its spouts altogether, so s is the share of the offered records that was
    held back: 1 − read / offered, the worst of the sources upstream (``held_back``). Flink slows sources down instead
    and counts all their waiting as backpressured, even if they are slowed by 1 % only: a source that needs 20 % of its
    time would report s = 0.8 and the operator would be scaled fivefold. ``backpressured_time`` takes that share
    literally; it is also what is left where rates are missing.

    *Scale-down*, without backpressure and with pending packets near zero: the idlest operator to
    max(1, ⌊p · factor⌋). Its recommendation is provisional, for Dhalion goes on with the next operator until none
    idles enough: one reconfiguration per operator and step, by design.

    *Blacklist*: an action that did not help is not repeated while the source rates stay: a scale-up after which the
    same operator is diagnosed with no less held back, a scale-down that brought backpressure.
    """

    name = "dhalion"

    def __init__(self, job: Job, settings: DhalionSettings | None = None) -> None:
        super().__init__(job)
        self._settings = settings or DhalionSettings()
        self._known = LastKnownPlan(job)
        self._rates: Mapping[str, float] | None = None
        self._last: _Action | None = None
        self._blacklist: set[tuple[str, Direction]] = set()
        self._sources_of = _sources_upstream(job)

    def recommend(self, observation: Observation) -> Recommendation:
        observation = self._known.complete(observation)
        if self._rates != observation.source_rates:
            self._rates, self._last, self._blacklist = dict(observation.source_rates), None, set()
        self._judge_last_action(observation)
        self._last = None
        recommendation = self._scale_up(observation) if observation.has_backpressure else self._scale_down(observation)
        self._known.asked_for(recommendation.plan)
        return recommendation

    def _judge_last_action(self, observation: Observation) -> None:
        last = self._last
        if last is None or not observation.has_backpressure:
            return
        diagnosed = suspects(self.job.dataflow, observation)
        still = last.operator in diagnosed[:1] and self._suspended(last.operator, observation) >= last.suspended
        if last.direction == "down" or still:
            self._blacklist.add((last.operator, last.direction))

    def _scale_up(self, observation: Observation) -> Recommendation:
        current = observation.plan
        for key in suspects(self.job.dataflow, observation):
            limit = self.job.limit_of(key)
            if (key, "up") in self._blacklist or current[key] >= limit:
                continue
            suspended = self._suspended(key, observation)
            grown = current[key] / (1 - suspended) if suspended < 1 else math.inf
            degree = max(current[key] + 1, math.ceil(min(grown, limit) - 1e-9))
            self._last = _Action(key, "up", suspended)
            why = _kept(current, "not where the backpressure begins: kept as it is")
            why[key] = (
                f"{self._diagnosis(key, observation)}: input was held back for {suspended:.1%} of the time, "
                f"so {current[key]} become {degree}"
            )
            return Recommendation(current.replace({key: degree}), why, {key: {"suspended_share": suspended}})
        return Recommendation(current, _kept(current, "every remedy is blacklisted or at its limit: kept as it is"))

    def _scale_down(self, observation: Observation) -> Recommendation:
        current, factor = observation.plan, self._settings.scale_down_factor
        idle = {
            key: 1 - hottest_busy_share(observation.operators[key])
            for key in current
            if not self.job.dataflow.operator(key).is_source and current[key] > 1
        }
        idle = {
            key: share for key, share in idle.items() if share > 1 - factor and (key, "down") not in self._blacklist
        }
        if not idle or not self._nothing_pending(observation):
            return Recommendation(current, _kept(current, "no backpressure, and nothing idles enough: kept as it is"))
        key = max(idle, key=idle.__getitem__)
        degree = max(1, math.floor(current[key] * factor + 1e-9))
        self._last = _Action(key, "down", 0.0)
        why = _kept(current, "one operator at a time: kept as it is")
        why[key] = f"over-provisioned: it idles for {idle[key]:.0%} of the time, so {current[key]} become {degree}"
        return Recommendation(current.replace({key: degree}), why, {key: {"idle_share": idle[key]}}, provisional=True)

    def _suspended(self, key: str, observation: Observation) -> float:
        """s: the share of time under backpressure that ``key`` caused."""
        held_back = [self._held_back(source, observation) for source in self._sources_of[key]]
        known = [share for share in held_back if share is not None]
        if self._settings.suspension == "held_back" and known:
            return max(known)
        before = [observation.operators[key].backpressured_share for key in self.job.dataflow.predecessors(key)]
        return max((share for share in before if math.isfinite(share)), default=0.0)

    def _held_back(self, source: str, observation: Observation) -> float | None:
        offered = observation.source_rates.get(source, math.nan)
        taken = observation.operators[source].records_in_per_s
        if not (math.isfinite(offered) and offered > 0 and math.isfinite(taken)):
            return None
        return min(max(0.0, 1 - taken / offered), 1.0)

    def _diagnosis(self, key: str, observation: Observation) -> str:
        metrics = observation.operators[key]
        if hottest_busy_share(metrics) > self._settings.skew_ratio * metrics.busy_share:
            return "skewed"
        return "under-provisioned"

    def _nothing_pending(self, observation: Observation) -> bool:
        """Lag that is not reported counts as none."""
        for source in self.job.dataflow.sources:
            lag = observation.operators[source.id].lag_records
            rate = observation.source_rates.get(source.id, 0.0)
            if lag is not None and lag > self._settings.near_zero_lag_s * rate:
                return False
        return True


def _kept(current: Plan, reason: str) -> dict[str, str]:
    return dict.fromkeys(current, reason)


def _sources_upstream(job: Job) -> dict[str, frozenset[str]]:
    """Operator id → the sources whose records reach it."""
    found: dict[str, frozenset[str]] = {}
    for key in job.dataflow.order:
        before = (found[other] for other in job.dataflow.predecessors(key))
        found[key] = frozenset({key}) if job.dataflow.operator(key).is_source else frozenset().union(*before)
    return found
