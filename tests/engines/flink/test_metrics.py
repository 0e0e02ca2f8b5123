"""Counter differences become observations; everything doubtful becomes NotReady, never zeros."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator
from streamtune.engines.base import NotReady
from streamtune.engines.flink.metrics import Snapshot, SubtaskCounters, counters_of, observation_between
from streamtune.engines.flink.responses import VertexDetails, parse

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FLOW = Dataflow(
    (Operator(id="source", type="source", rate=1.0), Operator(id="work", type="map"), Operator(id="sink", type="sink")),
    (Edge("source", "work"), Edge("work", "sink")),
)
JOB = Job("job", FLOW)


def subtask(*values: float, incarnation: tuple[int, int] = (0, 1)) -> SubtaskCounters:
    return SubtaskCounters(incarnation, *values)


FIRST = Snapshot(
    NOW,
    0.0,
    {
        "source": (subtask(1000, 1000, 500, 1500, 0),),
        "work": (subtask(500, 500, 1900, 100, 0), subtask(500, 500, 1000, 1000, 0)),
        "sink": (subtask(1000, 0, 10, 1990, 0),),
    },
)
# Ten seconds later by every subtask's own clock. The source: 3,000 records, 1 s busy, 3 s idle, 6 s blocked. Work: the
# first subtask 10 s busy for 1,000 records, the second 5 s busy and 5 s idle for 2,000.
LAST = Snapshot(
    NOW + timedelta(seconds=10),
    10.0,
    {
        "source": (subtask(4000, 4000, 1500, 4500, 6000),),
        "work": (subtask(1500, 1000, 11900, 100, 0), subtask(2500, 1500, 6000, 6000, 0)),
        "sink": (subtask(2500, 0, 60, 11940, 0),),
    },
)


def observed(first: Snapshot, last: Snapshot, **offered: float) -> Observation:
    seen = observation_between(first, last, JOB, offered)
    assert isinstance(seen, Observation)
    return seen


def not_ready(first: Snapshot, last: Snapshot) -> str:
    seen = observation_between(first, last, JOB, {})
    assert isinstance(seen, NotReady)
    return seen.reason


def test_golden_numbers() -> None:
    seen = observed(FIRST, LAST)
    source, work, sink = (seen.operators[key] for key in ("source", "work", "sink"))
    assert (source.records_in_per_s, source.records_out_per_s) == (300, 300)
    assert (source.busy_ms_per_s, source.idle_ms_per_s, source.backpressured_ms_per_s) == (100, 300, 600)
    # (1,000 + 2,000) in and (500 + 1,000) out in 10 s; busy (10 + 5) s of 20 s
    assert (work.records_in_per_s, work.records_out_per_s) == (300, 150)
    assert (work.busy_ms_per_s, work.busy_max_ms_per_s, work.parallelism) == (750, 1000, 2)
    assert sink.records_out_per_s == 0
    assert seen.window_s == 10
    # 300/s taken while blocked 60 % of the time and idle now and then: from 300/s to 300 / 0.4 = 750/s, so √(300 · 750)
    # give or take ln(2.5) / √12
    assert seen.source_rates["source"] == pytest.approx(474.34, abs=0.01)
    assert seen.rate_origins == {"source": "estimated"}
    assert seen.rate_sds["source"] == pytest.approx(0.2645, abs=1e-4)
    assert seen.backpressured() == ("source",)


def test_a_known_rate_goes_before_the_estimate() -> None:
    assert observed(FIRST, LAST, source=1234.0).source_rates == {"source": 1234.0}


def test_a_lag_that_grows_is_part_of_what_was_offered() -> None:
    first, last = replace(FIRST, lag_records={"source": 100.0}), replace(LAST, lag_records={"source": 2100.0})
    seen = observed(first, last)
    assert seen.source_rates["source"] == pytest.approx(300 + 2000 / 10)
    assert seen.operators["source"].lag_records == 2100


@pytest.mark.parametrize("jump_s", [-7200, -40, 40, 7200])
def test_a_clock_that_is_set_within_the_window_changes_nothing(jump_s: float) -> None:
    """Growth of lag and the length of windows were divided by what the wall clock said."""
    first, last = replace(FIRST, lag_records={"source": 100.0}), replace(LAST, lag_records={"source": 2100.0})
    jumped = replace(last, taken_at=last.taken_at + timedelta(seconds=jump_s))
    seen = observed(first, jumped)
    assert seen.source_rates == observed(first, last).source_rates
    assert seen.window_s == pytest.approx(10)


def test_the_age_of_what_rest_serves_does_not_matter() -> None:
    """Wall time says 14 s because the second fetch was late; the subtasks' own clocks say 10 s."""
    late = replace(LAST, taken_s=14.0)
    assert observed(FIRST, late).operators == observed(FIRST, LAST).operators


