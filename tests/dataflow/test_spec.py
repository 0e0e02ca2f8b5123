"""Job specs: what is read comes back, and every kind of bad spec has its message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given

from strategies import EmulatedJob, emulated_jobs
from streamtune.dataflow.spec import JobSpec, load_spec, parse_spec
from streamtune.errors import SpecError

BAD = Path(__file__).parents[1] / "jobs" / "bad"
EXAMPLE = """
name: nexmark-q5
operators:
  - {id: bids, type: source, rate: 80000, tuple_width_out: 5, tuple_type: long}
  - id: hot_items
    type: window_aggregate
    inputs: [bids]
    window: {type: sliding, policy: time, length: 10s, slide: 2s}
    aggregate: {function: count, class: long, key_class: long}
    tuple_width_in: 5
    tuple_width_out: 3
  - {id: sink, type: sink, inputs: [hot_items]}
max_parallelism: 100
physics:
  bids: {service_us: 2}
  hot_items: {service_us: 900, selectivity: 0.1, contention: 0.01, coherency: 0.0002, skew: 0.3, cv: 0.4}
  sink: {service_us: 5}
"""


def test_the_example_of_the_design_is_read() -> None:
    spec = parse_spec(yaml.safe_load(EXAMPLE))
    hot_items = spec.job.dataflow.operator("hot_items")
    assert hot_items.window is not None
    assert (hot_items.window.length, hot_items.window.slide) == (10.0, 2.0)
    assert hot_items.aggregate is not None
    assert hot_items.aggregate.value_class == "long"
    assert spec.job.dataflow.edges[0].partitioning == "hash"
    assert spec.physics is not None
    assert spec.physics["hot_items"].selectivity == 0.1


def test_a_window_may_be_as_long_as_days() -> None:
    """2 days are 2 · 24 · 3,600 = 172,800 s."""
    text = EXAMPLE.replace("length: 10s, slide: 2s", "length: 2d, slide: 12h")
    window = parse_spec(yaml.safe_load(text)).job.dataflow.operator("hot_items").window
    assert window is not None
    assert (window.length, window.slide) == (172_800.0, 43_200.0)


@given(emulated_jobs())
def test_a_written_spec_reads_back_equal(emulated: EmulatedJob) -> None:
    spec = JobSpec(emulated.job, emulated.physics)
    assert parse_spec(yaml.safe_load(spec.to_yaml())) == spec


def test_json_reads_like_yaml(tmp_path: Path) -> None:
    data = yaml.safe_load(EXAMPLE)
    (tmp_path / "job.json").write_text(json.dumps(data))
    (tmp_path / "job.yaml").write_text(EXAMPLE)
    assert load_spec(tmp_path / "job.json") == load_spec(tmp_path / "job.yaml")


def test_physics_is_optional() -> None:
    data = yaml.safe_load(EXAMPLE)
    del data["physics"]
    assert parse_spec(data).physics is None


@pytest.mark.parametrize("path", sorted(BAD.glob("*.yaml")), ids=lambda path: path.stem)
def test_bad_spec_says_what_is_wrong(path: Path) -> None:
    expected = path.read_text().splitlines()[0].removeprefix("# expect: ")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_broken_json(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        load_spec(tmp_path / "absent.yaml")
    (tmp_path / "broken.json").write_text('{"name": ')
    with pytest.raises(SpecError, match="not valid JSON"):
        load_spec(tmp_path / "broken.json")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00bad")
    with pytest.raises(SpecError, match="not UTF-8"):
        load_spec(tmp_path / "binary.yaml")


def test_with_rates_changes_the_nominal_rates_alone() -> None:
    spec = parse_spec(yaml.safe_load(EXAMPLE))
    faster = spec.with_rates({"bids": 160000})
    assert faster.job.source_rates == {"bids": 160000.0}
    assert faster.physics == spec.physics
    assert faster.job.dataflow.canonical_form == spec.job.dataflow.canonical_form
