"""Labels of one observation, as the online tuner asks for them."""

from __future__ import annotations

from datetime import UTC, datetime

from streamtune.dataflow import Dataflow, Observation, OperatorMetrics
from streamtune.readings import label_observation

FLOW = Dataflow.from_edges(["source", "map", "filter", "sink"], [(0, 1), (0, 2), (1, 3), (2, 3)])


def metrics(busy: float, backpressured: float, rate: float = 1000.0) -> OperatorMetrics:
    return OperatorMetrics(
        parallelism=1,
        records_in_per_s=rate,
        records_out_per_s=rate,
        busy_ms_per_s=busy,
        idle_ms_per_s=1000 - busy - backpressured,
        backpressured_ms_per_s=backpressured,
    )


def observation(**operators: OperatorMetrics) -> Observation:
    return Observation(
        observed_at=datetime(2026, 11, 16, tzinfo=UTC), window_s=60, source_rates={"op0": 1000.0}, operators=operators
    )


def test_the_busy_successor_is_the_bottleneck() -> None:
    seen = observation(op0=metrics(300, 700), op1=metrics(980, 0), op2=metrics(150, 0), op3=metrics(10, 0))
    assert label_observation(FLOW, seen) == {"op0": -1, "op1": 1, "op2": 0, "op3": -1}


def test_an_operator_that_is_not_observed_is_unlabelled() -> None:
    seen = observation(op0=metrics(300, 0), op1=metrics(300, 0), op3=metrics(10, 0))
    assert label_observation(FLOW, seen) == {"op0": 0, "op1": 0, "op2": -1, "op3": 0}


def test_timely_is_judged_by_rates() -> None:
    seen = observation(op0=metrics(0, 0), op1=metrics(0, 0, 500), op2=metrics(0, 0, 900), op3=metrics(0, 0, 1400))
    assert label_observation(FLOW, seen.model_copy(update={"reports_backpressure": False})) == {
        "op0": 0,
        "op1": 1,
        "op2": 0,
        "op3": 0,
    }
