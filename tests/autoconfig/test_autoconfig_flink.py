"""The Flink objective against a JobManager that a test plays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamtune.autoconfig.flink import FlinkObjective, FlinkTarget
from streamtune.autoconfig.problem import parse_problem
from streamtune.autoconfig.spaces import engine_problem
from streamtune.errors import EngineError, StreamTuneError


class JobManager:
    """One job with a source and a sink: 100 records a second leave the source while it runs."""

    def __init__(self, *, fails: bool = False) -> None:
        self.now = 0.0
        self.state = "RUNNING"
        self.fails = fails
        self.submitted: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.slots = 8
        self.stuck = False

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
            return httpx.Response(200, json={"jobid": self.submitted[-1]["jobId"]})
        if request.url.path == "/overview":
            return httpx.Response(200, json={"slots-total": self.slots})
        if request.method == "PATCH":
            self.state = "CANCELED"
            self.cancelled.append(request.url.path.rpartition("/")[2])
            return httpx.Response(202)
        return httpx.Response(200, json=self.details())

    def details(self) -> dict[str, Any]:
        def vertex(name: str, busy: float) -> dict[str, Any]:
            milliseconds = 1000 * self.now
            return {
                "id": name, "name": name, "parallelism": 2,
                "status": "CREATED" if self.stuck else "RUNNING",
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


class Forgetful(JobManager):
    """Answers with the metrics of its last fetch, and fetches new ones then if those are ten seconds old."""

    fetched = -10.0
    shown: dict[str, Any] | None = None

    def details(self) -> dict[str, Any]:
        answer = self.shown or super().details()
        if self.now - self.fetched >= 10:
            self.fetched, self.shown = self.now, super().details()
        return {**answer, "state": self.state}


def objective(manager: JobManager, store: Path | None = None, **settings: Any) -> FlinkObjective:
    return FlinkObjective(
        engine_problem("flink"),
        FlinkTarget(url="http://jobmanager:8081", jar="abc_job.jar", **settings),
        store=store,
        transport=httpx.MockTransport(manager),
        sleep=manager.sleep,
        clock=manager.clock,
    )


def test_records_are_counted_and_the_job_is_cancelled() -> None:
    manager = JobManager()
    space = engine_problem("flink").space
    seen = objective(manager, arguments=("--rate", "9")).measure(0, 0, space.active(space.defaults))
    assert seen.value == pytest.approx(100.0)
    assert seen.seconds == pytest.approx(50.5)  # 20 s of warm-up, 30 s of counting, two fetches
    assert seen.operators["sink"].busy == pytest.approx(0.5)
    assert seen.operators["sink"].rate == pytest.approx(100.0)
    (body,) = manager.submitted
    assert body["programArgsList"] == ["--rate", "9"]
    assert body["flinkConfiguration"]["execution.checkpointing.interval"] == "60 s"
    assert body["parallelism"] == 1
    assert body["flinkConfiguration"]["parallelism.default"] == "1"
    assert "table.exec.mini-batch.size" not in body["flinkConfiguration"]  # inactive without mini-batches
    assert manager.cancelled == [body["jobId"]]


def test_the_busiest_vertex_stands_for_the_job() -> None:
    """The parallelism knob is the parallelism of an operator ``job``: ours opens with what the running job says."""
    manager = JobManager()
    seen = objective(manager).measure(0, 0, {"parallelism": 2, "buffer_timeout": 0})
    assert engine_problem("flink").space.knobs["parallelism"].operator == "job"
    assert seen.operators["job"] == seen.operators["sink"]  # busier than the source
    other = objective(manager).measure(0, 0, {"parallelism": 3, "buffer_timeout": 0})
    assert "job" not in other.operators  # every vertex has a parallelism of its own


def test_what_outlived_a_killed_session_is_cancelled_first(tmp_path: Path) -> None:
    manager = JobManager()

    class Killed(BaseException):
        pass

    def kill(_seconds: float) -> None:
        raise Killed

    killed = objective(manager, tmp_path)
    killed._sleep = kill
    killed._cancel = lambda _job: None  # type: ignore[method-assign]  # a killed process cancels nothing
    killed._remember = lambda job: FlinkObjective._remember(killed, job) if job else None  # type: ignore[method-assign]
    with pytest.raises(Killed):
        killed.measure(0, 0, {"buffer_timeout": 0})
    left = manager.submitted[0]["jobId"]
    assert not objective(manager, tmp_path).measure(0, 0, {"buffer_timeout": 0}).failed
    assert manager.cancelled == [left, manager.submitted[1]["jobId"]]
    assert left != manager.submitted[1]["jobId"]
    assert list(tmp_path.iterdir()) == []


def test_more_instances_than_slots_fail_without_waiting() -> None:
    manager = JobManager()
    seen = objective(manager).measure(0, 0, {"parallelism": 9})
    assert seen.reason == "EngineError: parallelism 9 needs more than the cluster's 8 slots"
    assert (manager.now, manager.submitted) == (0.0, [])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"objective": {"direction": "minimize"}}, "value of a Flink job is its throughput"),
        ({"objective": {"timeout": 30}}, "timeout is 30 s, but warm-up and window take 50 s"),
        (
            {"knobs": {"b": {"type": "int", "low": 1, "high": 2, "key": "taskmanager.memory.managed.size"}}},
            "knob 'b' is taskmanager.memory.managed.size, a setting of the cluster",
        ),
    ],
)
def test_what_cannot_be_heeded_is_refused(more: dict[str, Any], message: str) -> None:
    problem = parse_problem({"knobs": {"b": {"type": "int", "low": 1, "high": 2}}, **more}, "space.yaml")
    with pytest.raises(StreamTuneError, match=message):
        FlinkObjective(problem, FlinkTarget(url="http://x:1", jar="x"))


def test_requirements_and_the_timeout_are_heeded() -> None:
    data = {"knobs": {"b": {"type": "int", "low": 1, "high": 2}}, "objective": {"require": "value >= 101"}}
    manager = JobManager()
    target = FlinkTarget(url="http://x:1", jar="x")
    common = {"transport": httpx.MockTransport(manager), "sleep": manager.sleep, "clock": manager.clock}
    seen = FlinkObjective(parse_problem(data, "s"), target, **common).measure(0, 0, {"b": 1})  # type: ignore[arg-type]
    assert seen.failed
    assert "'value >= 101' is not met" in seen.reason
    manager.stuck = True
    data["objective"] = {"timeout": 60}
    late = FlinkObjective(parse_problem(data, "s"), target, **common).measure(0, 0, {"b": 1})  # type: ignore[arg-type]
    assert late.reason == "EngineError: the job does not run after 10 s"  # the rest is for warm-up and window


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


def test_metrics_of_an_earlier_fetch_are_not_counted() -> None:
    """100/s in whatever is between two fetches. Two looks of 35 s, taken as they come, would count what was fetched at
    the first of them, at 20 s, less what was fetched as the job began to run, and divide it by the 35 s."""
    found = objective(Forgetful(), warm_up_s=20, window_s=35).measure(0, 0, {"parallelism": 1})
    assert found.value == pytest.approx(100, rel=0.02)
    assert found.operators["sink"].rate == pytest.approx(100, rel=0.02)
