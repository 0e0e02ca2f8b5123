"""Plans and history records."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import EmulatedJob, emulated_jobs
from streamtune.dataflow import Observation, OperatorMetrics, Plan, Run
from streamtune.errors import DataflowError


@pytest.mark.parametrize("degree", [0, -3, 1.5, True, "4"])
def test_a_plan_holds_whole_numbers_from_one_up(degree: object) -> None:
    with pytest.raises(DataflowError, match="operator 'a' field 'parallelism': must be a whole number of at least 1"):
        Plan({"a": degree})  # type: ignore[dict-item]


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 100), min_size=1))
def test_changes_lead_from_one_plan_to_the_other(degrees: dict[str, int]) -> None:
    plan = Plan(degrees)
    other = plan.replace({key: value + 1 for key, value in list(degrees.items())[:1]})
    changed = {key: there for key, (_, there) in plan.changes(other).items()}
    assert plan.replace(changed) == other
    assert other.total == plan.total + 1


def observed(emulated: EmulatedJob) -> Observation:
    metrics = OperatorMetrics(
        parallelism=2,
        records_in_per_s=10,
        records_out_per_s=5,
        busy_ms_per_s=600,
        idle_ms_per_s=300,
        backpressured_ms_per_s=100,
    )
    return Observation(
        observed_at=datetime(2026, 3, 1, tzinfo=UTC),
        window_s=60,
        source_rates=emulated.job.source_rates,
        operators=dict.fromkeys(emulated.job.dataflow.index, metrics),
    )


@given(emulated_jobs())
def test_a_run_keeps_the_dag_and_survives_json(emulated: EmulatedJob) -> None:
    run = Run.of("r1", emulated.job, "simulator", observed(emulated))
    back = Run.model_validate(run.to_record())
    assert back == run
    assert back.dataflow.canonical_form == emulated.job.dataflow.canonical_form
    for mine, theirs in zip(back.dataflow.operators, emulated.job.dataflow.operators, strict=True):
        assert mine == theirs.model_copy(update={"parallelism": None})


def test_shares_and_backpressure() -> None:
    """busy 600, idle 250, backpressured 150 of 1000 ms: R = 0.60, share = 0.15 > 0.10."""
    metrics = OperatorMetrics(
        parallelism=1,
        records_in_per_s=1,
        records_out_per_s=1,
        busy_ms_per_s=600,
        idle_ms_per_s=250,
        backpressured_ms_per_s=150,
    )
    assert metrics.busy_share == 0.6
    assert metrics.backpressured_share == 0.15
    seen = Observation(
        observed_at=datetime(2026, 1, 1, tzinfo=UTC), window_s=1, source_rates={}, operators={"a": metrics}
    )
    assert seen.backpressured() == ("a",)
    assert seen.backpressured(share=0.2) == ()
