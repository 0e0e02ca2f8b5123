"""Latency by Flink's latency markers: what is read of them, and what must not disturb an observation."""

from __future__ import annotations

import pytest

from engines.flink.fake_flink import JOB, VERTICES, Answer, FakeFlink
from streamtune.dataflow import Observation
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine

WINDOW = MeasurementWindow(settle_s=10.0, length_s=20.0)
METRICS = f"/jobs/{JOB}/vertices/{VERTICES['sink']}/subtasks/metrics"


def observed(fake: FakeFlink, times: int = 1) -> Observation:
    engine = FlinkEngine(FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0), clock=fake.clock)
    deployment = engine.attach()
    for _ in range(times):
        seen = engine.observe(deployment, WINDOW)
        assert isinstance(seen, Observation)
    return seen


def test_the_last_operator_counts_with_the_mean_of_its_subtasks(fake: FakeFlink) -> None:
    fake.degrees["sink"] = 2
    fake.latency_ms = {"work": [40.0], "sink": [90.0, 110.0]}
    assert observed(fake).latency_ms == pytest.approx(100.0)


def test_subtasks_of_an_earlier_plan_do_not_count(fake: FakeFlink) -> None:
    fake.latency_ms = {"work": [40.0], "sink": [90.0, 5000.0]}
    assert observed(fake).latency_ms == pytest.approx(90.0)


def test_a_job_without_markers_is_asked_once(fake: FakeFlink) -> None:
    assert observed(fake, times=3).latency_ms is None
    assert fake.requests.count(f"GET {METRICS}") == 1


def test_a_median_that_is_no_number_is_none(fake: FakeFlink) -> None:
    fake.latency_ms = {"sink": [float("nan")]}
    assert observed(fake).latency_ms is None


@pytest.mark.parametrize("answer", [(404, {"errors": ["no"]}), (500, {"errors": ["no"]}), (200, {"not": "a list"})])
def test_a_window_is_not_lost_because_of_its_latency(fake: FakeFlink, answer: Answer) -> None:
    fake.intercept = lambda _method, path: answer if path.startswith(METRICS) else None
    assert observed(fake).latency_ms is None


def test_hundreds_of_subtasks_are_asked_for_in_lines_that_http_takes(fake: FakeFlink) -> None:
    fake.degrees["sink"] = 100
    fake.latency_ms = {"sink": [float(number) for number in range(100)]}
    assert observed(fake).latency_ms == pytest.approx(49.5)
    assert fake.requests.count(f"GET {METRICS}") == 1 + 100 / 20
