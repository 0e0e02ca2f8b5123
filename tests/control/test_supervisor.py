"""Many jobs on one clock: nobody waits for anybody else, bounds hold, and a job that fails ends alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamtune.clock import ManualClock, Steps
from streamtune.control.audit import AuditTrail, read_audit
from streamtune.control.controller import Controller, Guards, Moment
from streamtune.control.recording import RunRecorder
from streamtune.control.supervisor import Supervisor, SupervisorSettings
from streamtune.dataflow import Dataflow, Edge, Instance, Job, Observation, Operator, OperatorMetrics, Plan, Run
from streamtune.engines.base import (
    Capabilities,
    Deployment,
    Engine,
    MeasurementWindow,
    NotReady,
    RescaleFailedError,
)
from streamtune.errors import EngineError
from streamtune.tuners.base import Recommendation, Tuner

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = MeasurementWindow(settle_s=10.0, length_s=50.0)


def job_called(name: str) -> Job:
    operators = (Operator(id="source", type="source", rate=100), Operator(id="work", type="map"))
    return Job(name, Dataflow(operators, (Edge("source", "work"),)), max_parallelism=40)


class SteppingEngine(Engine):
    """One instance of 'work' serves 100 records/s. A window takes its time in steps; ``rate_at`` moves the rate."""

    def __init__(self, clock: ManualClock, rates: Mapping[int, float] | None = None) -> None:
        self.clock = clock
        self.rates = rates or {0: 100.0}
        self.rescaled_at: list[float] = []
        self.slots: int | None = None
        self.breaks: str | None = None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("stepping", reports_backpressure=True, live_rescale=True, drives_sources=False)

    @property
    def now_s(self) -> float:
        return (self.clock.now() - START).total_seconds()

    def deploy(self, job: Job, plan: Plan) -> Deployment:
        return Deployment(job.name, job, plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation | NotReady:  # noqa: ARG002
        raise AssertionError("a supervisor observes in steps")

    def observing(self, deployment: Deployment, window: MeasurementWindow) -> Steps[Observation | NotReady]:
        yield window.settle_s
        yield window.length_s
        if self.breaks == "observe":
            raise EngineError(f"{deployment.id} is FAILED")
        rate = [rate for since, rate in sorted(self.rates.items()) if since <= self.now_s][-1]
        work = deployment.plan["work"]
        load = rate / (100.0 * work)
        held = 1000.0 * max(0.0, 1 - 1 / load)
        return Observation(
            observed_at=self.clock.now(),
            window_s=window.length_s,
            source_rates={"source": rate},
            operators={
                "source": OperatorMetrics(
                    parallelism=1,
                    records_in_per_s=0.0,
                    records_out_per_s=min(rate, 100.0 * work),
                    busy_ms_per_s=0.0,
                    idle_ms_per_s=1000.0 - held,
                    backpressured_ms_per_s=held,
                ),
                "work": OperatorMetrics(
                    parallelism=work,
                    records_in_per_s=min(rate, 100.0 * work),
                    records_out_per_s=0.0,
                    busy_ms_per_s=1000 * min(1.0, load),
                    idle_ms_per_s=1000 - 1000 * min(1.0, load),
                    backpressured_ms_per_s=0.0,
                ),
            },
        )

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        self.rescaled_at.append(self.now_s)
        if self.breaks == "rescale":
            raise RescaleFailedError("the rescale did not complete. The job runs on", is_running=True)
        return Deployment(deployment.id, deployment.job, plan)

    def stop(self, deployment: Deployment) -> None:
        """Nothing to stop."""

    def slots_in_reach(self, deployment: Deployment) -> int | None:  # noqa: ARG002
        return self.slots

    def state_of(self, deployment: Deployment) -> Mapping[str, object]:  # noqa: ARG002
        return {"job_state": "RUNNING"}


class Enough(Tuner):
    """As many instances as the rate needs at 100 records/s each."""

    name = "enough"

    def recommend(self, observation: Observation) -> Recommendation:
        need = -(-int(observation.source_rates["source"]) // 100)
        return Recommendation(Plan({"source": 1, "work": max(1, need)}))


def supervised(
    engines: Mapping[str, SteppingEngine],
    clock: ManualClock,
    guards: Guards | None = None,
    audit: AuditTrail | None = None,
    **settings: float | tuple[str, ...],
) -> Supervisor:
    supervisor = Supervisor(SupervisorSettings(**settings), clock)  # type: ignore[arg-type]
    for name, engine in engines.items():
        job = job_called(name)
        controller = Controller(engine, Enough(job), guards or Guards(), WINDOW, audit or AuditTrail(None), clock)
        supervisor.add(controller, engine.deploy(job, job.initial_plan))
    return supervisor


def test_a_hundred_jobs_take_as_long_as_one() -> None:
    """One process: observe (60 s), rescale at once, observe (60 s). Side by side they all end after 120 s."""
    clock = ManualClock(START)
    engines = {f"job-{number}": SteppingEngine(clock, {0: 100.0 * (1 + number % 7)}) for number in range(100)}
    jobs = supervised(engines, clock).run()
    assert clock.now() - START == timedelta(seconds=120)
    assert [job.outcomes[0].deployment.plan["work"] for job in jobs] == [1 + number % 7 for number in range(100)]
    assert all(job.error is None for job in jobs)


def test_a_job_that_fails_ends_alone(tmp_path: Path) -> None:
    clock = ManualClock(START)
    engines = {"well": SteppingEngine(clock, {0: 300.0}), "ill": SteppingEngine(clock)}
    engines["ill"].breaks = "observe"
    with AuditTrail(tmp_path / "audit.jsonl") as audit:
        well, ill = supervised(engines, clock, audit=audit, watch_s=600.0).run()
    assert str(ill.error) == "ill is FAILED"
    assert well.error is None
    assert well.deployment.plan["work"] == 3
    failed = [event for event in read_audit(tmp_path / "audit.jsonl") if event["event"] == "failed"]
    assert failed == [{"event": "failed", "error": "ill is FAILED", "job_state": "RUNNING"}]


def test_watching_tunes_again_when_rates_move_and_not_before() -> None:
    """100/s, then 104/s (within a tenth), then 900/s from 1,000 s on."""
    clock = ManualClock(START)
    engine = SteppingEngine(clock, {0: 100.0, 400: 104.0, 1000: 900.0})
    # At 104/s one instance is 4 % short, which is below the 10 % that count as backpressure.
    [job] = supervised({"job": engine}, clock, watch_s=2000.0).run()
    assert [outcome.deployment.plan["work"] for outcome in job.outcomes] == [1, 9]
    assert engine.rescaled_at[0] > 1000
    assert clock.now() - START >= timedelta(seconds=2000)


def test_the_bound_per_hour_is_each_jobs_own() -> None:
    """The rate flips every ten minutes; two changes an hour, four hours: eight a job at the most, for both jobs."""
    clock = ManualClock(START)
    flips = {600 * number: 200.0 if number % 2 else 900.0 for number in range(40)}
    engines = {name: SteppingEngine(clock, flips) for name in ("a", "b")}
    supervised(engines, clock, watch_s=4 * 3600.0, max_per_hour=2).run()
    for engine in engines.values():
        assert len(engine.rescaled_at) == 8
        for first, third in zip(engine.rescaled_at, engine.rescaled_at[2:], strict=False):
            assert third - first >= 3600


def test_a_failed_rescale_counts_and_the_watch_goes_on() -> None:
    clock = ManualClock(START)
    engine = SteppingEngine(clock, {0: 500.0})
    engine.breaks = "rescale"
    [job] = supervised({"job": engine}, clock, watch_s=1800.0, max_per_hour=3).run()
    assert job.error is None
    assert len(engine.rescaled_at) == 3


def test_without_a_watch_a_failed_rescale_is_the_end() -> None:
    clock = ManualClock(START)
    engine = SteppingEngine(clock, {0: 500.0})
    engine.breaks = "rescale"
    supervisor, told = supervised({"job": engine}, clock), list[str]()
    supervisor.jobs[0].tell = told.append
    [job] = supervisor.run()
    assert isinstance(job.error, RescaleFailedError)
    assert not told, "the error is said once, where the command ends"


def test_an_excluded_period_is_told_and_nothing_is_changed() -> None:
    """Without a watch tuning ended without a word."""
    clock, told = ManualClock(START), list[str]()
    engine = SteppingEngine(clock, {0: 500.0})
    supervisor = supervised({"job": engine}, clock, excluded_periods=("22:00-02:00",))
    supervisor.jobs[0].tell = told.append
    [job] = supervisor.run()
    assert (job.outcomes, job.error, engine.rescaled_at) == ([], None, [])
    assert told == [
        "nothing is changed at 00:00 UTC, in the excluded period 22:00-02:00: tune it later, or watch it (--watch-s)"
    ]


def test_a_period_that_begins_while_a_job_is_tuned_holds_it_and_ends(tmp_path: Path) -> None:
    """From 00:01 to 00:30, while the first window lasts: a plan is made, held, and applied half an hour later."""
    clock, told = ManualClock(START), list[str]()
    engine = SteppingEngine(clock, {0: 500.0})
    with AuditTrail(tmp_path / "audit.jsonl") as audit:
        supervisor = supervised({"job": engine}, clock, audit=audit, watch_s=3600.0, excluded_periods=("00:01-00:30",))
        supervisor.jobs[0].tell = told.append
        [job] = supervisor.run()
    assert [outcome.stop_reason for outcome in job.outcomes] == ["held", "no_backpressure"]
    assert job.outcomes[0].recommendation["work"] == 5
    assert 1800 <= engine.rescaled_at[0] <= 1800 + 3 * 60
    assert len(engine.rescaled_at) == len(told) == 1
    assert {event.get("reason") for event in read_audit(tmp_path / "audit.jsonl") if event["event"] == "held"} == {
        "excluded_period"
    }


def test_slots_in_reach_bound_a_plan_but_never_below_what_runs() -> None:
    clock = ManualClock(START)
    engine = SteppingEngine(clock, {0: 900.0})
    engine.slots = 4
    [job] = supervised({"job": engine}, clock).run()
    assert job.outcomes[0].deployment.plan["work"] == 4


def test_a_part_of_a_plan_that_the_engine_cannot_apply_is_refused() -> None:
    class Placing(Enough):
        def recommend(self, observation: Observation) -> Recommendation:
            plan = super().recommend(observation).plan
            return Recommendation(plan.replace(placement={Instance("work", 0): "host-1"}))

    clock = ManualClock(START)
    engine, job = SteppingEngine(clock, {0: 300.0}), job_called("job")
    controller = Controller(engine, Placing(job), clock=clock, window=WINDOW)
    with pytest.raises(EngineError, match="stepping cannot apply the placement of a plan, it applies parallelism:"):
        controller.tune(engine.deploy(job, job.initial_plan))
    assert engine.rescaled_at == []


def test_what_is_observed_goes_to_the_history_too(tmp_path: Path) -> None:
    """Two observations of the tuning process, and those of the watch; each a record that reads back."""
    clock = ManualClock(START)
    engine, job, told = SteppingEngine(clock, {0: 300.0}), job_called("job"), list[Moment]()
    controller = Controller(engine, Enough(job), Guards(), WINDOW, clock=clock)
    recorder = RunRecorder(tmp_path / "runs", job, "stepping", told.append)
    controller.watch = recorder.watch
    supervisor = Supervisor(SupervisorSettings(watch_s=300.0), clock)
    supervisor.add(controller, engine.deploy(job, job.initial_plan))
    supervisor.run()
    runs = [
        Run.model_validate_json(line)
        for file in sorted((tmp_path / "runs").glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    seen = [moment.observation for moment in told if moment.observation is not None]
    assert len(runs) == len(seen) == recorder.written == 5
    assert [run.observation for run in sorted(runs, key=lambda run: run.observed_at)] == seen
    assert len({run.run_id for run in runs}) == 5
