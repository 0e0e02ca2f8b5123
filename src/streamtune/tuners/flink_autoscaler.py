"""The autoscaler of the Flink Kubernetes operator (1.16 line): what users run today."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from streamtune.dataflow import Job, Observation, OperatorMetrics
from streamtune.readings.metrics import LastKnownPlan, hottest_busy_share
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.settings import FlinkAutoscalerSettings


def _option(key: str, default: float, description: str) -> float:
    """A setting with the autoscaler's own key (below ``job.autoscaler.``), its default and what it does."""
    chosen: float = field(default=default, metadata={"key": key, "description": description})
    return chosen


@dataclass(frozen=True)
class Target:
    """What must reach a vertex: the records/s offered, and those that work off the backlog in time."""

    rate_per_s: float
    catch_up_per_s: float


@dataclass(frozen=True)
class Proposal:
    """A vertex's next parallelism, and whether it is outside its bounds now."""

    parallelism: int
    outside_bounds: bool


@dataclass(frozen=True)
class _Waiting:
    """Scale-downs of one vertex that wait for their interval, each with its time."""

    since: datetime
    proposals: tuple[tuple[datetime, Proposal], ...]


def capacity_for(target: Target, utilization: float, settings: FlinkAutoscalerSettings, *, restart: bool) -> float:
    """cap(U, restart) = round(C + [restart] · T · restart time / catch-up + T / U), records/s; halves round up.

    >>> capacity_for(Target(1000, 50), 0.7, FlinkAutoscalerSettings(), restart=True)  # 50 + 166.7 + 1428.6
    1645.0
    """
    meanwhile = target.rate_per_s * settings.restart_s / settings.catch_up_s if restart else 0.0
    return float(math.floor(target.catch_up_per_s + meanwhile + target.rate_per_s / utilization + 0.5))


def align(wanted: int, current: int, key_groups: int, upper: int) -> int:
    """The first x from ``wanted`` upward that spreads the key groups better: N mod x = 0 or N div x < N div wanted.

    When scaling down it does not go above ``current``. If there is no such x, ``wanted``.

    >>> align(34, 20, 128, 200), align(34, 20, 100, 200), align(34, 40, 100, 200)
    (43, 50, 34)
    """
    highest = min(key_groups, upper, current) if wanted < current else min(key_groups, upper)
    for candidate in range(wanted, highest + 1):
        if key_groups % candidate == 0 or key_groups // candidate < key_groups // wanted:
            return candidate
    return wanted


