"""Rates belong to edges: a branch of a fork needs what it reads, not all that its writer puts out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.flink.fake_dag import FakeDag, FakeVertex
from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.dataflow import Dataflow, Edge, Observation, Operator, Run
from streamtune.dataflow.operator import Partitioning
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine
from streamtune.engines.flink.edges import edge_rates
from streamtune.readings.demand import edge_ratios, input_rates
from streamtune.tuners import make_tuner

WINDOW = MeasurementWindow(settle_s=10.0, length_s=20.0)
# A source with a filter chained to it: 1,000/s read, 564/s reach the work, 12/s a side output, and 0.6/s an aggregate.
FORK = {
    "in": FakeVertex("Source: in -> Filter", 10_000.0, metrics={"Source__in.numRecordsIn": 1.0}),
    "work": FakeVertex("Map", 200.0, {"in": 0.564}),
    "late": FakeVertex("late", 240.0, {"in": 0.012}),
    "total": FakeVertex("GlobalGroupAggregate[7]", 500.0, {"work": 0.001}, ship="HASH", max_parallelism=1),
}


def engine_of(fake: FakeDag) -> FlinkEngine:
    return FlinkEngine(FlinkClient(fake.url, sleep=fake.clock.sleep, retries=1), clock=fake.clock)


def observed(fake: FakeDag) -> tuple[FlinkEngine, Observation]:
    engine = engine_of(fake)
    seen = engine.observe(engine.attach(), WINDOW)
    assert isinstance(seen, Observation)
    return engine, seen


@pytest.mark.parametrize("name", ["streamtune", "ds2", "flink-autoscaler"])
def test_a_branch_gets_what_it_reads(name: str) -> None:
    """One instance too few of the work; the branches of 12/s and 0.6/s are a few per cent busy and stay as they are."""
    with FakeDag(FORK, {"in": 1000.0}) as fake:
        fake.degrees["work"] = fake.bounds["work"][1] * 2
        fake.bounds["work"] = (1, 2)
        engine = engine_of(fake)
        deployment = engine.attach()
        tuner = make_tuner(name, deployment.job)
        outcome = Controller(engine, tuner, Guards(), WINDOW, clock=fake.clock).tune(deployment)
        assert not outcome.backpressure
        assert outcome.deployment.plan["late"] == outcome.deployment.plan["GlobalGroupAggregate"] == 1
        assert (
            3 <= outcome.deployment.plan["Map"] <= 7
        )  # three serve it; the autoscaler keeps 70 % and doubles on a guess


def test_edges_are_measured_and_reach_the_history() -> None:
    with FakeDag(FORK, {"in": 300.0}) as fake:
        engine, seen = observed(fake)
        job = engine.attach().job
    assert seen.operators["in"].records_in_per_s == pytest.approx(300, rel=0.01)  # before the filter
    expected = {("in", "Map"): 169.2, ("in", "late"): 3.6, ("Map", "GlobalGroupAggregate"): 0.17}
    assert seen.edge_rates == {edge: pytest.approx(rate, abs=0.05) for edge, rate in expected.items()}
    run = Run.of("r", job, "flink", seen)
    assert Run.model_validate(run.to_record()).observation.edge_rates == seen.edge_rates
    demand = input_rates(job.dataflow, {}.fromkeys(job.dataflow.index, 1.0), {"in": 3000.0}, edge_ratios(seen))
    assert demand["late"] == pytest.approx(36, rel=0.02)


def flow_of(*edges: tuple[str, str]) -> Dataflow:
    keys = dict.fromkeys(key for edge in edges for key in edge)
    return Dataflow(tuple(Operator(id=key, type="map") for key in keys), tuple(Edge(a, b) for a, b in edges))


def test_several_inputs_are_solved_for() -> None:
    """a forks to x and to the union u; b goes to u alone: u's input less b's output is what a sends it."""
    flow = flow_of(("a", "x"), ("a", "u"), ("b", "u"))
    taken = {"a": 100.0, "b": 50.0, "x": 70.0, "u": 60.0}
    given_out = {"a": 80.0, "b": 50.0, "x": 0.0, "u": 0.0}
    found = edge_rates(flow, taken, given_out, dict.fromkeys(taken, 1))
    assert found[("a", "x")] == 70.0
    assert found[("a", "u")] == pytest.approx(10, abs=0.5)
    assert found[("b", "u")] == pytest.approx(50, abs=0.5)


def test_a_self_join_and_a_broadcast() -> None:
    flow = Dataflow(tuple(Operator(id=key, type="map") for key in "abj"), (Edge("a", "j"), Edge("b", "j", "broadcast")))
    taken = {"a": 100.0, "b": 2.0, "j": 108.0}
    found = edge_rates(flow, taken, {"a": 100.0, "b": 2.0, "j": 0.0}, {"a": 1, "b": 1, "j": 4})
    assert found[("b", "j")] == 8.0
    assert found[("a", "j")] == pytest.approx(100.0, abs=0.1)


def beside(way: Partitioning, other: Partitioning) -> Dataflow:
    """Rules go to the join as ``way`` and to a log as ``other``; the records that they are for come from a."""
    edges = (Edge("a", "j", "hash"), Edge("r", "j", way), Edge("r", "log", other))
    return Dataflow(tuple(Operator(id=key, type="map") for key in ("a", "r", "j", "log")), edges)


def test_a_broadcast_beside_a_fork() -> None:
    """20 rules/s to each of ten instances and to a log, 100/s of a: the writer counts 40, the join 100 + 10 * 20."""
    taken = {"a": 100.0, "r": 20.0, "j": 300.0, "log": 20.0}
    given_out = {"a": 100.0, "r": 40.0, "j": 0.0, "log": 0.0}
    found = edge_rates(beside("broadcast", "forward"), taken, given_out, {"a": 1, "r": 1, "j": 10, "log": 1})
    assert found[("a", "j")] == pytest.approx(100)
    assert found[("r", "j")] == pytest.approx(200)
    assert found[("r", "log")] == 20


@given(st.floats(1, 1e4), st.floats(1, 1e4), st.integers(1, 100), st.integers(1, 100), st.booleans())
def test_the_edges_of_any_fork_with_a_broadcast(a: float, rules: float, join: int, log: int, to_log: bool) -> None:
    """The broadcast goes to the join or to the log, whose rate is known: its copies are not what the writer counted."""
    flow = beside("hash", "broadcast") if to_log else beside("broadcast", "forward")
    over = {("a", "j"): a, ("r", "j"): rules * (1 if to_log else join), ("r", "log"): rules * (log if to_log else 1)}
    taken = {"a": a, "r": rules, "j": over[("a", "j")] + over[("r", "j")], "log": over[("r", "log")]}
    found = edge_rates(
        flow, taken, {"a": a, "r": 2 * rules, "j": 0.0, "log": 0.0}, {"a": 1, "r": 1, "j": join, "log": log}
    )
    assert found == {edge: pytest.approx(rate, rel=1e-6) for edge, rate in over.items()}


def test_what_was_not_counted_is_left_out() -> None:
    flow = flow_of(("a", "b"))
    nothing = {"a": math.nan, "b": math.nan}
    assert edge_rates(flow, nothing, nothing, {"a": 1, "b": 1}) == {}


@given(st.lists(st.floats(0.0, 1e5), min_size=3, max_size=3), st.floats(0.0, 1e5))
def test_rates_of_edges_add_up_to_what_the_reader_takes(sent: list[float], own: float) -> None:
    """Three writers into one reader, each with another reader of its own."""
    flow = flow_of(*[(f"w{i}", "r") for i in range(3)], *[(f"w{i}", f"o{i}") for i in range(3)])
    taken = {f"w{i}": 1.0 for i in range(3)} | {f"o{i}": own for i in range(3)} | {"r": sum(sent)}
    out = {f"w{i}": sent[i] + own for i in range(3)} | {f"o{i}": 0.0 for i in range(3)} | {"r": 0.0}
    found = edge_rates(flow, taken, out, dict.fromkeys(taken, 1))
    assert all(rate >= 0 for rate in found.values())
    for i in range(3):
        assert found[(f"w{i}", "r")] == pytest.approx(sent[i], rel=0.02, abs=1.0 + 1e-3 * (sum(sent) + own))
