"""The engine when Flink misbehaves: each fault ends in a clear state. Time is the test's own, so nothing waits."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engines.flink.fake_flink import JOB, VERTICES, Answer, FakeFlink
from streamtune.dataflow import Observation, Plan
from streamtune.engines.base import Deployment, MeasurementWindow, NotReady, RescaleRefusedError
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, Overrides, Program, RescaleSettings
from streamtune.engines.flink.rescaling import RescaleFailedError
from streamtune.errors import EngineError, StreamTuneError

WINDOW = MeasurementWindow(settle_s=10.0, length_s=20.0)


def engine_of(
    fake: FakeFlink, *, program: Program | None = None, overrides: Overrides | None = None, **rescale: Any
) -> FlinkEngine:
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=1)
    settings = FlinkSettings(rescale=RescaleSettings(timeout_s=5.0, savepoint_timeout_s=5.0, **rescale))
    return FlinkEngine(client, clock=fake.clock, program=program, overrides=overrides, settings=settings)


def plan(work: int) -> Plan:
    return Plan({"bids": 1, "Map": work, "sink": 1})


@pytest.fixture
def engine(fake: FakeFlink) -> FlinkEngine:
    return engine_of(fake)


@pytest.fixture
def deployment(engine: FlinkEngine) -> Deployment:
    return engine.attach()


def reason_of(seen: Observation | NotReady) -> str:
    assert isinstance(seen, NotReady)
    return seen.reason


def test_observes_what_the_job_does(fake: FakeFlink, engine: FlinkEngine, deployment: Deployment) -> None:
    """400/s offered, 100/s served by one subtask: the source is blocked three quarters of the time."""
    seen = engine.observe(deployment, WINDOW)
    assert isinstance(seen, Observation)
    assert seen.backpressured() == ("bids",)
    assert seen.operators["Map"].busy_share == pytest.approx(1.0)
    assert seen.operators["Map"].records_in_per_s == pytest.approx(100, rel=0.01)
    assert seen.source_rates["bids"] == pytest.approx(400, rel=0.01)
    assert fake.now_s >= 30


def test_a_live_rescale_asks_for_what_changes_and_nothing_else(fake: FakeFlink, engine: FlinkEngine) -> None:
    fake.bounds["sink"], fake.degrees["sink"] = (2, 3), 3  # as someone else has set it
    deployment = engine.attach()
    wanted = deployment.plan.replace({"Map": 6})
    assert engine.rescale(deployment, wanted).plan == wanted
    assert fake.bounds == {"bids": (1, 1), "work": (1, 6), "sink": (2, 3)}


def test_a_rescale_that_never_completes_is_taken_back(
    fake: FakeFlink, engine: FlinkEngine, deployment: Deployment
) -> None:
    fake.rescale_works = False
    with pytest.raises(
        RescaleFailedError, match=r"did not complete within 5 s: 'Map' runs with parallelism 1, not 6"
    ) as error:
        engine.rescale(deployment, plan(6))
    assert "last good plan" in str(error.value)
    assert fake.bounds == dict.fromkeys(VERTICES, (1, 1))
    seen = engine.observe(deployment, WINDOW)
    assert isinstance(seen, Observation)
    assert seen.plan == plan(1)


def test_a_source_without_splits_for_more_instances_is_put_back_at_once(
    fake: FakeFlink, engine: FlinkEngine, deployment: Deployment
) -> None:
    """A generator has as many splits as it started with: a second subtask has nothing to read, and ends."""
    fake.splits["bids"] = 1
    before_s = fake.now_s
    with pytest.raises(RescaleFailedError, match=r"2 of 3 subtasks of '.*bids.*' ended at once.*no more splits"):
        engine.rescale(deployment, deployment.plan.replace({"bids": 3}))
    assert fake.now_s - before_s < 4  # not after the five seconds that a rescale may take
    assert fake.bounds == dict.fromkeys(VERTICES, (1, 1))


def test_too_few_slots_are_seen_before_anything_is_changed(
    fake: FakeFlink, engine: FlinkEngine, deployment: Deployment
) -> None:
    fake.slots = 4
    with pytest.raises(EngineError, match=r"needs 6 slots, 4 are available .* Nothing was changed"):
        engine.rescale(deployment, plan(6))
    assert not [request for request in fake.requests if request.startswith("PUT")]


def test_key_groups_are_never_exceeded(fake: FakeFlink) -> None:
    fake.max_parallelism = 4
    engine = engine_of(fake)
    deployment = engine.attach()
    assert deployment.job.max_parallelism == 4
    with pytest.raises(StreamTuneError, match="limit is 4"):
        engine.rescale(deployment, plan(5))


def test_an_excluded_vertex_is_never_touched(fake: FakeFlink) -> None:
    engine = engine_of(fake, overrides=Overrides(exclude=("Map",)))
    deployment = engine.attach()
    with pytest.raises(EngineError, match="'Map' is excluded"):
        engine.rescale(deployment, plan(2))
    assert fake.degrees["work"] == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [((500, {"errors": ["x"]}), "answered with 500"), ((503, b"later"), "answered with 503")],
)
def test_server_errors_are_not_ready(
    fake: FakeFlink, engine: FlinkEngine, deployment: Deployment, answer: Answer, reason: str
) -> None:
    fake.intercept = lambda _method, _path: answer
    assert reason in reason_of(engine.observe(deployment, WINDOW))


def test_garbage_is_an_error(fake: FakeFlink, engine: FlinkEngine, deployment: Deployment) -> None:
    fake.intercept = lambda _method, _path: (200, b"<html>")
    with pytest.raises(EngineError, match="expected JSON"):
        engine.observe(deployment, WINDOW)


def test_a_job_that_is_gone_says_so(fake: FakeFlink, engine: FlinkEngine, deployment: Deployment) -> None:
    fake.job_id = "b" * 32
    with pytest.raises(EngineError, match=f"job {JOB} is gone"):
        engine.observe(deployment, WINDOW)


def test_a_job_that_failed_says_why(fake: FakeFlink, engine: FlinkEngine, deployment: Deployment) -> None:
    fake.state = "FAILED"
    with pytest.raises(EngineError, match=r"is FAILED: y\.Z: / by zero"):
        engine.observe(deployment, WINDOW)


def test_a_restarting_job_is_not_ready(fake: FakeFlink, engine: FlinkEngine, deployment: Deployment) -> None:
    fake.state = "RESTARTING"
    assert "RESTARTING" in reason_of(engine.observe(deployment, WINDOW))


def test_a_restart_in_the_window_is_not_ready(fake: FakeFlink, engine: FlinkEngine, deployment: Deployment) -> None:
    sleep = fake.clock.sleep

    def sleep_and_restart(seconds: float) -> None:
        sleep(seconds)
        if seconds == WINDOW.length_s:
            fake.restart()

    fake.clock.sleep = sleep_and_restart  # type: ignore[method-assign]
    assert re.search("restarted|no metrics", reason_of(engine.observe(deployment, WINDOW)))


def test_fewer_subtasks_than_planned_is_not_ready(fake: FakeFlink, engine: FlinkEngine, deployment: Deployment) -> None:
    deployment = engine.rescale(deployment, plan(6))
    fake.degrees["work"] = 3  # a TaskManager was lost, and the adaptive scheduler went on with less
    assert "not with the plan" in reason_of(engine.observe(deployment, WINDOW))


def test_metrics_that_stand_still_are_not_ready(fake: FakeFlink, engine: FlinkEngine, deployment: Deployment) -> None:
    fake.metrics_move = False
    assert "no new metrics" in reason_of(engine.observe(deployment, WINDOW))


PROGRAM = Program("jar-1", "my.Main", ("--topic", "bids"))


def test_without_the_adaptive_scheduler_a_jar_is_needed(fake: FakeFlink) -> None:
    fake.scheduler = "default"
    engine = engine_of(fake)
    deployment = engine.attach()
    assert not engine.capabilities.live_rescale
    with pytest.raises(EngineError, match="give its jar"):
        engine.rescale(deployment, plan(2))
    assert fake.state == "RUNNING"


def test_stop_and_restart_from_the_savepoint(fake: FakeFlink) -> None:
    fake.scheduler = "default"
    engine = engine_of(fake, program=PROGRAM)
    deployment = engine.attach()
    rescaled = engine.rescale(deployment, plan(5))
    assert rescaled.id == deployment.id
    assert engine.job_id(rescaled) != JOB
    [body] = fake.submitted
    assert body["savepointPath"] == "file:/savepoints/s1"
    assert (body["entryClass"], body["programArgsList"]) == ("my.Main", ["--topic", "bids"])
    assert isinstance(engine.observe(rescaled, WINDOW), Observation)


def test_a_failed_savepoint_leaves_the_job_running(fake: FakeFlink) -> None:
    fake.scheduler = "default"
    fake.savepoint_failure = "java.io.IOException: disk full"
    engine = engine_of(fake, program=PROGRAM)
    deployment = engine.attach()
    with pytest.raises(RescaleFailedError, match=r"disk full\. The job was not stopped"):
        engine.rescale(deployment, plan(5))
    assert not fake.submitted
    assert isinstance(engine.observe(deployment, WINDOW), Observation)


@pytest.mark.parametrize("scheduler", ["default", "adaptive"])
def test_ignored_overrides_end_on_the_last_plan(fake: FakeFlink, scheduler: str) -> None:
    """Flink 2.x ignores the option for jobs that come in over REST (FLINK-38770): found out, taken back, said, once.

    It took two minutes, did not name the cause, and a watch would have stopped the job again and again for it.
    """
    fake.scheduler = scheduler
    fake.overrides_work = False
    engine = engine_of(fake, program=PROGRAM, mode="restart")
    deployment = engine.attach()
    with pytest.raises(RescaleFailedError, match=r"FLINK-38770.* last good plan again, as job"):
        engine.rescale(deployment, plan(5))
    assert len(fake.submitted) == 2  # and neither waited for a plan that would not come
    with pytest.raises(RescaleRefusedError, match=r"not stopped again: .*FLINK-38770"):
        engine.rescale(deployment, plan(5))
    assert len(fake.submitted) == 2
    assert isinstance(engine.observe(deployment, WINDOW), Observation)


def test_a_job_that_cannot_come_back_names_its_savepoint(fake: FakeFlink) -> None:
    fake.scheduler = "default"
    engine = engine_of(fake, program=PROGRAM)
    deployment = engine.attach()
    fake.intercept = lambda _method, path: (400, {"errors": ["no such jar"]}) if path.endswith("/run") else None
    with pytest.raises(RescaleFailedError, match=r"DOWN.*by hand from the savepoint file:/savepoints/s1") as error:
        engine.rescale(deployment, plan(5))
    assert error.value.job_id is None


def test_which_job_must_be_clear(fake: FakeFlink, engine: FlinkEngine) -> None:
    with pytest.raises(EngineError, match=rf"no running job 'other': running are {JOB} \(fake\)"):
        engine.attach("other")
    assert engine.attach("fake").id == JOB
    fake.state = "FINISHED"
    with pytest.raises(EngineError, match="no job runs at http"):
        engine.attach()
