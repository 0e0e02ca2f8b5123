"""Job specs on their way to Flink: scaled without changing what they need, published without their secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import EmulatedJob, emulated_jobs
from streamtune.dataflow import Plan
from streamtune.dataflow.physics import smallest_parallelism
from streamtune.dataflow.spec import JobSpec, parse_spec
from streamtune.engines.flink import FlinkClient
from streamtune.engines.flink.published import JOB_PARAMETER, read_rates, write_rates
from streamtune.errors import EngineError
from streamtune.labs.flink import Submitter, WorkloadSettings
from streamtune.labs.flink.program import program_argument
from streamtune.labs.flink.scaling import scale_spec
from streamtune.readings.demand import input_rates


def needs(spec: JobSpec, multiple: float, limit: int) -> dict[str, int | None]:
    assert spec.physics is not None
    rates = {source: multiple * rate for source, rate in spec.job.source_rates.items()}
    demand = input_rates(spec.job.dataflow, {key: one.selectivity for key, one in spec.physics.items()}, rates)
    return {key: smallest_parallelism(spec.physics[key], rate, limit) for key, rate in demand.items()}


@given(emulated_jobs(), st.floats(50, 2000))
def test_scaling_keeps_what_operators_need(emulated: EmulatedJob, max_rate_per_s: float) -> None:
    spec = JobSpec(emulated.job, emulated.physics)
    peak = {source: 10 * rate for source, rate in spec.job.source_rates.items()}
    small = scale_spec(spec, peak, max_rate_per_s=max_rate_per_s)
    assert small.physics is not None
    selectivities = {key: one.selectivity for key, one in small.physics.items()}
    small_peak = {source: 10 * rate for source, rate in small.job.source_rates.items()}
    assert max(input_rates(small.job.dataflow, selectivities, small_peak).values()) <= max_rate_per_s * (1 + 1e-9)
    before, after = needs(spec, 10, 1000), needs(small, 10, 1000)
    for key in spec.job.dataflow.index:
        if small.physics[key].service_us > 20:  # the least that can be emulated
            assert before[key] == after[key]


@given(emulated_jobs(), st.integers(1, 12))
def test_scaling_to_few_slots(emulated: EmulatedJob, limit: int) -> None:
    spec = JobSpec(emulated.job, emulated.physics)
    peak = {source: 10 * rate for source, rate in spec.job.source_rates.items()}
    small = scale_spec(spec, peak, max_rate_per_s=500.0, max_parallelism=limit)
    found = needs(small, 10, limit)
    assert all(found[key] is not None for key in found if key not in spec.job.source_rates)


@given(emulated_jobs())
def test_what_a_job_publishes_has_no_physics(emulated: EmulatedJob) -> None:
    """Whoever attaches reads this, tuners included: the hidden truth must not be in it."""
    spec = JobSpec(emulated.job, emulated.physics)
    argument = json.loads(program_argument(spec, spec.job.initial_plan, Path("/rates"), WorkloadSettings()))
    published = argument["shown"][JOB_PARAMETER]
    assert "physics" not in published
    assert "service_us" not in published
    assert parse_spec(json.loads(published)).job == spec.job
    assert [entry["id"] for entry in argument["operators"]] == list(spec.job.dataflow.order)


def test_a_spec_without_physics_cannot_be_emulated(tmp_path: Path) -> None:
    spec = parse_spec({"name": "bare", "operators": [{"id": "s", "type": "source", "rate": 1}]})
    with pytest.raises(EngineError, match="has no physics"):
        program_argument(spec, Plan({"s": 1}), tmp_path / "r", WorkloadSettings())


def test_rates_are_written_whole_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rates.json"
    write_rates(path, {"bids": 12.5})
    assert read_rates(path) == {"bids": 12.5}
    assert [found.name for found in path.parent.iterdir()] == ["rates.json"]


@pytest.mark.parametrize("content", ["", "[1]", '{"bids": "many"}', "null"])
def test_rates_that_cannot_be_read_are_unknown(tmp_path: Path, content: str) -> None:
    (tmp_path / "rates.json").write_text(content)
    assert read_rates(tmp_path / "rates.json") is None
    assert read_rates(tmp_path / "missing.json") is None


def test_a_script_gets_a_name_and_checkpoints_unless_it_sets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script of the SQL client's was refused at its first SET, and without checkpoints no job is tuned."""
    monkeypatch.setattr(Submitter, "jar_id", "jar")
    submitter = Submitter(FlinkClient("http://127.0.0.1:1"), folder=tmp_path)
    found = submitter.sql_program("SET 'pipeline.name' = 'my own'; INSERT INTO a SELECT 1;", "query")
    assert found.arguments == (
        "SET execution.checkpointing.interval=5000 ms",
        "SET pipeline.name=query",
        "SET pipeline.name=my own",
        "INSERT INTO a SELECT 1",
    )


def test_an_empty_script_is_refused(tmp_path: Path) -> None:
    submitter = Submitter(FlinkClient("http://127.0.0.1:1"), folder=tmp_path)
    with pytest.raises(EngineError, match="SQL script is empty"):
        submitter.sql_program(" ;\n ")
