"""What ``streamtune tune --engine timely`` does before and while a job runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.timely.jobs import chain
from streamtune.cli.timely_tuning import find_timely_job, tune_timely
from streamtune.engines.base import MeasurementWindow
from streamtune.errors import StreamTuneError
from streamtune.tuners import make_tuner


def test_built_in_workloads_are_scaled_and_files_are_taken_as_they_are(tmp_path: Path) -> None:
    assert sum(find_timely_job("nexmark-q5").job.source_rates.values()) < 1000
    file = tmp_path / "chain.yaml"
    file.write_text(chain(rate=123).to_yaml(), encoding="utf-8")
    assert find_timely_job(str(file)).job.source_rates == {"numbers": 123.0}


def test_rates_beyond_the_emulation_are_refused_before_anything_starts() -> None:
    with pytest.raises(StreamTuneError, match="moves 40,000 at most"):
        tune_timely("nexmark-q1", lambda job: make_tuner("ds2", job), "cycle")


@pytest.mark.realtime
@pytest.mark.flaky(reruns=2, only_rerun=["AssertionError"])
def test_a_story_on_timely(tmp_path: Path) -> None:
    job, rates = tmp_path / "chain.yaml", tmp_path / "rates.yaml"
    job.write_text(chain(service_us=2000, rate=400).to_yaml(), encoding="utf-8")
    rates.write_text("[3]\n", encoding="utf-8")
    story = tune_timely(
        str(job), lambda tuned: make_tuner("ds2", tuned), str(rates), window=MeasurementWindow(0.5, 1.5)
    )
    # 1,200 records/s at 500 per instance are 2.4 instances.
    assert story.engine == "timely"
    assert story.changes[0].plan["work"] in (3, 4)
    assert "work" in story.steps[0].observation.bottlenecks
