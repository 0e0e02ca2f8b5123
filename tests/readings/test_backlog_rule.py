"""What the 85 % rule misses, and what is made of it when asked to: through the one labelling kernel."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Observation, OperatorMetrics
from streamtune.readings import BOTTLENECK, FINE, LabelSettings, label_observation
from streamtune.readings.metrics import suspects

FLOW = Dataflow.from_edges(["source", "map", "sink"], [(0, 1), (1, 2)])
WATCHFUL = LabelSettings(backlog_growth_share=0.05)


def seen(
    taken: float, growth: float | None, bottlenecks: tuple[str, ...] = (), *, reports_backpressure: bool = False
) -> Observation:
    """1,000 records/s offered to a map that takes ``taken`` of them; the sink takes all it gets."""

    def metrics(rate_in: float, rate_out: float, growing: float | None = None) -> OperatorMetrics:
        return OperatorMetrics(
            parallelism=1,
            records_in_per_s=rate_in,
            records_out_per_s=rate_out,
            busy_ms_per_s=500,
            idle_ms_per_s=500,
            backpressured_ms_per_s=0,
            backlog_growth_per_s=growing,
        )

    return Observation(
        observed_at=datetime(2026, 11, 16, tzinfo=UTC),
        window_s=10,
        source_rates={"op0": 1000.0},
        operators={"op0": metrics(1000, 1000), "op1": metrics(taken, taken, growth), "op2": metrics(taken, 0)},
        bottlenecks=bottlenecks,
        reports_backpressure=reports_backpressure,
    )


@pytest.mark.parametrize(
    ("taken", "growth", "by_the_paper", "watchful"),
    [
        (840.0, 160.0, BOTTLENECK, BOTTLENECK),  # 84 % is below 85 %
        (900.0, 100.0, FINE, BOTTLENECK),  # 90 % passes, while the queue grows by 10 % of what is offered
        (960.0, 40.0, FINE, FINE),  # 4 % is within the 5 % that are allowed
        (900.0, None, FINE, FINE),  # no trend was measured: nothing is made up
        (1000.0, -200.0, FINE, FINE),  # catching up
    ],
)
def test_growing_queues(taken: float, growth: float | None, by_the_paper: int, watchful: int) -> None:
    assert label_observation(FLOW, seen(taken, growth))["op1"] == by_the_paper
    assert label_observation(FLOW, seen(taken, growth), WATCHFUL)["op1"] == watchful


def test_engines_with_backpressure_are_judged_as_before() -> None:
    assert label_observation(FLOW, seen(900, 500, reports_backpressure=True), WATCHFUL)["op1"] == FINE


@given(st.floats(0, 1000), st.one_of(st.none(), st.floats(-1000, 1000), st.just(math.nan)))
def test_the_trend_only_ever_adds_bottlenecks(taken: float, growth: float | None) -> None:
    plain = label_observation(FLOW, seen(taken, growth))
    watchful = label_observation(FLOW, seen(taken, growth), WATCHFUL)
    assert all(watchful[key] == BOTTLENECK for key, label in plain.items() if label == BOTTLENECK)
    assert all(label == watchful[key] for key, label in plain.items() if key != "op1")


def test_named_bottlenecks_count_as_backpressure_and_are_the_suspects() -> None:
    calm, short = seen(1000, 0), seen(500, 500, ("op1",))
    assert not calm.has_backpressure
    assert short.has_backpressure
    assert short.backpressured() == ()
    assert suspects(FLOW, short) == ("op1",)
