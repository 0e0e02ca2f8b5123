"""Names survive a resubmission: planner counters change, structure does not."""

from __future__ import annotations

from typing import Any

import pytest

from engines.flink.fake_dag import FakeDag, FakeVertex
from streamtune.engines.flink import FlinkClient, FlinkEngine, Overrides
from streamtune.engines.flink.identity import operator_ids, resolve
from streamtune.engines.flink.overrides import OperatorOverride
from streamtune.engines.flink.responses import JobDetails
from streamtune.errors import EngineError


def details_of(start: int, *, backwards: bool = False) -> JobDetails:
    """Two sources, a join with each other and a second join; counters from ``start``, in any order of nodes."""
    names = {
        "a": (f"Source: orders[{start}]", []),
        "b": (f"Source: users[{start + 1}]", []),
        "c": (f"Join[{start + 2}] -> Calc[{start + 3}]", ["a", "b"]),
        "d": (f"Join[{start + 4}]", ["c", "b"]),
    }
    order = list(reversed(names)) if backwards else list(names)
    vertices: list[dict[str, Any]] = [
        {"id": f"{key}{start}", "name": names[key][0], "parallelism": 1, "maxParallelism": 8, "status": "RUNNING"}
        for key in order
    ]
    nodes = [
        {"id": f"{key}{start}", "parallelism": 1, "inputs": [{"id": f"{one}{start}"} for one in names[key][1]]}
        for key in order
    ]
    return JobDetails.model_validate(
        {"jid": "j", "name": "q", "state": "RUNNING", "vertices": vertices, "plan": {"nodes": nodes}}
    )


def test_counters_and_the_order_of_nodes_do_not_show() -> None:
    first, second = operator_ids(details_of(20)), operator_ids(details_of(225, backwards=True))
    assert {key[0]: one for key, one in first.items()} == {"a": "orders", "b": "users", "c": "Join", "d": "Join-2"}
    assert {key[0]: one for key, one in second.items()} == {key[0]: one for key, one in first.items()}


def test_a_name_of_an_earlier_submission_is_understood_where_it_is_clear() -> None:
    details = details_of(20)
    ids = operator_ids(details)
    assert resolve("orders-77", ids, details) == "orders"
    assert resolve("Join-22", ids, details) == "Join"  # its counter now
    assert resolve("Join-2", ids, details) == "Join-2"
    assert resolve("Join-99", ids, details) is None  # there are two
    assert resolve("c20", ids, details) == "Join"
    assert resolve("nobody", ids, details) is None


@pytest.mark.parametrize("backwards", [False, True])
def test_a_vertex_that_is_called_as_another_is_numbered_keeps_its_name(backwards: bool) -> None:
    """Map, Map and Map-2 were Map, Map-2 and Map-2: the job could not be attached to."""
    names = [("s", "Source: s"), ("a", "Map"), ("b", "Map"), ("c", "Map-2"), ("d", "Map-3"), ("e", "Map")]
    vertices = [{"id": key, "name": name, "parallelism": 1, "status": "RUNNING"} for key, name in names]
    nodes = [
        {"id": key, "parallelism": 1, "inputs": [{"id": names[place - 1][0]}] if place else []}
        for place, (key, _) in enumerate(names)
    ]
    plan = {"nodes": nodes[::-1] if backwards else nodes}
    details = JobDetails.model_validate(
        {"jid": "j", "name": "q", "state": "RUNNING", "vertices": vertices, "plan": plan}
    )
    assert operator_ids(details) == {"s": "s", "a": "Map", "b": "Map-4", "c": "Map-2", "d": "Map-3", "e": "Map-5"}


def test_overrides_and_exclusions_survive_a_resubmission() -> None:
    said = Overrides(operators={"Agg-7": OperatorOverride(type="aggregate")}, exclude=("Agg-7",))
    for counter in (7, 41):
        vertices = {"s": FakeVertex("Source: s"), "a": FakeVertex(f"Agg[{counter}]", inputs={"s": 1.0})}
        with FakeDag(vertices, {"s": 10.0}) as fake:
            engine = FlinkEngine(FlinkClient(fake.url), clock=fake.clock, overrides=said)
            deployment = engine.attach()
            assert deployment.job.dataflow.operator("Agg").type == "aggregate"
            assert engine.excluded(deployment) == frozenset({"Agg"})
    with FakeDag({"s": FakeVertex("Source: s")}, {"s": 10.0}) as fake, pytest.raises(EngineError, match="'Agg-7'"):
        FlinkEngine(FlinkClient(fake.url), clock=fake.clock, overrides=said).attach()
