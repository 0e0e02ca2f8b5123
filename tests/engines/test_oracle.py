"""The oracle against arithmetic by hand."""

from __future__ import annotations

from streamtune.dataflow import Dataflow, Edge, Job, Operator
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.engines.simulator import find_oracle


def diamond(limit: int = 100) -> tuple[Job, dict[str, OperatorPhysics]]:
    """source → {left, right} → join; left keeps half of the records, right all."""
    operators = (
        Operator(id="source", type="source", rate=1000, parallelism=2),
        Operator(id="left", type="filter"),
        Operator(id="right", type="map"),
        Operator(id="join", type="join"),
    )
    edges = (Edge("source", "left"), Edge("source", "right"), Edge("left", "join"), Edge("right", "join"))
    physics = {
        "source": OperatorPhysics(service_us=100),
        "left": OperatorPhysics(service_us=2500, selectivity=0.5),
        "right": OperatorPhysics(service_us=4100),
        "join": OperatorPhysics(service_us=4000, contention=0.02),
    }
    return Job("diamond", Dataflow(operators, edges), limit), physics


def test_the_least_plan_by_hand() -> None:
    """1,000/s reach both sides: left 1000·2.5 ms = 2.5 → 3; right 4.1 → 5; join gets 500 + 1000 = 1,500/s,
    needs 6 times one instance's 250/s: p/(1 + 0.02(p−1)) ≥ 6 first holds at p = 7 (6.25; p = 6 gives 5.45)."""
    job, physics = diamond()
    oracle = find_oracle(job, physics, {"source": 1000})
    assert dict(oracle.plan) == {"source": 1, "left": 3, "right": 5, "join": 7}
    assert oracle.demand_per_s["join"] == 1500
    assert not oracle.unreachable


def test_fixed_operators_keep_theirs() -> None:
    job, physics = diamond()
    oracle = find_oracle(job, physics, {"source": 1000}, fixed={"source": 2, "right": 9})
    assert dict(oracle.plan) == {"source": 2, "left": 3, "right": 9, "join": 7}


def test_what_cannot_keep_up_is_named() -> None:
    job, physics = diamond(limit=5)
    oracle = find_oracle(job, physics, {"source": 1000})
    assert oracle.unreachable == ("join",)
    assert oracle.plan["join"] == 5


def test_bursts_of_a_long_window_need_more_behind_it() -> None:
    """A 60 s window sends a minute's results at once: what stands behind it must drain them, not their mean."""
    from streamtune.dataflow import Window

    window = Window(type="tumbling", policy="time", length=60)
    operators = (
        Operator(id="source", type="source", rate=1000),
        Operator(id="window", type="window_aggregate", window=window),
        Operator(id="behind", type="map"),
    )
    job = Job("bursty", Dataflow(operators, (Edge("source", "window"), Edge("window", "behind"))))
    physics = {
        "source": OperatorPhysics(service_us=10),
        "window": OperatorPhysics(service_us=10, fire_share=0.0),
        "behind": OperatorPhysics(service_us=1900),
    }
    oracle = find_oracle(job, physics, {"source": 1000})
    assert oracle.demand_per_s["behind"] == 1000
    assert oracle.plan["behind"] > 2
