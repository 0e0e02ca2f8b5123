"""Flink's answers as fuzz targets: read by the client's own methods, with a transport below it instead of a network.

The sound answers are those of the Flink in miniature. An ``answer-…`` is one call, and its refusal must name the
address and path of it. A ``tune-…`` is the same answer damaged while a job is found, measured, looked at and rescaled:
there is no traceback and no hang, and what is refused may be refused for what it says.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx

from engines.flink.fake_flink import JOB, VERTICES, FakeFlink
from engines.flink.test_plan import DATASTREAM
from input_fuzz import Target
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine
from streamtune.engines.flink.client import FlinkRefusedError
from streamtune.engines.flink.journal import Journal, Underway
from streamtune.engines.flink.plan import import_job
from streamtune.engines.flink.rescaling import Program
from streamtune.engines.flink.responses import JobDetails, parse
from streamtune.engines.flink.resuming import resume
from streamtune.errors import EngineError

_URL = "http://flink:8081"
_WORK, _SOURCE = VERTICES["work"], VERTICES["bids"]
_LAG = "Source__bids.pendingRecords"
_METRICS = f"/jobs/{JOB}/vertices/{_SOURCE}/subtasks/metrics"
_OF_MANAGERS = "/taskmanagers/metrics"
_SAVEPOINT = f"/jobs/{JOB}/savepoints/t1"

# Name → the path that it is the answer to, with its query where that decides, and who reads it.
Reader = Callable[[FlinkClient], object]
_CALLS: dict[str, tuple[str, Reader]] = {
    "overview": ("/overview", FlinkClient.overview),
    "jobs": ("/jobs/overview", FlinkClient.jobs),
    "job": (f"/jobs/{JOB}", lambda client: client.job(JOB)),
    "status": (f"/jobs/{JOB}/status", lambda client: client.status(JOB)),
    "config": (f"/jobs/{JOB}/config", lambda client: client.user_parameters(JOB)),
    "exceptions": (f"/jobs/{JOB}/exceptions", lambda client: client.failure(JOB)),
    "requirements": (f"/jobs/{JOB}/resource-requirements", lambda client: client.resource_requirements(JOB)),
    "checkpoints": (f"/jobs/{JOB}/checkpoints", lambda client: client.checkpoints(JOB)),
    "vertex": (f"/jobs/{JOB}/vertices/{_WORK}", lambda client: client.vertex(JOB, _WORK)),
    "names": (_METRICS, lambda client: client.metric_names(JOB, _SOURCE)),
    "metrics": (f"{_METRICS}?get={_LAG}", lambda client: client.vertex_metrics(JOB, _SOURCE, [_LAG], "sum,max")),
    "options": ("/jobmanager/config", FlinkClient.cluster_options),
    "managers": ("/taskmanagers", lambda client: client.slots_held(JOB)),
    "manager": ("/taskmanagers/tm1", lambda client: client.slots_held(JOB)),
    "manager-metrics": (_OF_MANAGERS, lambda client: client.task_manager_metrics(["Status.JVM.Memory.Heap.Used"])),
    "savepoint": (_SAVEPOINT, lambda client: client.savepoint(JOB, "t1")),
    "stop": (f"/jobs/{JOB}/stop", lambda client: client.stop_with_savepoint(JOB, None)),
    "refusal": (f"/jobs/{JOB}/checkpoints", lambda client: client.checkpoints(JOB)),
}
_TUNED = ("overview", "jobs", "job", "config", "requirements", "checkpoints", "vertex", "names", "metrics", "options",
          "managers", "manager")  # fmt: skip


def answer_targets(folder: Path) -> list[Target]:
    site = _Site()
    return [
        *(_one_call(site, name, path, read) for name, (path, read) in _CALLS.items()),
        *(_whole_process(site, name) for name in _TUNED),
        _imported(),
        _stopped_and_started(site),
        _journal(site, folder),
    ]


class _Site:
    """A Flink in miniature without a network; ``instead`` is what one path is answered with.

    Always, or the ``only``-th time that it is asked for: all before and after is sound.
    """

    def __init__(self) -> None:
        self.fake = FakeFlink()
        self.fake.held_slots = 2
        self.path, self.instead, self.status = "", b"", 200
        self.only, self.asked = 0, 0

    def sound(self, path: str) -> bytes:
        if path == _OF_MANAGERS:
            return json.dumps([{"id": "Status.JVM.Memory.Heap.Used", "max": 5.0}]).encode()
        self.fake.trigger = "t1"
        payload = self.fake.answer("POST" if path.endswith("/stop") else "GET", path, {})[1]
        self.fake.state = "RUNNING"  # a savepoint is said to have stopped it
        return json.dumps(payload).encode()

    def client(self, path: str, instead: bytes, status: int = 200, *, only: int = 0) -> FlinkClient:
        self.path, self.instead, self.status, self.only, self.asked = path, instead, status, only, 0
        return FlinkClient(_URL, sleep=self.fake.clock.sleep, retries=1, transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        asked = request.url.raw_path.decode()
        wanted, _, query = self.path.partition("?")
        # A process chooses the id of its savepoint by itself.
        path = re.sub("/savepoints/.*", "/savepoints/t1", asked.partition("?")[0])
        if path == wanted and ("get=" in asked or not query) and request.method != "PUT":
            self.asked += 1
            if self.only and self.asked != self.only:
                return self._sound(request, asked)
            if wanted == _SAVEPOINT:
                self.fake.state = "FINISHED"
            return httpx.Response(self.status, content=self.instead)
        return self._sound(request, asked)

    def _sound(self, request: httpx.Request, asked: str) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        status, payload = self.fake.answer(request.method, asked, body)
        return httpx.Response(status, content=json.dumps(payload).encode())

    def renewed(self) -> None:
        """The job as it was at first."""
        fake = self.fake
        fake.state, fake.job_id, fake.scheduler = "RUNNING", JOB, "adaptive"
        fake.degrees, fake.bounds = dict.fromkeys(VERTICES, 1), dict.fromkeys(VERTICES, (1, 1))
        fake.submitted.clear()
        fake.requests.clear()


def _one_call(site: _Site, name: str, path: str, read: Reader) -> Target:
    refused = {"errors": ["x.E: outer", "y.Z: reason"]}
    content = json.dumps(refused).encode() if name == "refusal" else site.sound(path)
    status = 400 if name == "refusal" else 200

    def call(file: Path) -> None:
        damaged = file.read_bytes()
        with site.client(path, damaged, status) as client:
            try:
                read(client)
            except FlinkRefusedError:
                if damaged != content:  # the sound refusal is no defect of the sample
                    raise

    return Target(f"answer-{name}.json", content, call, place=f"{_URL}{path.partition('?')[0]}")


def _whole_process(site: _Site, name: str) -> Target:
    path = _CALLS[name][0]
    sound = site.sound(path)

    def tune(file: Path) -> None:
        site.renewed()
        damaged = file.read_bytes()
        only = zlib.crc32(damaged) % 8 or (damaged == sound)  # 0: always
        with site.client(path, damaged, only=int(only)) as client:
            engine = FlinkEngine(client, clock=site.fake.clock)
            deployment = engine.attach()
            site.fake.clock.sleep(60.0)
            engine.observe(deployment, MeasurementWindow(settle_s=1.0, length_s=6.0))
            checks = engine.preflight()
            checks.cluster(), checks.job(JOB), checks.check_pressure(), engine.slots_in_reach(deployment)
            plan = {**deployment.plan, deployment.job.dataflow.operators[1].id: 3}
            engine.rescale(deployment, type(deployment.plan)(plan))

    return Target(f"tune-{name}.json", sound, tune, place=None)


def _imported() -> Target:
    """The plan of a job of many kinds of vertices."""
    path = f"{_URL}/jobs/j"

    def read(file: Path) -> None:
        try:
            answer = json.loads(file.read_bytes())
        except (ValueError, RecursionError):  # what is no JSON, or too deep, is refused by the client
            return
        with suppress(ValueError):
            import_job(parse(JobDetails, answer, path))

    return Target("plan.json", DATASTREAM.model_dump_json(by_alias=True).encode(), read, place="job")


def _stopped_and_started(site: _Site) -> Target:
    """A rescale by savepoint, of which the answer about the savepoint is damaged."""

    def rescale(file: Path) -> None:
        site.renewed()
        site.fake.scheduler = "default"
        with site.client(_SAVEPOINT, file.read_bytes()) as client:
            engine = FlinkEngine(client, clock=site.fake.clock, program=Program("jar", "Main", ("--x",)))
            deployment = engine.attach()
            plan = {**deployment.plan, deployment.job.dataflow.operators[1].id: 3}
            engine.rescale(deployment, type(deployment.plan)(plan))

    return Target("tune-savepoint.json", site.sound(_SAVEPOINT), rescale, place=None)


def _journal(site: _Site, folder: Path) -> Target:
    """What a killed rescale left: read, or left alone; and the job is brought back by it, or that is refused."""
    entry = Underway(
        url=_URL, job_id="0" * 32, job_name="gone", jar_id="jar", arguments=("--x",), trigger="t1", savepoint="file:/s"
    )
    notes = folder / "journal"

    def read(file: Path) -> None:
        site.renewed()
        notes.mkdir(exist_ok=True)
        (notes / f"{entry.job_id}.json").write_bytes(file.read_bytes())
        journal = Journal(notes)
        with site.client("-", b"") as client:
            for found in journal.entries(_URL):
                with suppress(EngineError):  # for what it says, which may be anything
                    resume(client, journal, found, clock=site.fake.clock)

    return Target("journal.json", entry.model_dump_json().encode(), read)
