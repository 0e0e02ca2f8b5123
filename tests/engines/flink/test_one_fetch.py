"""What the JobManager serves is as old as its last fetch, which may arrive in the middle of a snapshot."""

from __future__ import annotations

from typing import Any

import pytest

from engines.flink.fake_flink import START, Answer, FakeFlink
from streamtune.dataflow import Observation
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine


class FetchingFlink(FakeFlink):
    """Serves counters as of its last fetch. A question begins the next one, if a second has passed; it arrives while
    the next but one question is on its way.
    """

    def __init__(self) -> None:
        self._fetched_s = 0.0
        self._answers_left: int | None = None
        super().__init__()

    @property
    def now_s(self) -> float:
        return self._fetched_s

    def answer(self, method: str, path: str, body: Any) -> Answer:
        found = super().answer(method, path, body)
        now_s = (self.clock.now() - START).total_seconds()
        if self._answers_left is not None:
            self._answers_left -= 1
            if self._answers_left == 0:
                self._fetched_s, self._answers_left = now_s, None
        elif now_s - self._fetched_s >= 1.0:
            self._answers_left = 1
        return found


def test_a_fetch_that_arrives_within_a_snapshot_does_not_mix_two_moments() -> None:
    with FetchingFlink() as fake:
        client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
        engine = FlinkEngine(client, clock=fake.clock)
        deployment = engine.attach()
        fake.clock.sleep(60.0)
        seen = engine.observe(deployment, MeasurementWindow(settle_s=1.0, length_s=6.0))
    assert isinstance(seen, Observation)
    # 400 records/s are offered, 100 are taken: the backlog grows by 300 in each second of the same window.
    assert seen.operators["bids"].records_in_per_s == pytest.approx(100, rel=0.02)
    assert seen.source_rates["bids"] == pytest.approx(400, rel=0.02)
