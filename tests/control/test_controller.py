"""The loop: stop rule, guards, and an audit trail that survives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamtune.clock import ManualClock
from streamtune.control.audit import AuditTrail, read_audit
from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, OperatorMetrics, Plan
from streamtune.engines.base import Capabilities, Deployment, Engine, MeasurementWindow, NotReady
from streamtune.errors import TuningError
from streamtune.settings import SettingsError
from streamtune.tuners.base import Recommendation, Tuner


def job() -> Job:
    operators = (
        Operator(id="source", type="source", rate=10, parallelism=2),
        Operator(id="work", type="map"),
        Operator(id="sink", type="sink"),
    )
    return Job("loop", Dataflow(operators, (Edge("source", "work"), Edge("work", "sink"))), max_parallelism=40)


class ThresholdEngine(Engine):
    """Backpressured exactly while 'work' has fewer than ``needed`` instances."""

    def __init__(self, needed: int, not_ready: int = 0) -> None:
        self.needed = needed
        self.not_ready = not_ready
        self.rescales: list[Plan] = []
        self.rates: Mapping[str, float] = {"source": 10.0}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("threshold", reports_backpressure=True, live_rescale=True, drives_sources=True)

    def deploy(self, job: Job, plan: Plan) -> Deployment:
        return Deployment("d", job, plan)

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        self.rescales.append(plan)
        return Deployment("d", deployment.job, plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation | NotReady:
        if self.not_ready > 0:
            self.not_ready -= 1
            return NotReady("metrics are at their initial values", retry_after_s=7)
        blocked = 800.0 if deployment.plan["work"] < self.needed else 0.0

        def metrics(key: str) -> OperatorMetrics:
            return OperatorMetrics(
                parallelism=deployment.plan[key],
                records_in_per_s=10,
                records_out_per_s=10,
                busy_ms_per_s=200,
                idle_ms_per_s=800 - (blocked if key == "source" else 0),
                backpressured_ms_per_s=blocked if key == "source" else 0,
            )

        return Observation(
            observed_at=datetime(2026, 1, 1, tzinfo=UTC),
            window_s=window.length_s,
            source_rates=self.rates,
            operators={key: metrics(key) for key in deployment.job.dataflow.index},
        )

    def stop(self, deployment: Deployment) -> None:
        """Nothing to stop."""

    def set_source_rates(self, deployment: Deployment, rates: Mapping[str, float]) -> None:  # noqa: ARG002
        self.rates = dict(rates)


class Scripted(Tuner):
    """Recommends a fixed sequence for 'work'; the last one for ever."""

    name = "scripted"

    def __init__(self, *degrees: int, others: Mapping[str, int] | None = None, provisional: int = 0) -> None:
        super().__init__(job())
        self.degrees = list(degrees)
        self.provisional = provisional
        self.others = dict(others or {})
        self.learned = 0

    def learn(self, observation: Observation) -> None:  # noqa: ARG002
        self.learned += 1

    def recommend(self, observation: Observation) -> Recommendation:
        degree = self.degrees.pop(0) if len(self.degrees) > 1 else self.degrees[0]
        plan = observation.plan.replace({"work": degree, **self.others})
        self.provisional -= 1
        return Recommendation(
            plan, {key: f"script says {plan[key]}" for key in plan}, provisional=self.provisional >= 0
        )


def tuned(engine: ThresholdEngine, tuner: Tuner, **options: object) -> tuple[Controller, object]:
    controller = Controller(engine, tuner, clock=ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), **options)  # type: ignore[arg-type]
    return controller, controller.tune(engine.deploy(tuner.job, tuner.job.initial_plan))


def test_it_stops_when_backpressure_is_gone() -> None:
    engine, tuner = ThresholdEngine(needed=4), Scripted(2, 3, 4, 9)
    _, outcome = tuned(engine, tuner)
    assert [plan["work"] for plan in engine.rescales] == [2, 3, 4]
    assert (outcome.reconfigurations, outcome.stop_reason, outcome.backpressure) == (3, "no_backpressure", False)
    assert outcome.backpressure_seen == 3  # at 1, 2 and 3
    assert tuner.learned == 4


def test_it_stops_when_the_recommendation_is_what_runs() -> None:
    engine = ThresholdEngine(needed=4)
    _, outcome = tuned(engine, Scripted(2, 2))
    assert (outcome.reconfigurations, outcome.stop_reason, outcome.backpressure) == (1, "unchanged", True)


def test_the_bound_always_holds() -> None:
    engine = ThresholdEngine(needed=99)
    _, outcome = tuned(engine, Scripted(*range(2, 40)), guards=Guards(max_reconfigurations=5))
    assert (outcome.reconfigurations, outcome.stop_reason) == (5, "bound")
    assert len(engine.rescales) == 5


def test_a_provisional_plan_is_asked_about_again_whatever_is_seen() -> None:
    """Both 20 and 10 end backpressure, but the tuner deploys them to learn: only 5, which is final, ends tuning."""
    engine, tuner = ThresholdEngine(needed=4), Scripted(20, 10, 5, 9, provisional=2)
    _, outcome = tuned(engine, tuner)
    assert [plan["work"] for plan in engine.rescales] == [20, 10, 5]
    assert (outcome.reconfigurations, outcome.stop_reason) == (3, "no_backpressure")


def test_provisional_plans_do_not_lift_the_bound() -> None:
    engine = ThresholdEngine(needed=1)
    _, outcome = tuned(engine, Scripted(*range(2, 40), provisional=99), guards=Guards(max_reconfigurations=5))
    assert (outcome.reconfigurations, outcome.stop_reason, len(engine.rescales)) == (5, "bound", 5)
    _, outcome = tuned(ThresholdEngine(needed=1), Scripted(2, 2, provisional=99))
    assert (outcome.reconfigurations, outcome.stop_reason) == (1, "unchanged")


def test_a_dry_run_touches_nothing() -> None:
    engine = ThresholdEngine(needed=4)
    _, outcome = tuned(engine, Scripted(4), guards=Guards(dry_run=True))
    assert engine.rescales == []
    assert (outcome.stop_reason, outcome.recommendation["work"]) == ("dry_run", 4)


def test_guards_hold_whatever_is_recommended(tmp_path: Path) -> None:
    engine, path = ThresholdEngine(needed=4), tmp_path / "audit.jsonl"
    guards = Guards(max_parallelism=6, min_parallelism=2, exclude=frozenset({"sink"}))
    tuner = Scripted(30, others={"sink": 7, "source": 9})
    _, outcome = tuned(engine, tuner, guards=guards, audit=AuditTrail(path))
    assert dict(outcome.deployment.plan) == {"source": 2, "work": 6, "sink": 1}
    (decision,) = [event for event in read_audit(path) if event["event"] == "recommended"]
    assert decision["recommended"] == {"source": 9, "work": 30, "sink": 7}
    assert decision["chosen"] == {"source": 2, "work": 6, "sink": 1}
    assert decision["held_back"] == {
        "source": "9 was recommended, but the operator is excluded",
        "work": "30 was recommended, the limits are 2 to 6",
        "sink": "7 was recommended, but the operator is excluded",
    }


def test_guards_are_checked_before_anything_starts() -> None:
    with pytest.raises(TuningError, match="cannot exclude 'snik': the operators of 'loop' are source, work, sink"):
        Controller(ThresholdEngine(1), Scripted(1), Guards(exclude=frozenset({"snik"})))
    with pytest.raises(SettingsError, match="max_parallelism must be at least min_parallelism 4, but got 3"):
        Guards(min_parallelism=4, max_parallelism=3)
    with pytest.raises(SettingsError, match="max_reconfigurations must be at least 1, but got 0"):
        Guards(max_reconfigurations=0)


def test_not_ready_is_waited_for_and_then_given_up() -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    engine = ThresholdEngine(needed=1, not_ready=3)
    Controller(engine, Scripted(1), clock=clock).tune(engine.deploy(job(), job().initial_plan))
    assert clock.now() == datetime(2026, 1, 1, 0, 0, 21, tzinfo=UTC)  # three times 7 s
    stuck = ThresholdEngine(needed=1, not_ready=math.inf)  # type: ignore[arg-type]
    with pytest.raises(TuningError, match="no usable metrics in 20 attempts"):
        Controller(stuck, Scripted(1), clock=clock).tune(stuck.deploy(job(), job().initial_plan))


def test_the_trail_tells_why_each_number_was_chosen(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    tuned(ThresholdEngine(needed=3), Scripted(2, 3), audit=AuditTrail(path))
    events = read_audit(path)
    assert [event["event"] for event in events] == [
        "observed",
        "recommended",
        "deploying",
        "deployed",
        "observed",
        "recommended",
        "deploying",
        "deployed",
        "observed",
        "stopped",
    ]
    assert events[0]["backpressured"] == ["source"]
    assert events[1]["why"]["work"] == "script says 2"
    assert events[-1]["reason"] == "no_backpressure"
    assert events[-1]["plan"] == {"source": 2, "work": 3, "sink": 1}


def test_a_trail_cut_short_is_still_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"event": "observed"}\n{"event": "recomm')
    with AuditTrail(path) as trail:
        trail.write("stopped", {"reason": "unchanged"})
    assert [event["event"] for event in read_audit(path)] == ["observed", "stopped"]
