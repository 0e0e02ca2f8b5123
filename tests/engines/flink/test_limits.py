"""Limits are per vertex, as Flink gives them: a single-instance vertex does not cap the others, nor get a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engines.flink.fake_dag import FakeDag, FakeVertex
from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.dataflow import Dataflow, Edge, Job, Operator, Plan
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine
from streamtune.engines.simulator.oracle import find_oracle
from streamtune.tuners import make_tuner

WINDOW = MeasurementWindow(settle_s=10.0, length_s=20.0)
COMMITTED = {
    "in": FakeVertex("Source: in", 10_000.0),
    "work": FakeVertex("Map", 100.0, {"in": 1.0}),
    "commit": FakeVertex("GlobalGroupAggregate[9]", 5_000.0, {"work": 0.1}, ship="HASH", max_parallelism=1),
}


@pytest.fixture
def dag() -> Iterator[FakeDag]:
    with FakeDag(COMMITTED, {"in": 420.0}) as fake:
        fake.is_idle_when_blocked = True
        yield fake


def engine_of(fake: FakeDag) -> FlinkEngine:
    return FlinkEngine(FlinkClient(fake.url, sleep=fake.clock.sleep, retries=1), clock=fake.clock)


def test_each_vertex_has_the_limit_that_flink_gives_it(dag: FakeDag) -> None:
    job = engine_of(dag).attach().job
    assert {key: job.limit_of(key) for key in job.dataflow.index} == {"in": 128, "Map": 128, "GlobalGroupAggregate": 1}
    assert job.max_parallelism == 128


def test_a_single_instance_vertex_does_not_cap_the_others(dag: FakeDag) -> None:
    engine = engine_of(dag)
    deployment = engine.attach()
    controller = Controller(engine, make_tuner("ds2", deployment.job), Guards(), WINDOW, clock=dag.clock)
    outcome = controller.tune(deployment)
    assert not outcome.backpressure
    assert outcome.deployment.plan["Map"] == 5
    assert outcome.deployment.plan["GlobalGroupAggregate"] == 1


@pytest.mark.parametrize("name", ["streamtune", "ds2", "conttune", "flink-autoscaler", "dhalion", "greedy"])
def test_no_tuner_asks_a_vertex_for_more_than_its_maximum(name: str) -> None:
    """The single instance itself is the bottleneck: nobody may ask for a second one."""
    vertices = {**COMMITTED, "commit": FakeVertex("Agg", 20.0, {"work": 0.1}, ship="HASH", max_parallelism=1)}
    with FakeDag(vertices, {"in": 420.0}) as fake:
        engine = engine_of(fake)
        deployment = engine.attach()
        guards = Guards(max_reconfigurations=3)
        outcome = Controller(engine, make_tuner(name, deployment.job), guards, WINDOW, clock=fake.clock).tune(
            deployment
        )
        assert outcome.deployment.plan["Agg"] == 1


def test_guards_hold_each_operator_to_its_own_limit() -> None:
    job = _job()
    wanted, current = Plan({"s": 1, "many": 30, "one": 4}), Plan({"s": 1, "many": 2, "one": 1})
    plan, held = Guards(min_parallelism=2, max_parallelism=20).apply(job, wanted, current)
    assert dict(plan) == {"s": 1, "many": 20, "one": 1}
    assert held["one"] == "4 was recommended, the limits are 1 to 1"


def test_the_oracle_and_a_plan_know_each_limit() -> None:
    job = _job()
    physics = {key: OperatorPhysics(service_us=10_000) for key in job.dataflow.index}
    found = find_oracle(job, physics, {"s": 90.0})
    assert found.unreachable == ()
    assert find_oracle(job, physics, {"s": 250.0}, fixed={"s": 3}).unreachable == ("one",)
    with pytest.raises(Exception, match="operator 'one': the plan asks for parallelism 2, the limit is 1"):
        job.check_plan(Plan({"s": 1, "many": 2, "one": 2}))


def _job() -> Job:
    operators = (
        Operator(id="s", type="source", rate=100.0),
        Operator(id="many", type="map"),
        Operator(id="one", type="aggregate", max_parallelism=1),
    )
    return Job("one", Dataflow(operators, (Edge("s", "many"), Edge("many", "one"))), 50)
