"""Jobs with bounded inputs: what has been read to its end is no trouble, and nothing about it is tuned."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from engines.flink.fake_dag import FakeDag, FakeVertex
from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.dataflow import Observation
from streamtune.engines.base import MeasurementWindow, RescaleFailedError
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, RescaleSettings
from streamtune.engines.flink.collecting import Collector, CollectSettings
from streamtune.engines.flink.polling import state_of
from streamtune.tuners import make_tuner

WINDOW = MeasurementWindow(settle_s=10.0, length_s=20.0)
# A table that is read once, beside a stream that goes on: 350/s at 100/s for each instance of the join.
VERTICES = {
    "dim": FakeVertex("Source: dim", 1000.0),
    "orders": FakeVertex("Source: orders", 1000.0),
    "join": FakeVertex("Join", 100.0, {"dim": 1.0, "orders": 1.0}),
    "out": FakeVertex("Sink: out", 10_000.0, {"join": 1.0}),
}


@pytest.fixture
def fake() -> Iterator[FakeDag]:
    with FakeDag(VERTICES, {"orders": 350.0}) as one:
        one.finished["dim"] = 1
        yield one


def engine_of(fake: FakeDag) -> FlinkEngine:
    settings = FlinkSettings(rescale=RescaleSettings(timeout_s=5.0))
    return FlinkEngine(FlinkClient(fake.url, sleep=fake.clock.sleep, retries=1), clock=fake.clock, settings=settings)


def test_a_job_is_measured_and_tuned_beside_a_source_that_has_finished(fake: FakeDag) -> None:
    """It was "0 of 1 subtasks of 'Source: dim' run" for ever."""
    engine = engine_of(fake)
    deployment = engine.attach()
    seen = engine.observe(deployment, WINDOW)
    assert isinstance(seen, Observation)
    assert seen.source_rates["dim"] == 0
    assert seen.window_s == pytest.approx(20, rel=0.1)
    dim = seen.operators["dim"]
    assert (dim.records_in_per_s, dim.busy_ms_per_s, dim.idle_ms_per_s) == (0, 0, 1000)
    assert engine.excluded(deployment) == {"dim"}
    guards = Guards(tune_sources=True)
    outcome = Controller(engine, make_tuner("ds2", deployment.job), guards, WINDOW, clock=fake.clock).tune(deployment)
    assert not outcome.backpressure
    assert outcome.deployment.plan["Join"] >= 4
    assert outcome.deployment.plan["dim"] == 1


def test_what_finishes_later_is_excluded_from_then_on(fake: FakeDag) -> None:
    fake.finished = {}
    engine = engine_of(fake)
    deployment = engine.attach()
    assert engine.excluded(deployment) == frozenset()
    fake.finished["dim"] = 1
    assert isinstance(engine.observe(deployment, WINDOW), Observation)
    assert engine.excluded(deployment) == {"dim"}


def test_a_source_some_of_whose_subtasks_have_finished_is_measured(fake: FakeDag) -> None:
    """Of four that read files one is done: it is idle a quarter of the time, and what the others do counts in full."""
    fake.degrees |= {"dim": 4, "join": 8}
    fake.rates["dim"] = 200.0
    engine = engine_of(fake)
    seen = engine.observe(engine.attach(), WINDOW)
    assert isinstance(seen, Observation)
    dim = seen.operators["dim"]
    assert dim.parallelism == 4
    # 200/s over four subtasks, three of which go on: 150/s, each busy 50 of 1,000 ms/s, the fourth not at all
    assert dim.records_out_per_s == pytest.approx(150, rel=0.01)
    assert dim.busy_ms_per_s == pytest.approx(0.75 * 50, rel=0.01)
    assert dim.busy_ms_per_s + dim.idle_ms_per_s + dim.backpressured_ms_per_s == pytest.approx(1000)
    assert engine.excluded(engine.attach()) == frozenset()


def test_what_is_said_of_a_source_that_has_finished_is_not_offered_any_more(fake: FakeDag) -> None:
    from streamtune.engines.flink.overrides import OperatorOverride, Overrides

    said = Overrides(operators={"dim": OperatorOverride(rate=500.0)})
    engine = FlinkEngine(FlinkClient(fake.url), clock=fake.clock, overrides=said)
    seen = engine.observe(engine.attach(), WINDOW)
    assert isinstance(seen, Observation)
    assert seen.source_rates["dim"] == 0


def test_windows_of_such_a_job_are_collected(fake: FakeDag) -> None:
    """Every one was dropped, without a word."""
    settings = CollectSettings(window_s=10.0, settle_s=5.0)
    collector = Collector(FlinkClient(fake.url), settings, clock=fake.clock)
    runs = []
    for _ in range(8):
        runs += collector.tick()
        fake.clock.sleep(5.0)
    assert len(runs) >= 2
    assert all(math.isfinite(run.observation.operators["dim"].idle_ms_per_s) for run in runs)


def test_a_rescale_beside_a_source_that_has_finished_is_not_taken_back(fake: FakeDag) -> None:
    engine = engine_of(fake)
    deployment = engine.attach()
    engine.rescale(deployment, deployment.plan.replace({"Join": 5}))
    assert fake.degrees["join"] == 5


def test_instances_that_were_just_given_and_end_at_once_are_still_taken_back(fake: FakeDag) -> None:
    engine = engine_of(fake)
    deployment = engine.attach()
    fake.finished["orders"] = 2
    fake.degrees["orders"] = 3  # two files were read, one goes on
    with pytest.raises(RescaleFailedError, match=r"2 of 4 subtasks of 'Source: orders' ended at once"):
        engine.rescale(engine.attach(), deployment.plan.replace({"orders": 4}))
    assert fake.degrees["orders"] == 1  # its upper bound before


def test_what_has_not_begun_is_still_waited_for_and_a_job_about_to_end_is_said(fake: FakeDag) -> None:
    details = engine_of(fake).client.job(fake.job_id)
    half = details.vertices[0].model_copy(update={"parallelism": 3, "tasks": {"RUNNING": 1, "FINISHED": 1}})
    said = state_of(details.model_copy(update={"vertices": (half, *details.vertices[1:])}))
    assert said == "1 of 3 subtasks of 'Source: dim' run, 1 have finished"
    done = tuple(vertex.model_copy(update={"tasks": {"FINISHED": 1}}) for vertex in details.vertices)
    assert "about to end" in (state_of(details.model_copy(update={"vertices": done})) or "")
