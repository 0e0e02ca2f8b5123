"""A job whose operators are all chained to its source: one vertex, whose own record counters stay at 0."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engines.flink.fake_dag import FakeDag, FakeVertex
from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.dataflow import Observation
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine
from streamtune.tuners.streamtune import StreamTune, StreamTuneSettings

WINDOW = MeasurementWindow(settle_s=10.0, length_s=20.0)


@pytest.fixture
def fake() -> Iterator[FakeDag]:
    vertex = FakeVertex(
        "Source: in[1] -> Calc[2] -> Sink: out[3]",
        400.0,
        metrics={"Source__in[1].numRecordsIn": 1.0, "Source__in[1].numRecordsOut": 1.0},
    )
    with FakeDag({"in": vertex}, {"in": 1000.0}) as fake:
        yield fake


def engine_of(fake: FakeDag) -> FlinkEngine:
    return FlinkEngine(FlinkClient(fake.url, sleep=fake.clock.sleep, retries=1), clock=fake.clock)


def test_rates_come_from_the_operators_inside(fake: FakeDag) -> None:
    engine = engine_of(fake)
    seen = engine.observe(engine.attach(), WINDOW)
    assert isinstance(seen, Observation)
    assert seen.operators["in"].records_in_per_s == pytest.approx(400, rel=0.01)
    assert seen.throughput_per_s == pytest.approx(400, rel=0.01)


def test_it_says_that_there_is_nothing_to_tune_but_the_source(fake: FakeDag) -> None:
    engine = engine_of(fake)
    deployment = engine.attach()
    tuner = StreamTune(deployment.job)
    seen = engine.observe(deployment, WINDOW)
    assert isinstance(seen, Observation)
    tuner.learn(seen)
    found = tuner.recommend(seen)
    assert found.plan == deployment.plan
    assert "chained to its source" in found.why["in"]
    assert "--tune-sources" in found.why["in"]


def test_the_source_is_tuned_where_that_is_asked_for(fake: FakeDag) -> None:
    """1,000/s at 400/s an instance: three, found in steps because nothing says what waits."""
    engine = engine_of(fake)
    deployment = engine.attach()
    tuner = StreamTune(deployment.job, StreamTuneSettings(tune_sources=True))
    outcome = Controller(engine, tuner, Guards(tune_sources=True), WINDOW, clock=fake.clock).tune(deployment)
    assert 3 <= outcome.deployment.plan["in"] <= 4
    assert outcome.reconfigurations <= 3
