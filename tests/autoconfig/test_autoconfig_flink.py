"""The Flink objective against a JobManager that a test plays."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from streamtune.autoconfig.flink import FlinkObjective, FlinkTarget
from streamtune.autoconfig.spaces import engine_problem
from streamtune.errors import EngineError


class JobManager:
    """One job with a source and a sink: 100 records a second leave the source while it runs."""

    def __init__(self, *, fails: bool = False) -> None:
        self.now = 0.0
        self.state = "RUNNING"
        self.fails = fails
        self.submitted: list[dict[str, Any]] = []
        self.cancelled = 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/jars/upload":
            return httpx.Response(200, json={"filename": "/tmp/flink/abc_job.jar"})
        if request.url.path.endswith("/run"):
            self.submitted.append(json.loads(request.content))
            self.state = "FAILED" if self.fails else "RUNNING"
            return httpx.Response(200, json={"jobid": "j1"})
        if request.method == "PATCH":
            self.state, self.cancelled = "CANCELED", self.cancelled + 1
            return httpx.Response(202)
        return httpx.Response(200, json=self.details())

    def details(self) -> dict[str, Any]:
        def vertex(name: str, busy: float) -> dict[str, Any]:
            milliseconds = 1000 * self.now
            return {
                "id": name, "name": name, "parallelism": 2, "status": "RUNNING",
                "metrics": {
                    "read-records": 100 * self.now if name == "sink" else 0,
                    "write-records": 100 * self.now if name == "source" else 0,
                    "accumulated-busy-time": busy * milliseconds,
                    "accumulated-idle-time": (1 - busy) * milliseconds,
                    "accumulated-backpressured-time": 0,
                },
            }  # fmt: skip

        nodes = [{"id": "source"}, {"id": "sink", "inputs": [{"id": "source"}]}]
        return {
            "state": self.state,
            "vertices": [vertex("source", 0.25), vertex("sink", 0.5)],
            "plan": {"nodes": nodes},
        }


def objective(manager: JobManager, **settings: Any) -> FlinkObjective:
    return FlinkObjective(
        engine_problem("flink"),
        FlinkTarget(url="http://jobmanager:8081", jar="abc_job.jar", **settings),
        transport=httpx.MockTransport(manager),
        sleep=manager.sleep,
        clock=manager.clock,
    )


def test_records_are_counted_and_the_job_is_cancelled() -> None:
    manager = JobManager()
    space = engine_problem("flink").space
    seen = objective(manager, arguments=("--rate", "9")).measure(0, 0, space.active(space.defaults))
    assert seen.value == pytest.approx(100.0)
    assert seen.seconds == pytest.approx(50.0)  # 20 s of warm-up, 30 s of counting
    assert seen.operators["sink"].busy == pytest.approx(0.5)
    assert seen.operators["sink"].rate == pytest.approx(100.0)
    (body,) = manager.submitted
    assert body["programArgsList"] == ["--rate", "9"]
    assert body["flinkConfiguration"]["execution.checkpointing.interval"] == "60 s"
    assert not [key for key in body["flinkConfiguration"] if key.startswith("taskmanager.")]
    assert "table.exec.mini-batch.size" not in body["flinkConfiguration"]  # inactive without mini-batches
    assert manager.cancelled == 1


def test_a_job_that_fails_is_a_result() -> None:
    manager = JobManager(fails=True)
    seen = objective(manager).measure(0, 0, {"buffer_timeout": 0})
    assert seen.failed
    assert seen.reason == "EngineError: the job went to FAILED"


def test_nobody_answering_is_a_result() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    problem, settings = engine_problem("flink"), FlinkTarget(url="http://nowhere:1", jar="x")
    seen = FlinkObjective(problem, settings, transport=httpx.MockTransport(refuse)).measure(0, 0, {"buffer_timeout": 0})
    assert seen.failed
    assert "connection refused" in seen.reason


def test_a_bad_address_is_refused() -> None:
    with pytest.raises(EngineError, match="--url must start with http"):
        FlinkObjective(engine_problem("flink"), FlinkTarget(url="localhost:8081", jar="x"))
