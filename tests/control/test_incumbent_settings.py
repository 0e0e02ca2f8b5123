"""What users of the Flink autoscaler look for: each setting does what its description says, and is off by default."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamtune.clock import ManualClock
from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.control.settings import SupervisorSettings
from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, OperatorMetrics, Plan
from streamtune.engines.base import Capabilities, Deployment, Engine, MeasurementWindow, NotReady
from streamtune.errors import UnhealthyJobError
from streamtune.settings import SettingsError
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.streamtune import StreamTune, StreamTuneSettings

FLOW = Dataflow(
    (Operator(id="s", type="source", rate=100.0), Operator(id="a", type="map"), Operator(id="b", type="map")),
    (Edge("s", "a"), Edge("a", "b")),
)
JOB = Job("job", FLOW, 50)


def plan(a: int, b: int = 1) -> Plan:
    return Plan({"s": 1, "a": a, "b": b})


def seen(
    of: Plan, *, through: float = 100.0, offered: float = 100.0, busy: float = 0.5, lag: float | None = None
) -> Observation:
    held = 0.0 if through >= offered else 0.5

    def metrics(key: str, share: float, blocked: float = 0.0) -> OperatorMetrics:
        return OperatorMetrics(
            parallelism=of[key],
            records_in_per_s=through,
            records_out_per_s=through,
            busy_ms_per_s=1000 * share,
            idle_ms_per_s=1000 * max(0.0, 1 - share - blocked),
            backpressured_ms_per_s=1000 * blocked,
            lag_records=lag if key == "s" else None,
        )

    return Observation(
        observed_at=datetime(2026, 1, 1, tzinfo=UTC),
        window_s=30,
        source_rates={"s": offered},
        operators={"s": metrics("s", 0.1, held), "a": metrics("a", busy), "b": metrics("b", busy)},
        throughput_per_s=through,
    )


class Scripted(Engine, Tuner):
    """An engine that gets ``through(plan)`` records/s through, and a tuner that always wants ``wanted``."""

    name = "scripted"

    def __init__(self, through: dict[int, float], wanted: list[Plan]) -> None:
        self.job = JOB
        self.through, self.wanted = through, wanted
        self.deployed: list[Plan] = []

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("scripted", reports_backpressure=True, live_rescale=True, drives_sources=False)

    def deploy(self, job: Job, plan: Plan) -> Deployment:
        return Deployment("d", job, plan)

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        self.deployed.append(plan)
        return Deployment("d", deployment.job, plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation | NotReady:  # noqa: ARG002
        if deployment.plan["a"] not in self.through:
            return NotReady("the job is RESTARTING: OutOfMemoryError", is_unhealthy=True)
        return seen(deployment.plan, through=self.through[deployment.plan["a"]], offered=200.0)

    def stop(self, deployment: Deployment) -> None: ...

    def recommend(self, observation: Observation) -> Recommendation:
        return Recommendation(self.wanted.pop(0) if self.wanted else observation.plan)


def test_a_plan_that_made_things_worse_is_taken_back() -> None:
    world = Scripted({2: 150.0, 6: 60.0}, [plan(6)])
    outcome = Controller(world, world, Guards(roll_back_loss=0.2)).tune(Deployment("d", JOB, plan(2)))
    assert outcome.stop_reason == "rolled_back"
    assert [one["a"] for one in world.deployed] == [6, 2]
    assert outcome.deployment.plan == plan(2)
    kept = Scripted({2: 150.0, 6: 60.0}, [plan(6)])
    assert Controller(kept, kept, Guards()).tune(Deployment("d", JOB, plan(2))).deployment.plan == plan(6)


def test_a_plan_on_which_the_job_does_not_get_healthy_is_taken_back() -> None:
    """It restarted again and again on its new plan, and was left to it."""
    guards = Guards(roll_back_loss=0.2, not_ready_patience=3)
    world, clock = Scripted({2: 150.0}, [plan(6)]), ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    outcome = Controller(world, world, guards, clock=clock).tune(Deployment("d", JOB, plan(2)))
    assert outcome.stop_reason == "rolled_back"
    assert [one["a"] for one in world.deployed] == [6, 2]
    left = Scripted({2: 150.0}, [plan(6)])
    with pytest.raises(UnhealthyJobError, match="RESTARTING: OutOfMemoryError"):
        Controller(left, left, Guards(not_ready_patience=3), clock=clock).tune(Deployment("d", JOB, plan(2)))


def test_growth_that_does_not_help_is_not_repeated() -> None:
    world = Scripted({2: 100.0, 8: 101.0, 16: 102.0}, [plan(8), plan(16)])
    outcome = Controller(world, world, Guards(ineffective_gain=0.1)).tune(Deployment("d", JOB, plan(2)))
    assert [one["a"] for one in world.deployed] == [8]
    assert outcome.stop_reason == "unchanged"


def test_quotas_take_growth_back_and_never_what_runs() -> None:
    assert Guards(max_cores=10.0, instance_cores=0.5).quota == 20
    assert Guards(max_memory_mb=4096, instance_memory_mb=1024, max_total=9).quota == 4
    allowed, held = Guards(max_total=12).apply(JOB, plan(12, 6), plan(4, 2))
    assert allowed.total == 12
    assert allowed["b"] > 2
    assert "quota of 12" in held["a"]
    allowed, _ = Guards(max_total=3).apply(JOB, plan(12, 6), plan(4, 2))
    assert allowed == plan(4, 2)


def test_nothing_shrinks_in_the_grace_after_growth() -> None:
    allowed, held = Guards(never_down=True).apply(JOB, plan(2, 8), plan(4, 2))
    assert allowed == plan(4, 8)
    assert "nothing shrinks" in held["a"]


@pytest.mark.parametrize(("hour", "expected"), [(23, True), (1, True), (2, False), (9, True), (12, False)])
def test_excluded_periods(hour: int, expected: bool) -> None:
    settings = SupervisorSettings(excluded_periods=("22:00-02:00", "08:30-10:00"))
    assert settings.is_excluded(datetime(2026, 1, 1, hour, 0 if hour != 9 else 30, tzinfo=UTC)) is expected


def test_a_period_that_is_not_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="a period is written as 22:00-02:00"):
        SupervisorSettings(excluded_periods=("night",))


def needs(observation: Observation, **settings: float) -> int:
    tuner = StreamTune(JOB, StreamTuneSettings.model_validate(settings))
    tuner.learn(observation)
    return tuner.recommend(observation).plan["a"]


def test_target_utilisation_and_its_band() -> None:
    """Eight instances, half busy: four or five are just enough, eight are what a target of 0.5 asks for."""
    watched = seen(plan(8, 8), busy=0.5)
    assert needs(watched) <= 5
    assert needs(watched, target_utilisation=0.5) >= 8
    assert needs(watched, target_utilisation=0.7, utilisation_band=0.3) == 8


def test_backlog_is_worked_off_in_time() -> None:
    """6,000 records wait and 100/s come: within a minute that is twice the rate."""
    behind = seen(plan(4, 4), busy=0.9, lag=6000.0)
    assert needs(behind, catch_up_s=60.0) >= 7
    assert needs(behind, catch_up_s=60.0, restart_s=60.0) > needs(behind, catch_up_s=60.0)
