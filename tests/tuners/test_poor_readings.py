"""Operators that report no busy time, or a wrong one, are sized by what they take, not one instance at a time."""

from __future__ import annotations

import math

import pytest

from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, OperatorMetrics
from streamtune.readings.elimination import eliminate
from streamtune.tuners.streamtune import StreamTune
from tuners.sightings import chain, metrics, sighting


def unread(parallelism: int, taken: float) -> OperatorMetrics:
    """What asynchronous I/O reports: rates, and that it is not blocked."""
    missing = {"busy_ms_per_s": math.nan, "idle_ms_per_s": math.nan}
    return metrics(parallelism, taken, 0).model_copy(update=missing)


BLOCKED_SOURCE = metrics(1, 200, 20, blocked=970)
FORK = Job(
    "fork",
    Dataflow(
        (
            Operator(id="source", type="source", rate=1000),
            *(Operator(id=name, type="map") for name in ("left", "right")),
        ),
        (Edge("source", "left"), Edge("source", "right")),
    ),
    64,
)


def test_the_only_reader_of_a_blocked_source_is_blamed_and_sized_in_one_step() -> None:
    """It takes 200 of 1,000 records/s with one instance: five serve them, and a little more is sure."""
    job = chain("async")
    tuner = StreamTune(job)
    seen = sighting({"source": BLOCKED_SOURCE, "op1": unread(1, 200)})
    assert eliminate(job.dataflow, seen).blamed == {"op1"}
    tuner.learn(seen)
    assert 5 <= tuner.recommend(seen).plan["op1"] <= 7


@pytest.mark.parametrize(("busy", "blamed"), [(500, {"left"}), (840, {"left"}), (990, set())])
def test_a_neighbour_is_cleared_unless_it_is_saturated_itself(busy: float, blamed: set[str]) -> None:
    seen = sighting({"source": BLOCKED_SOURCE, "left": unread(1, 200), "right": metrics(1, 200, busy)})
    found = eliminate(FORK.dataflow, seen)
    assert found.blamed == blamed
    assert found.cleared == ({"right"} if blamed else set())


def test_where_two_report_nothing_nobody_is_blamed_but_both_grow_at_once() -> None:
    """Either may be the one: 1,000 / 200 instances for both, instead of one more per reconfiguration."""
    tuner = StreamTune(FORK)
    seen = sighting({"source": BLOCKED_SOURCE, "left": unread(1, 200), "right": unread(1, 200)})
    assert eliminate(FORK.dataflow, seen).blamed == frozenset()
    tuner.learn(seen)
    found = tuner.recommend(seen)
    assert dict(found.plan) == {"source": 1, "left": 5, "right": 5}
    assert "reports no busy time" in found.why["left"]


def test_one_that_is_blocked_itself_is_not_blamed() -> None:
    job = chain("async", "map")
    held = unread(1, 200).model_copy(update={"backpressured_ms_per_s": 900.0})
    seen = sighting({"source": BLOCKED_SOURCE, "op1": held, "op2": metrics(1, 200, 990)})
    assert "op1" not in eliminate(job.dataflow, seen).blamed


def test_a_bottleneck_whose_busy_time_misleads_is_not_raised_by_one() -> None:
    """It says 70 % busy, so that two would seem to be enough at 800 of 1,000/s; blocked writers say otherwise.

    Two take 800 records/s, so 1,000 need 2 · 1,000 / 800 = 2.5: three. At 20 with 800/s it would be 25, not 21.
    """
    job = chain("map")
    tuner = StreamTune(job)
    seen = sighting({"source": metrics(1, 800, 100, blocked=850), "op1": metrics(20, 800, 700)})
    tuner.learn(seen)
    found = tuner.recommend(seen)
    assert found.plan["op1"] >= 25
    assert "sized by what it really takes" in found.why["op1"]


@pytest.mark.parametrize(("busy", "is_rough"), [(100, True), (600, False)])
def test_a_plan_made_from_hardly_busy_instances_is_looked_at_again(busy: float, is_rough: bool) -> None:
    """Flink's busy time is known to 2 %: of 10 % that is a fifth, of 60 % next to nothing."""
    tuner = StreamTune(chain("map"))
    seen = sighting({"source": metrics(1, 1000, 30), "op1": metrics(30, 1000, busy)})
    seen = seen.model_copy(update={"busy_resolution": 0.02})
    tuner.learn(seen)
    found = tuner.recommend(seen)
    assert found.plan["op1"] < 29
    assert found.provisional == is_rough
    assert ("looked at again" in found.why["op1"]) == is_rough


def on_flink(parallelism: int, busy: float, *, kind: str = "map", minute: float = 0) -> tuple[StreamTune, Observation]:
    """A tuner, and one operator as a Flink reports it, whose busy time is known to 2 %."""
    seen = sighting({"source": metrics(1, 700, 30), "op1": metrics(parallelism, 700, busy)}, offered=700, minute=minute)
    return StreamTune(chain(kind)), seen.model_copy(update={"busy_resolution": 0.02})


@pytest.mark.parametrize("busy", [0.0, 1.5, 7.0, 30.0])
def test_an_operator_that_does_next_to_nothing_goes_down_in_one_step(busy: float) -> None:
    """30 × (0.03 + 2 × 0.02) = 2.1 instances' time is the most that it can need; 17 and three more steps were asked."""
    tuner, seen = on_flink(30, busy)
    tuner.learn(seen)
    assert tuner.recommend(seen).plan["op1"] <= 4


def test_where_nothing_arrives_no_capacity_is_made_up() -> None:
    """It was told that one instance serves about 536,677 (± 350 %)."""
    tuner = StreamTune(chain("map"))
    seen = sighting({"source": metrics(1, 1000, 30, emitted=0.0), "op1": metrics(3, 0, 0)})
    tuner.learn(seen)
    assert tuner.recommend(seen).why["op1"].startswith("nothing is known of it yet")


@pytest.mark.parametrize("busy", [1.9, 2.1, 3.0, 4.0])
def test_a_little_more_busy_time_does_not_hide_that_it_kept_up(busy: float) -> None:
    """From 2 ms/s on there is a reading, so blurred that it says nothing: thirty stayed, where 1.9 ms/s gave nine."""
    tuner, seen = on_flink(30, busy, kind="async")
    tuner.learn(seen)
    assert tuner.recommend(seen).plan["op1"] <= 10


def test_asynchronous_requests_are_not_seen_in_busy_time() -> None:
    """It idles while its requests are under way: that it is not busy does not mean that it could take far more."""
    asked = {}
    for kind in ("map", "async"):
        tuner, seen = on_flink(30, 0.2, kind=kind)
        tuner.learn(seen)
        asked[kind] = tuner.recommend(seen).plan["op1"]
    assert asked["async"] >= 2 * asked["map"]


def test_the_second_look_at_a_rough_plan_may_take_one_instance() -> None:
    """30 instances, an eighth busy each, become five; those are 58 % busy: 2.9 instances' time, four are sure."""
    tuner, seen = on_flink(30, 125)
    tuner.learn(seen)
    assert tuner.recommend(seen).plan["op1"] == 5
    _, again = on_flink(5, 580, minute=1)
    tuner.learn(again)
    assert tuner.recommend(again).plan["op1"] == 4
    _, usual = on_flink(5, 580, minute=2)
    tuner.learn(usual)
    assert tuner.recommend(usual).plan["op1"] == 5  # one instance is not worth a restart of its own