def test_values_that_do_not_move_are_stale() -> None:
    assert "stale" in not_ready(FIRST, replace(FIRST, taken_s=10.0))


def test_a_restart_within_the_window_is_no_measurement() -> None:
    restarted = tuple(replace(one, incarnation=(1, 2)) for one in LAST.operators["work"])
    assert "restarted" in not_ready(FIRST, replace(LAST, operators={**LAST.operators, "work": restarted}))
    rescaled = LAST.operators["work"][:1]
    assert "rescaled" in not_ready(FIRST, replace(LAST, operators={**LAST.operators, "work": rescaled}))


def test_counters_that_go_backwards_are_no_measurement() -> None:
    back = (replace(LAST.operators["source"][0], records_in=10.0),)
    assert "backwards" in not_ready(FIRST, replace(LAST, operators={**LAST.operators, "source": back}))


def test_a_source_without_busy_time_keeps_it_unknown() -> None:
    """Sources of the old kind report NaN; the wall clock is then the length of the window."""
    old = [{**s.operators, "source": (replace(s.operators["source"][0], busy_ms=math.nan),)} for s in (FIRST, LAST)]
    seen = observed(replace(FIRST, operators=old[0]), replace(LAST, operators=old[1]))
    source = seen.operators["source"]
    assert math.isnan(source.busy_ms_per_s)
    assert source.busy_max_ms_per_s is None
    assert source.records_out_per_s == 300
    assert source.backpressured_ms_per_s == 600


def vertex(**changes: object) -> VertexDetails:
    metrics = {
        "read-records": 5,
        "write-records": 5,
        "accumulated-busy-time": 10.0,
        "accumulated-idle-time": 10,
        "accumulated-backpressured-time": 0,
        **{key.replace("_", "-"): value for key, value in changes.items() if key != "status"},
    }
    entry = {
        "subtask": 0,
        "attempt": 0,
        "status": changes.get("status", "RUNNING"),
        "start-time": 1,
        "metrics": metrics,
    }
    return parse(VertexDetails, {"id": "v", "name": "Map", "parallelism": 1, "subtasks": [entry]}, "test")


def test_counters_are_read_as_they_are() -> None:
    found = counters_of(vertex())
    assert found == (subtask(5, 5, 10, 10, 0),)


def test_a_source_of_the_old_kind_only_counts_what_it_emits() -> None:
    found = counters_of(vertex(read_records=0, accumulated_busy_time="NaN", accumulated_idle_time=0))
    assert not isinstance(found, NotReady)
    assert (found[0].records_out, math.isnan(found[0].clock_ms)) == (5, True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": "INITIALIZING"}, "is INITIALIZING"),
        ({"read_records_complete": False}, "no metrics yet"),
        ({"accumulated_idle_time": None}, "no metrics yet"),
        ({"read_records": 0, "write_records": 0, "accumulated_busy_time": 0, "accumulated_idle_time": 0}, "no metrics"),
    ],
)
def test_missing_metrics_are_not_zeros(changes: dict[str, object], reason: str) -> None:
    found = counters_of(vertex(**changes))
    assert isinstance(found, NotReady)
    assert reason in found.reason


amounts = st.floats(0, 1e6)


@given(st.lists(st.tuples(amounts, amounts, amounts, amounts, amounts), min_size=1, max_size=5), st.floats(1, 1000))
def test_shares_add_up_and_rates_are_never_negative(deltas: list[tuple[float, ...]], length_s: float) -> None:
    """Whatever the counters do, busy + idle + backpressured is a second, and the hottest is at least the mean."""
    before = tuple(subtask(0, 0, 0, 0, 0) for _ in deltas)
    scaled = []
    for records_in, records_out, busy, idle, blocked in deltas:
        total = busy + idle + blocked
        share = [part / total if total else 0.0 for part in (busy, idle, blocked)]
        scaled.append(subtask(records_in, records_out, *(1000 * length_s * part for part in share)))
    first = replace(FIRST, operators={**FIRST.operators, "work": before})
    last = replace(LAST, operators={**LAST.operators, "work": tuple(scaled)})
    seen = observation_between(first, last, JOB, {})
    if isinstance(seen, NotReady):
        assert "stale" in seen.reason
        return
    work = seen.operators["work"]
    parts = (work.busy_ms_per_s, work.idle_ms_per_s, work.backpressured_ms_per_s)
    assert min(work.records_in_per_s, work.records_out_per_s) >= 0
    if all(map(math.isfinite, parts)):
        assert sum(parts) == pytest.approx(1000)
        assert work.busy_max_ms_per_s is not None
        assert work.busy_max_ms_per_s >= work.busy_ms_per_s - 1e-6
