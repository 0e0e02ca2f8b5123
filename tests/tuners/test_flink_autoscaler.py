"""The Flink autoscaler's rules, each against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, OperatorMetrics
from streamtune.settings import SettingsError
from streamtune.tuners import FlinkAutoscaler, FlinkAutoscalerSettings
from streamtune.tuners.flink_autoscaler import Target, align, capacity_for
from tuners.sightings import chain, metrics, sighting

AT_ONCE = FlinkAutoscalerSettings(scale_down_interval_s=0)


def busy_pipeline(count_busy: float) -> Observation:
    """1,000/s are offered and read, 90,000 wait; op1 halves the stream, op2 is hashed and has 10 instances."""
    return sighting(
        {
            "source": metrics(2, 1000, 100, lag=90_000),
            "op1": metrics(4, 1000, 600, emitted=500, hottest=800),
            "op2": metrics(10, 500, count_busy, hottest=count_busy),
        }
    )


def test_worked_example() -> None:
    """C = 90,000 / 1,800 s = 50/s of catch-up; T = 1,000/s.

    op1: TPR = 1000 / 0.8 (the hottest subtask, not the mean 0.6) = 1,250.
         cap(0.7, restart) = 50 + 1000·300/1800 + 1000/0.7 = 50 + 166.7 + 1,428.6 = 1,645
         f = 1645/1250 = 1.316, q = ⌈1.316·4⌉ = ⌈5.26⌉ = 6. Within its bounds: 50 + 1000/1.0 = 1,050 ≤ 1,250 ≤
         50 + 166.7 + 1000/0.4 = 2,717. Its input is rebalanced: no alignment.
    op2: k = 500/1000, so T = 500, C = 25; TPR = 500/1.0 = 500 < cap(1.0, no) = 25 + 500 = 525: outside.
         cap(0.7, restart) = 25 + 83.3 + 714.3 = 822.6 → 823; f = 1.646, q = ⌈16.46⌉ = 17.
         128 key groups: 128 div 17 = 7, 128 div 18 = 7, 128 div 19 = 6 → 19.
    op2 is outside, so both move.
    """
    found = FlinkAutoscaler(chain("map", "aggregate"), AT_ONCE).recommend(busy_pipeline(1000))
    assert dict(found.plan) == {"source": 2, "op1": 6, "op2": 19}
    assert found.figures["op1"] == {
        "target_per_s": 1000,
        "catch_up_per_s": 50,
        "true_processing_rate": 1250,
        "needed_per_s": 1645,
        "factor": 1645 / 1250,
    }
    assert found.figures["op2"]["needed_per_s"] == 823
    assert not found.provisional


def test_nothing_moves_while_all_that_would_change_is_within_bounds() -> None:
    """op2 at 70 % busy: TPR = 500/0.7 = 714, between 525 and 25 + 83.3 + 1,250 = 1,358. It would go to
    ⌈823/714.3·10⌉ = ⌈11.5⌉ = 12, aligned 13, and op1 to 6: neither is outside its bounds, so nothing happens."""
    found = FlinkAutoscaler(chain("map", "aggregate"), AT_ONCE).recommend(busy_pipeline(700))
    assert dict(found.plan) == {"source": 2, "op1": 4, "op2": 10}
    assert "within its bounds; nothing that would change is outside" in found.why["op2"]
    assert "is 13" in found.why["op2"]


def overprovisioned(rate: float, minute: float = 0, parallelism: int = 20) -> Observation:
    """op1 serves 10,000/s with 20 instances and is asked for ``rate``."""
    return sighting(
        {
            "source": metrics(1, rate, 10),
            "op1": metrics(parallelism, rate, rate / 10, hottest=rate / 10 * 20 / parallelism),
        },
        offered=rate,
        minute=minute,
    )


def test_a_scale_down_is_clamped_and_then_asked_about_again() -> None:
    """Rate 1,000: TPR = 10,000; cap(0.7, restart) = 166.7 + 1,428.6 = 1,595; f = 0.16, clamped to 1 − 0.6 = 0.4:
    q = 0.4·20 = 8. Outside: 10,000 > cap(0.4, restart) = 166.7 + 2,500 = 2,667."""
    found = FlinkAutoscaler(chain("map"), AT_ONCE).recommend(overprovisioned(1000))
    assert found.plan["op1"] == 8
    assert found.provisional


def test_the_bounds_of_parallelism_hold() -> None:
    """op1 serves 10/s per instance and 10,000/s are asked: f·p = (1667 + 14286)/10 = 1,596 instances.
    Allowed are min(job's 128, max(4, 200)) = 128, with a vertex limit of 50: min(128, max(4, 50)) = 50."""
    seen = sighting({"source": metrics(1, 40, 10), "op1": metrics(4, 40, 1000, hottest=1000)}, offered=10_000)
    assert FlinkAutoscaler(chain("map"), AT_ONCE).recommend(seen).plan["op1"] == 128
    limited = FlinkAutoscalerSettings(vertex_max_parallelism=50)
    assert FlinkAutoscaler(chain("map"), limited).recommend(seen).plan["op1"] == 50


def test_a_scale_down_waits_and_takes_the_largest_of_its_interval() -> None:
    """Capacity 10,000/s at 20. Needed is 1.5952·rate: 2,500 → 3,988 → ⌈0.3988·20⌉ = 8, 3,000 → 4,786 → 10.

    Minute 0: 8, waits. Minute 30: 10, waits. Minute 59: still waits. Minute 60: the interval is over; the largest
    recommendation in it was 10, though now 8 would do."""
    tuner = FlinkAutoscaler(chain("map"))
    for rate, minute in ((2500, 0), (3000, 30), (2500, 59)):
        waiting = tuner.recommend(overprovisioned(rate, minute))
        assert waiting.plan["op1"] == 20
        assert "the scale-down waits" in waiting.why["op1"]
    assert tuner.recommend(overprovisioned(2500, 60)).plan["op1"] == 10


def test_a_wish_to_grow_ends_the_wait() -> None:
    """At 12,000/s op1 must grow, so the scale-down first wanted at minute 0 starts to wait anew at minute 40."""
    tuner = FlinkAutoscaler(chain("map"))
    tuner.recommend(overprovisioned(2500, 0))
    grown = sighting({"source": metrics(1, 9999, 10), "op1": metrics(20, 9999, 1000, hottest=1000)}, offered=12_000)
    assert (
        tuner.recommend(grown.model_copy(update={"observed_at": overprovisioned(1, 20).observed_at})).plan["op1"] == 39
    )  # (2,000 + 17,142.9)/9,999 · 20 = 38.3
    assert tuner.recommend(overprovisioned(2500, 40)).plan["op1"] == 20
    assert tuner.recommend(overprovisioned(2500, 60)).plan["op1"] == 20
    assert tuner.recommend(overprovisioned(2500, 100)).plan["op1"] == 8


@pytest.mark.parametrize(("lag", "expected"), [(60_000, 4), (3_000, 2)])
def test_a_lagging_source_is_judged_by_what_it_reads(lag: float, expected: int) -> None:
    """Source: 600/s at 30 % busy → B = 2,000; a quarter of its time backpressured → O = 600/0.75 = 800.

    Lag 60,000 > 30 s · 600 = 18,000: B = 2,000 > 1.15·800 = 920, so TPR = 800. T = 900 (600 read + 300 lag growth),
    C = 60,000/1,800 = 33.3: cap = 33.3 + 150 + 1,285.7 = 1,469; f = 1.836; ⌈1.836·2⌉ = 4; outside, since
    800 < 33.3 + 900. Lag 3,000: not lagging, TPR = 2,000: cap = 1.7 + 150 + 1,285.7 = 1,437; f = 0.72 → 2."""
    seen = sighting(
        {"source": metrics(2, 600, 300, blocked=250, hottest=300, lag=lag), "op1": metrics(4, 600, 500, hottest=500)},
        offered=900,
    )
    settings = FlinkAutoscalerSettings(tune_sources=True, scale_down_interval_s=0)
    assert FlinkAutoscaler(chain("map"), settings).recommend(seen).plan["source"] == expected


def test_the_growth_of_the_lag_stands_in_for_an_unknown_offered_rate() -> None:
    """12,000 more waiting after 60 s: T = 600 + 200 = 800/s. C = 15,000/1,800 = 8.3."""
    tuner = FlinkAutoscaler(chain("map"), AT_ONCE)
    for minute, lag in ((0, 3_000), (1, 15_000)):
        seen = sighting(
            {"source": metrics(2, 600, 300, lag=lag), "op1": metrics(4, 600, 1000, hottest=1000)},
            offered={},
            minute=minute,
        )
        tuner.learn(seen)
    assert tuner.recommend(seen).figures["op1"]["target_per_s"] == pytest.approx(800)


def two_sources(*, b_read_twice: bool) -> Job:
    operators = (
        Operator(id="a", type="source", rate=1),
        Operator(id="b", type="source", rate=1),
        Operator(id="join", type="join"),
        Operator(id="other", type="map"),
    )
    edges = [Edge("a", "join", "hash"), Edge("b", "join", "hash"), Edge("b" if b_read_twice else "a", "other")]
    return Job("two", Dataflow(operators, tuple(edges)), max_parallelism=128)


@pytest.mark.parametrize(("b_read_twice", "expected"), [(False, 820.0), (True, 810.0)])
def test_records_over_an_edge_of_a_join(b_read_twice: bool, expected: float) -> None:
    """a reads and emits 300 of 600 offered, b 200 of 200; the join takes 510. One of them is also read by another.

    a read twice: edge a = 510 − b's 200 = 310, so 600·310/300 = 620; edge b = b's output 200, so 200·200/200 = 200.
    b read twice: edge a = a's output 300, so 600·300/300 = 600; edge b = 510 − a's 300 = 210, so 200·210/200 = 210.
    """
    seen = sighting(
        {
            "a": metrics(1, 300, 100),
            "b": metrics(1, 200, 100),
            "join": metrics(2, 510, 900, hottest=900),
            "other": metrics(1, 100, 100),
        },
        offered={"a": 600, "b": 200},
    )
    found = FlinkAutoscaler(two_sources(b_read_twice=b_read_twice), AT_ONCE).recommend(seen)
    assert found.figures["join"]["target_per_s"] == pytest.approx(expected)


def test_capacity_rounds_halves_up() -> None:
    """T/U = 10.5 → 11, where Python's round would give 10."""
    assert capacity_for(Target(10.5, 0), 1.0, AT_ONCE, restart=False) == 11


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
def test_alignment_never_shrinks_and_never_passes_its_limits(
    wanted: int, current: int, groups: int, upper: int
) -> None:
    found = align(wanted, current, groups, upper)
    assert found >= wanted
    if found > wanted:
        assert found <= min(groups, upper)
        assert wanted > current or found <= current or wanted == current
        assert groups % found == 0 or groups // found < groups // wanted


@given(st.floats(1000, 1e6), st.floats(1.0, 5.0), st.floats(50, 1000))
def test_needs_grow_with_the_offered_rate(rate: float, more: float, busy: float) -> None:
    seen = sighting({"source": metrics(1, rate, 10), "op1": metrics(9, rate, busy, hottest=busy)}, offered=rate)
    higher = seen.model_copy(update={"source_rates": {"source": rate * more}})
    small, large = (FlinkAutoscaler(chain("map"), AT_ONCE).recommend(one).figures["op1"] for one in (seen, higher))
    assert large["needed_per_s"] >= small["needed_per_s"]
    assert large["true_processing_rate"] == small["true_processing_rate"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"utilization_target": 1.2}, "utilization_target must be at most 1, but got 1.2"),
        ({"utilization_target": 0.2}, "utilization_target must be in .* and above utilization_boundary"),
        ({"catch_up_s": 0}, "catch_up_s must be above 0, but got 0"),
        ({"vertex_min_parallelism": 300}, "vertex_min_parallelism must be from 1 to vertex_max_parallelism"),
        ({"restart_s": float("nan")}, "restart_s must be a finite number, but got nan"),
    ],
)
def test_bad_settings_are_refused(bad: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        FlinkAutoscalerSettings(**bad)  # type: ignore[arg-type]


def test_the_true_processing_rate_is_infinite_zero_or_unknown() -> None:
    """Idle: any rate. Busy without a record: 0, which is a number. Nothing measured: unknown."""
    tuner = FlinkAutoscaler(two_sources(b_read_twice=False))

    def rate(taken: float, busy: float) -> float | None:
        found = OperatorMetrics(
            parallelism=1,
            records_in_per_s=taken,
            records_out_per_s=taken,
            busy_ms_per_s=1000 * busy,
            idle_ms_per_s=1000 * (1 - busy),
            backpressured_ms_per_s=0.0,
        )
        return tuner._true_processing_rate(tuner.job.dataflow.order[-1], found)

    assert rate(100.0, 0.0) == math.inf
    assert rate(100.0, 0.5) == 200.0
    assert rate(0.0, 0.5) == 0.0
    assert rate(math.nan, 0.5) is None
    assert rate(100.0, math.nan) is None
