"""Polling costs little: one call per vertex and one for the job, whatever the parallelism, and little CPU."""

from __future__ import annotations

import time

from engines.flink.fake_flink import JOB, VERTICES, FakeFlink
from streamtune.engines.flink import FlinkClient, FlinkEngine
from streamtune.engines.flink.metrics import Snapshot
from streamtune.engines.flink.polling import Poller


def cost_of_a_snapshot(fake: FakeFlink, subtasks: int) -> tuple[int, float]:
    """REST calls, and CPU seconds of the thread that asks (the server has its own)."""
    fake.degrees = dict.fromkeys(VERTICES, subtasks)
    with FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0) as client:
        engine = FlinkEngine(client, clock=fake.clock)
        imported = engine.imported(engine.attach(JOB))
        poller = Poller(client, fake.clock)
        fake.clock.sleep(60)
        poller.snapshot(JOB, imported)  # asks once which sources have a lag
        cheapest = float("inf")
        for _ in range(5):
            calls, start = client.calls, time.thread_time()
            seen = poller.snapshot(JOB, imported)
            cheapest, calls = min(cheapest, time.thread_time() - start), client.calls - calls
        assert isinstance(seen, Snapshot)
        assert all(len(counters) == subtasks for counters in seen.operators.values())
        return calls, cheapest


def test_a_hundred_subtasks_cost_no_more_calls_and_little_cpu() -> None:
    """Three vertices of 100 subtasks took 7 ms of CPU when this was written: 20 vertices take about 50 ms."""
    with FakeFlink(slots=400) as fake:
        few, _ = cost_of_a_snapshot(fake, 2)
        calls, cpu_s = cost_of_a_snapshot(fake, 100)
    assert calls == few == 1 + len(VERTICES) + 1  # one more for what the source itself reports
    assert cpu_s < 0.1
