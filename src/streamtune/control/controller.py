"""The loop: observe, recommend, deploy, under guards, with every decision written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from streamtune.clock import Clock, Steps, SystemClock, run_steps
from streamtune.control.audit import AuditTrail
from streamtune.control.guards import Guards as Guards
from streamtune.control.guards import is_cut, within_slots
from streamtune.dataflow import Observation, Plan
from streamtune.engines.base import Deployment, Engine, JobCrashedError, MeasurementWindow, NotReady
from streamtune.errors import TuningError, UnhealthyJobError
from streamtune.tuners.base import Recommendation, Tuner

StopReason = Literal["no_backpressure", "unchanged", "bound", "dry_run", "crashed", "rolled_back", "held"]
Watcher = Callable[["Moment"], None]


@dataclass(frozen=True)
class Moment:
    """One point of the story, for live tables and reports: what was seen, and what has just been done.

    ``watched`` is an observation between two tuning processes.
    """

    kind: Literal["observed", "applied", "watched"]
    change: int
    rates: Mapping[str, float]
    plan: Plan
    observation: Observation | None = None


@dataclass(frozen=True)
class Outcome:
    """How one tuning process ended."""

    rates: Mapping[str, float]
    reconfigurations: int
    stop_reason: StopReason
    deployment: Deployment
    observation: Observation
    backpressure_seen: int
    recommendation: Plan

    @property
    def backpressure(self) -> bool:
        """Whether backpressure is left after tuning."""
        return self.observation.has_backpressure


@dataclass
class Controller:
    """Brings one engine and one tuner together.

    A tuning process starts when a source rate changes or backpressure appears. Recommend; if the recommendation is
    what runs, stop; else deploy and observe; stop when there is no backpressure, unless the recommendation was
    provisional, cut by a guard's largest step, or made for a guessed rate: then the tuner is asked again, so that a
    plan that turns out far too large does not stay. The bound on reconfigurations always holds, and nothing is deployed
    once ``may_change`` says no, except what takes a bad plan back. A job that crashes ends the process on its last good
    plan, on which its engine has started it again.

    >>> from streamtune.engines.simulator import Simulator
    >>> from streamtune.tuners import DS2
    >>> from streamtune.workloads import load
    >>> spec = load("nexmark-q1").spec
    >>> engine = Simulator.of(spec)
    >>> controller = Controller(engine, DS2(spec.job), Guards(max_reconfigurations=5))
    >>> deployment = engine.deploy(spec.job, spec.job.initial_plan)
    >>> [outcome.backpressure for outcome in controller.tune_over(deployment, [{"bids": 2e5}, {"bids": 6e5}])]
    [False, False]
    """

    engine: Engine
    tuner: Tuner
    guards: Guards = field(default_factory=Guards)
    window: MeasurementWindow = field(default_factory=MeasurementWindow)
    audit: AuditTrail = field(default_factory=lambda: AuditTrail(None))
    clock: Clock = field(default_factory=SystemClock)
    watch: Watcher = lambda _moment: None
    may_change: Callable[[], bool] = lambda: True  # asked before every deployment

    def __post_init__(self) -> None:
        self.guards.check(self.tuner.job)
        self._change = 0
        self._applied = 0
        self._futile: dict[str, int] = {}

    def tune_over(self, deployment: Deployment, rates: Iterable[Mapping[str, float]]) -> Iterator[Outcome]:
        """One tuning process per change of the source rates, on an engine that drives its sources."""
        for offered in rates:
            try:
                self.engine.set_source_rates(deployment, offered)
            except JobCrashedError as crash:
                deployment = self._note(crash)
            self.audit.write("rates_changed", {"change": self._change, "rates": dict(offered)})
            outcome = self.tune(deployment)
            deployment = outcome.deployment
            yield outcome

    def tune(self, deployment: Deployment) -> Outcome:
        """One tuning process, from the first observation to the stop rule."""
        return run_steps(self.tuning(deployment), self.clock)

    def tuning(self, deployment: Deployment, seen: Observation | None = None) -> Steps[Outcome]:
        """``tune`` in steps, for a supervisor of many jobs; what it has just ``seen`` need not be observed again."""
        self._applied = 0
        self._futile = {}
        try:
            return (yield from self._tune(deployment, seen))
        except JobCrashedError as crash:
            return (yield from self._end_after(crash))

    def _tune(self, deployment: Deployment, seen: Observation | None) -> Steps[Outcome]:
        seen = (yield from self._observe(deployment)) if seen is None else self._taken_in(deployment, seen)
        backpressure_seen = int(seen.has_backpressure)
        reason: StopReason
        while True:
            recommendation = self.tuner.recommend(seen)
            is_guess = bool(seen.guessed_rates)
            wanted = self._without_futile_growth(recommendation.plan, deployment.plan)
            plan, held = self._allowed(deployment, wanted, is_guess=is_guess)
            goes_on = recommendation.provisional or is_guess or is_cut(held)
            self.engine.capabilities.check(plan)
            self._write_decision(seen, recommendation, plan, held)
            if plan == deployment.plan:
                reason = "unchanged"
                break
            if self.guards.dry_run:
                reason = "dry_run"
                break
            if not self.may_change():
                reason = "held"
                break
            before, earlier = deployment.plan, seen
            deployment = yield from self._deploy(deployment, plan)
            found = yield from self._observe_new(deployment)
            if found is not None:
                seen, backpressure_seen = found, backpressure_seen + int(found.has_backpressure)
                self._judge(before, earlier, plan, seen)
            if found is None or self._is_worse(earlier, seen):
                why = "the job is not healthy" if found is None else "less gets through"
                self.audit.write("rolling_back", {"change": self._change, "to": dict(before), "reason": why})
                deployment = yield from self._deploy(deployment, before)
                seen = yield from self._observe(deployment)
                plan, reason = before, "rolled_back"
                break
            if not (seen.has_backpressure or goes_on):
                reason = "no_backpressure"
                break
            if self._applied >= self.guards.max_reconfigurations:
                reason = "bound"
                break
        return self._end(reason, deployment, seen, backpressure_seen, plan)

    def _allowed(self, deployment: Deployment, wanted: Plan, *, is_guess: bool) -> tuple[Plan, dict[str, str]]:
        """What the guards and the slots in reach leave of a plan, and for every operator that is held back, why."""
        current = deployment.plan
        slots = self.engine.slots_in_reach(deployment)  # asked anew: TaskManagers come and go
        plan, held = self.guards.apply(deployment.job, wanted, current, is_guess=is_guess, slots=slots)
        needed = partial(self.engine.slots_needed, deployment)
        return within_slots(plan, current, slots, needed, held), held

    def _observe_new(self, deployment: Deployment) -> Steps[Observation | None]:
        """What a new plan has brought; None where the job does not get healthy on it, and plans may be taken back."""
        try:
            return (yield from self._observe(deployment))
        except UnhealthyJobError:
            if self.guards.roll_back_loss is None:
                raise
            return None

    def _is_worse(self, before: Observation, now: Observation) -> bool:
        """Whether a plan made things worse: held up, and less gets through although no less is offered."""
        loss = self.guards.roll_back_loss
        if loss is None or not now.has_backpressure:
            return False
        as_much = all(now.source_rates.get(key, 0.0) >= 0.95 * rate for key, rate in before.source_rates.items())
        return as_much and _throughput(now) < (1 - loss) * _throughput(before)

    def _judge(self, before: Plan, earlier: Observation, plan: Plan, now: Observation) -> None:
        """Note operators that grew, took hardly more, and hold the job up as before."""
        least = self.guards.ineffective_gain
        if least is None or not (earlier.has_backpressure and now.has_backpressure):
            return
        for key, degree in plan.items():
            grown = degree / before[key] - 1
            taken = earlier.operators[key].records_in_per_s if key in earlier.operators else 0.0
            if grown > 0 and taken > 0 and key in now.operators:
                gained = now.operators[key].records_in_per_s / taken - 1
                if gained < least * grown:
                    self._futile[key] = before[key]
                    self.audit.write("ineffective", {"change": self._change, "operator": key, "gained": gained})

    def _without_futile_growth(self, wanted: Plan, current: Plan) -> Plan:
        futile = {key: current[key] for key in self._futile if wanted[key] > current[key]}
        return wanted.replace(futile) if futile else wanted

    def _end_after(self, crash: JobCrashedError) -> Steps[Outcome]:
        """Nothing is recommended after a crash: look at what runs now, and say so."""
        deployment = self._note(crash)
        seen = yield from self._observe(deployment)
        return self._end("crashed", deployment, seen, int(seen.has_backpressure), deployment.plan)

    def _note(self, crash: JobCrashedError) -> Deployment:
        """Write a crash down; what runs since."""
        plan = dict(crash.deployment.plan)
        self.audit.write("crashed", {"change": self._change, "problem": str(crash), "plan": plan})
        return crash.deployment

    def _end(
        self,
        reason: StopReason,
        deployment: Deployment,
        seen: Observation,
        backpressure_seen: int,
        plan: Plan,
    ) -> Outcome:
        self._write_stop(reason, self._applied, seen, deployment)
        self._change += 1
        return Outcome(dict(seen.source_rates), self._applied, reason, deployment, seen, backpressure_seen, plan)

    def _deploy(self, deployment: Deployment, plan: Plan) -> Steps[Deployment]:
        self.audit.write("deploying", {"change": self._change, "from": dict(deployment.plan), "to": dict(plan)})
        self._applied += 1
        deployment = yield from self.engine.rescaling(deployment, plan)
        self.audit.write("deployed", {"change": self._change, "plan": dict(plan)})
        self.watch(Moment("applied", self._change, {}, plan))
        return deployment

    def _observe(self, deployment: Deployment) -> Steps[Observation]:
        trouble = NotReady("it was never asked")
        for _ in range(self.guards.not_ready_patience):
            seen = yield from self.engine.observing(deployment, self.window)
            if isinstance(seen, Observation):
                return self._taken_in(deployment, seen)
            trouble = seen
            yield self._retry_s(trouble)
        kind = UnhealthyJobError if trouble.is_unhealthy else TuningError
        raise kind(
            f"'{deployment.id}' gave no usable metrics in {self.guards.not_ready_patience} attempts (at last: "
            f"{trouble.reason}): check that the job is running and its metrics are served"
        )

    def _taken_in(self, deployment: Deployment, seen: Observation) -> Observation:
        self.tuner.learn(seen)
        self.audit.write("observed", {"change": self._change, **_summary(seen)})
        self.watch(Moment("observed", self._change, seen.source_rates, deployment.plan, seen))
        return seen

    def _retry_s(self, not_ready: NotReady) -> float:
        self.audit.write("not_ready", {"change": self._change, "reason": not_ready.reason})
        return not_ready.retry_after_s

    def _write_decision(
        self, seen: Observation, recommendation: Recommendation, plan: Plan, held: Mapping[str, str]
    ) -> None:
        self.audit.write(
            "recommended",
            {
                "change": self._change,
                "tuner": self.tuner.name,
                "from": dict(seen.plan),
                "recommended": dict(recommendation.plan),
                "chosen": dict(plan),
                "provisional": recommendation.provisional,
                "why": dict(recommendation.why),
                "figures": {key: dict(values) for key, values in recommendation.figures.items()},
                "held_back": dict(held),
            },
        )

    def _write_stop(self, reason: StopReason, applied: int, seen: Observation, deployment: Deployment) -> None:
        self.audit.write(
            "stopped",
            {
                "change": self._change,
                "reason": reason,
                "reconfigurations": applied,
                "backpressure": seen.has_backpressure,
                "plan": dict(deployment.plan),
                "total_parallelism": deployment.plan.total,
            },
        )


def _throughput(seen: Observation) -> float:
    """What the sources gave out, as far as it was measured."""
    if seen.throughput_per_s is not None:
        return seen.throughput_per_s
    return sum(seen.operators[key].records_out_per_s for key in seen.source_rates if key in seen.operators)


def _summary(seen: Observation) -> dict[str, Any]:
    """An observation as the audit trail keeps it."""
    return {
        "at": seen.observed_at.isoformat(),
        "rates": dict(seen.source_rates),
        **({"rate_origins": dict(seen.rate_origins)} if seen.rate_origins else {}),
        **({"rate_sds": dict(seen.rate_sds)} if seen.rate_sds else {}),
        "backpressured": list(seen.backpressured()),
        "bottlenecks": list(seen.bottlenecks),
        "operators": {
            key: {
                "parallelism": m.parallelism,
                "in_per_s": round(m.records_in_per_s, 3),
                "busy": round(m.busy_share, 4),
                "backpressured": round(m.backpressured_share, 4),
            }
            for key, m in seen.operators.items()
        },
    }
