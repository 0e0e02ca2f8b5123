"""Vertices of several slot-sharing groups: a plan is cut to the slots that all groups take together."""

from __future__ import annotations

from engines.flink.fake_dag import FakeDag, FakeVertex
from streamtune.control.controller import Controller
from streamtune.control.supervisor import Supervisor
from streamtune.dataflow import Plan
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine
from streamtune.tuners import make_tuner

TWO_GROUPS = {
    "in": FakeVertex("Source: in", 10_000.0, group="first"),
    "map": FakeVertex("Map", 100.0, {"in": 1.0}, group="first"),
    "keyed": FakeVertex("KeyedProcess", 100.0, {"map": 1.0}, ship="HASH", group="second"),
}


def engine_of(fake: FakeDag) -> FlinkEngine:
    return FlinkEngine(FlinkClient(fake.url, sleep=fake.clock.sleep, retries=1), clock=fake.clock)


def test_tuning_ends_with_the_slots_and_not_with_an_error() -> None:
    """Six instances of both would keep up and need twelve slots, six are there: 3 + 3."""
    with FakeDag(TWO_GROUPS, {"in": 560.0}, slots=6) as fake:
        engine = engine_of(fake)
        deployment = engine.attach()
        supervisor = Supervisor(clock=fake.clock)
        tuner = make_tuner("ds2", deployment.job)
        window = MeasurementWindow(settle_s=10.0, length_s=20.0)
        supervisor.add(Controller(engine, tuner, window=window, clock=fake.clock), deployment)
        [job] = supervisor.run()
        assert job.error is None
        assert (fake.degrees["map"], fake.degrees["keyed"]) == (3, 3)


def test_what_a_plan_needs_is_told_without_asking_flink() -> None:
    with FakeDag(TWO_GROUPS, {"in": 560.0}, slots=6) as fake:
        engine = engine_of(fake)
        deployment = engine.attach()
        before = len(fake.requests)
        assert engine.slots_needed(deployment, Plan({"in": 1, "Map": 6, "KeyedProcess": 4})) == 6 + 4
        assert len(fake.requests) == before