class FlinkAutoscaler(Tuner):
    """Vertex by vertex: how much must it process, how much could it, and is the difference worth a restart.

    *True processing rate.* B = input rate / busy share of the hottest subtask. A lagging source also has
    O = input rate / (1 − backpressured share); TPR = O if B is missing, infinite or > 1.15 · O, else B. It is infinite
    where the busy time is 0, and unknown only where both are missing.

    *Target.* A source: T = input rate + lag growth, which is the offered rate that an observation carries (where it
    carries none, the growth of the lag since the last one); C = lag / catch-up duration. Downstream, summed over the
    inputs u: T_v = Σ T_u · k, C_v = Σ C_u · k with k the records over the edge per record into u.

    *Decision.* f = cap(target, restart) / TPR within [1 − 0.6, 1 + 100,000]; q = ⌈f · p⌉ within bounds; aligned to the
    key groups where an input is hashed. A vertex is outside its bounds when TPR < cap(U_max, no restart) or
    TPR > cap(U_min, restart). Nothing happens unless a vertex that would change is; then all that would change do.
    A scale-down first waits for its interval, then takes the largest recommendation in it.

    *What maps how.* An ``Observation`` is the evaluated metric window: the published 5 min of stabilisation and 15 min
    of window are the controller's ``MeasurementWindow(settle_s, length_s)``, the same for all tuners. Number of key
    groups N = the job's limit (Flink's own default is a power of two from 128 upward: with N = 128 alignment is
    somewhat cheaper than with 100). A step cut by scale-down.max-factor is provisional: the autoscaler would go on at
    its next evaluation. Ineffective-scaling detection and observed scalability are off as published, and not built.
    """

    name = "flink-autoscaler"

    def __init__(self, job: Job, settings: FlinkAutoscalerSettings | None = None) -> None:
        super().__init__(job)
        self._settings = settings or FlinkAutoscalerSettings()
        self._known = LastKnownPlan(job)
        self._waiting: dict[str, _Waiting] = {}
        self._lag_before: dict[str, tuple[datetime, float]] = {}
        self._lag_growth: dict[str, float] = {}
        self._hashed = {edge.target for edge in job.dataflow.edges if edge.partitioning == "hash"}

    def learn(self, observation: Observation) -> None:
        """Note how fast the lag of every source grows."""
        for source in self.job.dataflow.sources:
            metrics = observation.operators.get(source.id)
            lag = metrics.lag_records if metrics is not None else None
            if lag is None or not math.isfinite(lag):
                continue
            before = self._lag_before.get(source.id)
            if before is not None and observation.observed_at > before[0]:
                elapsed_s = (observation.observed_at - before[0]).total_seconds()
                self._lag_growth[source.id] = max(0.0, (lag - before[1]) / elapsed_s)
            self._lag_before[source.id] = (observation.observed_at, lag)

    def recommend(self, observation: Observation) -> Recommendation:
        observation = self._known.complete(observation)
        current = observation.plan
        targets = self._targets(observation)
        why: dict[str, str] = {}
        figures: dict[str, dict[str, float]] = {}
        changed: dict[str, Proposal] = {}
        cut = False
        for key in self.job.dataflow.order:
            if self.job.dataflow.operator(key).is_source and not self._settings.tune_sources:
                why[key] = "sources are excluded"
                continue
            rate = self._true_processing_rate(key, observation.operators[key])
            if rate is None or not math.isfinite(targets[key].rate_per_s):
                why[key] = "no usable rate or busy time was measured: kept as it is"
                continue
            wanted, why[key], figures[key] = self._propose(key, current[key], targets[key], rate)
            final = self._after_interval(key, current[key], wanted, observation.observed_at)
            if final.parallelism != wanted.parallelism:
                why[key] += f"; the scale-down waits, {final.parallelism} for now"
            if final.parallelism != current[key]:
                changed[key] = final
                cut = cut or figures[key]["factor"] < 1 - self._settings.scale_down_max_factor
        if not any(proposal.outside_bounds for proposal in changed.values()):
            why = {key: f"{text}; nothing that would change is outside its bounds" for key, text in why.items()}
            return self._answer(Recommendation(current, why, figures))
        self._waiting.clear()
        plan = current.replace({key: proposal.parallelism for key, proposal in changed.items()})
        return self._answer(Recommendation(plan, why, figures, provisional=cut))

    def _answer(self, recommendation: Recommendation) -> Recommendation:
        self._known.asked_for(recommendation.plan)
        return recommendation

    def _targets(self, observation: Observation) -> dict[str, Target]:
        targets: dict[str, Target] = {}
        for key in self.job.dataflow.order:
            if self.job.dataflow.operator(key).is_source:
                targets[key] = self._source_target(key, observation)
                continue
            rate = catch_up = 0.0
            for before in self.job.dataflow.predecessors(key):
                ratio = self._edge_ratio(before, key, observation)
                rate += targets[before].rate_per_s * ratio
                catch_up += targets[before].catch_up_per_s * ratio
            targets[key] = Target(rate, catch_up)
        return targets

    def _source_target(self, key: str, observation: Observation) -> Target:
        metrics = observation.operators[key]
        taken = _or_zero(metrics.records_in_per_s)
        grown = taken + self._lag_growth.get(key, 0.0)
        offered = max(taken, _or_zero(observation.source_rates[key])) if key in observation.source_rates else grown
        return Target(offered, _or_zero(metrics.lag_records) / self._settings.catch_up_s)

    def _edge_ratio(self, before: str, key: str, observation: Observation) -> float:
        """Records over the edge per record into ``before``; NaN where that was not measured.

        The edge's records are ``key``'s input if it has no other; else its input less what its other inputs emit,
        if none of them emits elsewhere too; else what ``before`` emits.
        """
        flow, metrics = self.job.dataflow, observation.operators
        taken = metrics[before].records_in_per_s
        if taken <= 0:
            return 0.0
        counted = observation.edge_rates.get((before, key))
        if counted is not None:
            return counted / taken
        others = [other for other in flow.predecessors(key) if other != before]
        if all(len(flow.successors(other)) == 1 for other in others):
            over_edge = metrics[key].records_in_per_s - sum(metrics[other].records_out_per_s for other in others)
        else:
            over_edge = metrics[before].records_out_per_s
        return max(over_edge, 0.0) / taken

    def _true_processing_rate(self, key: str, metrics: OperatorMetrics) -> float | None:
        taken, busy = metrics.records_in_per_s, hottest_busy_share(metrics)
        if not math.isfinite(taken):
            return None
        by_throughput = self._observed_rate(key, metrics)
        if not math.isfinite(busy):
            return by_throughput
        # An idle vertex could take any rate, as far as its busy time says; a rate of 0 while busy is a number.
        by_busy_time = taken / busy if busy > 0 else math.inf
        if by_throughput is not None and by_busy_time > (1 + self._settings.switch_threshold) * by_throughput:
            return by_throughput
        return by_busy_time

    def _observed_rate(self, key: str, metrics: OperatorMetrics) -> float | None:
        """What a lagging source reads while nothing holds it up."""
        lag, held_up = _or_zero(metrics.lag_records), metrics.backpressured_share
        is_lagging = lag > self._settings.lag_threshold_s * metrics.records_in_per_s
        if not self.job.dataflow.operator(key).is_source or not is_lagging or not held_up < 1:
            return None
        return metrics.records_in_per_s / (1 - held_up)

    def _propose(self, key: str, current: int, target: Target, rate: float) -> tuple[Proposal, str, dict[str, float]]:
        settings = self._settings
        low = settings.utilization_target - settings.utilization_boundary
        high = min(1.0, settings.utilization_target + settings.utilization_boundary)
        needed = capacity_for(target, settings.utilization_target, settings, restart=True)
        outside = rate < capacity_for(target, high, settings, restart=False) or rate > capacity_for(
            target, low, settings, restart=True
        )
        # Nothing asked of a vertex that does nothing leaves it as it is.
        factor = needed / rate if rate > 0 else math.inf if needed > 0 else 1.0
        clamped = min(max(factor, 1 - settings.scale_down_max_factor), 1 + settings.scale_up_max_factor)
        upper = min(self.job.limit_of(key), max(current, settings.vertex_max_parallelism))
        wanted = min(max(math.ceil(clamped * current - 1e-9), min(current, settings.vertex_min_parallelism)), upper)
        if key in self._hashed:
            wanted = align(wanted, current, self.job.limit_of(key), upper)
        figures = {
            "target_per_s": target.rate_per_s,
            "catch_up_per_s": target.catch_up_per_s,
            "true_processing_rate": rate,
            "needed_per_s": needed,
            "factor": factor,
        }
        why = (
            f"{needed:,.0f} records/s are to be within reach and {rate:,.0f} are: {clamped:.2f} times {current} "
            f"is {wanted}, {'outside' if outside else 'within'} its bounds"
        )
        return Proposal(wanted, outside), why, figures

    def _after_interval(self, key: str, current: int, wanted: Proposal, now: datetime) -> Proposal:
        """The proposal itself, unless it is a scale-down that has to wait or that others in its interval exceed."""
        if wanted.parallelism >= current:
            self._waiting.pop(key, None)
            return wanted
        interval = timedelta(seconds=self._settings.scale_down_interval_s)
        if not interval:
            return wanted
        waiting = self._waiting.get(key, _Waiting(now, ()))
        recent = tuple(entry for entry in waiting.proposals if entry[0] >= now - interval)
        waiting = _Waiting(waiting.since, (*recent, (now, wanted)))
        self._waiting[key] = waiting
        if now - interval < waiting.since:
            return Proposal(current, wanted.outside_bounds)
        return max((proposal for _, proposal in waiting.proposals), key=lambda proposal: proposal.parallelism)


def _or_zero(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else 0.0
