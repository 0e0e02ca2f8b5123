"""A JobManager in miniature: real HTTP, Flink's shapes, and time that a test owns.

One job of three vertices (source → work → sink). ``work`` serves ``per_subtask`` records/s with each subtask; when that
is less than ``rate``, it is busy all the time and the source is blocked. Faults are switched on by attributes.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from streamtune.clock import ManualClock

JOB = "a" * 32
VERTICES = {"bids": "1" * 32, "work": "2" * 32, "sink": "3" * 32}
NAMES = {"bids": "Source: bids", "work": "Map", "sink": "Sink: sink"}
START = datetime(2026, 1, 1, tzinfo=UTC)

Answer = tuple[int, Any]


class FakeFlink:
    """Serves on a free port; use it in a ``with`` block."""

    def __init__(self, *, rate: float = 400.0, per_subtask: float = 100.0, slots: int = 20) -> None:
        self.clock = ManualClock(START)
        self._history = [(0.0, rate)]  # since when which rate is offered
        self.per_subtask = per_subtask
        self.slots = slots
        self.degrees = {"bids": 1, "work": 1, "sink": 1}
        self.bounds = dict.fromkeys(VERTICES, (1, 1))
        self.job_id = JOB
        self.job_name = "fake"
        self.state = "RUNNING"
        self.attempt = 0
        self.started_s = 0.0
        self.max_parallelism = 128
        self.scheduler = "adaptive"
        self.rescale_works = True
        self.splits: dict[str, int] = {}  # of sources that have only so many; further subtasks end at once
        self.version = "2.3.0"
        self.overrides_work = True
        self.savepoint_failure: str | None = None
        self.savepoint_takes: int | None = 0  # so many looks; None: nobody has heard of the trigger
        self.trigger = "t1"
        self.other_jobs: list[dict[str, Any]] = []  # in the list of jobs, and nowhere else
        self.metrics_move = True
        self.checkpoint_age_s: float | None = 5.0  # None: all of them failed
        self.options: dict[str, str] = {}
        self.held_slots = 0  # that TaskManagers still keep for the job
        self.reports_lag = True  # as Kafka's source does
        self.latency_ms: dict[str, list[float]] = {}  # medians by vertex, one per subtask; none: no latency markers
        self.submitted: list[dict[str, Any]] = []
        self.requests: list[str] = []
        # Called first for every request; whatever it returns is the answer. ``bytes`` are sent as they are.
        self.intercept: Callable[[str, str], Answer | None] = lambda _method, _path: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def now_s(self) -> float:
        return self.clock.steady()

    @property
    def rate(self) -> float:
        """What is offered now, records/s."""
        return next(rate for since, rate in reversed(self._history) if since <= self.now_s)

    @rate.setter
    def rate(self, rate: float) -> None:
        self.change_rate(self.now_s, rate)

    def change_rate(self, since_s: float, rate: float) -> None:
        """Offer another rate from some moment on; what was counted before it stays as it was."""
        self._history.append((since_s, rate))

    def _offered_since_start(self) -> list[tuple[float, float]]:
        """Seconds and rate of each stretch since the counters began."""
        if not self.metrics_move:
            return [(0.0, self.rate)]
        moments = [*(since for since, _ in self._history), math.inf]
        begins = [max(since, self.started_s) for since in moments[:-1]]
        ends = [min(since, self.now_s) for since in moments[1:]]
        rates = (rate for _, rate in self._history)
        return [(max(0.0, end - begin), rate) for begin, end, rate in zip(begins, ends, rates, strict=True)]

    def restart(self) -> None:
        """All counters begin anew, as after a failover or a rescale."""
        self.attempt += 1
        self.started_s = self.now_s

    def slots_used(self) -> int:
        return max(self.degrees.values())

    # Answers

    def answer(self, method: str, path: str, body: Any) -> Answer:
        self.requests.append(f"{method} {path.split('?')[0]}")
        given = self.intercept(method, path)
        if given is not None:
            return given
        path, _, query = path.partition("?")
        if path == "/overview":
            free = self.slots - max(self.held_slots, self.slots_used())
            return 200, {
                "taskmanagers": 1,
                "slots-total": self.slots,
                "slots-available": free,
                "flink-version": self.version,
            }
        if path == "/jobs/overview":
            own = {"jid": self.job_id, "name": self.job_name, "state": self.state, "start-time": 1}
            return 200, {"jobs": [own, *self.other_jobs]}
        if path == "/jobmanager/config":
            options = {"jobmanager.scheduler": self.scheduler, **self.options}
            return 200, [{"key": key, "value": value} for key, value in options.items()]
        if path == "/taskmanagers":
            return 200, {"taskmanagers": [{"id": "tm1"}]}
        if path == "/taskmanagers/tm1":
            return 200, {"id": "tm1", "allocatedSlots": [{"jobId": self.job_id}] * self.held_slots}
        if method == "POST" and path.endswith("/run"):
            return self._run(body)
        match = re.fullmatch(rf"/jobs/{self.job_id}(/.*)?", path)
        if match is None:
            return 404, {"errors": ["org.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find job"]}
        return self._job(method, match[1] or "", body, query)

    def _job(self, method: str, rest: str, body: Any, query: str) -> Answer:
        if method == "PATCH":
            self.state = "CANCELED"
            return 202, {}
        if rest == "":
            return 200, self._details()
        if rest == "/status":
            return 200, {"status": self.state}
        if rest == "/config":
            return 200, {"jid": self.job_id, "execution-config": {"user-config": {}}}
        if rest == "/exceptions":
            return 200, {"exceptionHistory": {"entries": [{"stacktrace": "x.E: outer\nCaused by: y.Z: / by zero"}]}}
        if rest == "/resource-requirements":
            return self._requirements(method, body)
        if rest == "/checkpoints":
            return self._checkpoints()
        if rest == "/stop":
            self.trigger = body.get("triggerId", self.trigger)
            return 202, {"request-id": self.trigger}
        if rest == f"/savepoints/{self.trigger}" and self.savepoint_takes is not None:
            return self._savepoint()
        return self._vertex(rest, query)

    def _checkpoints(self) -> Answer:
        if self.checkpoint_age_s is None:
            return 200, {"counts": {"total": 26, "completed": 0, "failed": 26}, "latest": {"completed": None}}
        at_ms = round(1000 * (self.clock.now().timestamp() - self.checkpoint_age_s))
        last = {"id": 9, "trigger_timestamp": at_ms, "latest_ack_timestamp": at_ms, "external_path": "file:/c/9"}
        return 200, {"counts": {"total": 9, "completed": 9, "failed": 0}, "latest": {"completed": last}}

    def _requirements(self, method: str, body: Any) -> Answer:
        if self.scheduler != "adaptive":
            return 500, {"errors": ["java.lang.UnsupportedOperationException: not an adaptive scheduler"]}
        if method == "PUT":
            bounds = [body.get(vertex, {}).get("parallelism", {}) for vertex in VERTICES.values()]
            if not all(1 <= one.get("lowerBound", 0) <= one.get("upperBound", 0) for one in bounds):
                return 400, {"errors": ["x.IllegalArgumentException: bounds must be of every vertex, and positive"]}
            for key, vertex in VERTICES.items():
                wanted = body[vertex]["parallelism"]
                self.bounds[key] = (wanted["lowerBound"], wanted["upperBound"])
            wanted_degrees = {key: upper for key, (_, upper) in self.bounds.items()}
            if self.rescale_works or max(wanted_degrees.values()) <= max(self.degrees.values()):
                self.degrees = wanted_degrees
                self.restart()
            return 200, {}
        return 200, {
            VERTICES[key]: {"parallelism": {"lowerBound": low, "upperBound": high}}
            for key, (low, high) in self.bounds.items()
        }

    def _vertex_metrics(self, key: str, query: str) -> list[dict[str, Any]]:
        """Names alone, or averages of those asked for."""
        values = {"numRecordsIn": 1.0, "mailboxLatencyMs_median": 2.0}
        name = f"latency.source_id.{VERTICES['bids']}.operator_id.{VERTICES[key]}.operator_subtask_index"
        for number, median in enumerate(self.latency_ms.get(key, [])):
            values |= {f"{name}.{number}.latency_median": median, f"{name}.{number}.latency_p99": 9999.0}
        if key == "bids" and self.reports_lag:
            capacity = self.degrees["work"] * self.per_subtask
            pending = sum((rate - min(rate, capacity)) * seconds for seconds, rate in self._offered_since_start())
            values["Source__bids.pendingRecords"] = pending
        wanted = parse_qs(query).get("get")
        if wanted is None:
            return [{"id": name} for name in values]
        return [
            {"id": name, "avg": values[name], "sum": values[name], "max": values[name]}
            for name in wanted[0].split(",")
            if name in values
        ]

    def _savepoint(self) -> Answer:
        if self.savepoint_takes:
            self.savepoint_takes -= 1
            return 200, {"status": {"id": "IN_PROGRESS"}, "operation": None}
        if self.savepoint_failure is not None:
            cause = {"class": "java.io.IOException", "stack-trace": self.savepoint_failure}
            return 200, {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}}
        self.state = "FINISHED"
        return 200, {"status": {"id": "COMPLETED"}, "operation": {"location": "file:/savepoints/s1"}}

    def _run(self, body: Any) -> Answer:
        self.submitted.append(body)
        wanted = body["flinkConfiguration"].get("pipeline.jobvertex-parallelism-overrides", "")
        if self.overrides_work and wanted:
            try:
                pairs = dict(part.split(":") for part in wanted.split(",") if part)
                given = {key: int(pairs.get(vertex, self.degrees[key])) for key, vertex in VERTICES.items()}
            except ValueError:
                return 400, {"errors": ["x.IllegalArgumentException: no pairs of vertex and parallelism"]}
            if min(given.values()) < 1:
                return 400, {"errors": ["x.IllegalArgumentException: parallelism must be positive"]}
            self.degrees = given
        self.bounds = {key: (1, degree) for key, degree in self.degrees.items()}
        self.job_id = body.get("jobId", f"{len(self.submitted):032x}")
        self.state = "RUNNING"
        self.restart()
        return 200, {"jobid": self.job_id}

    # Counters

    def _subtask(self, key: str) -> dict[str, float]:
        counted: dict[str, float] = defaultdict(float)
        for elapsed_s, rate in self._offered_since_start():
            served = min(rate, self.degrees["work"] * self.per_subtask)
            per_subtask = served / self.degrees[key]
            busy = {"bids": 0.05, "work": per_subtask / self.per_subtask, "sink": 0.05}[key]
            blocked = 1 - served / rate if key == "bids" and served < rate else 0.0
            total_ms = 1000 * elapsed_s
            counted["read-records"] += per_subtask * elapsed_s
            counted["write-records"] += 0 if key == "sink" else per_subtask * elapsed_s
            counted["accumulated-busy-time"] += busy * (1 - blocked) * total_ms
            counted["accumulated-backpressured-time"] += blocked * total_ms
            counted["accumulated-idle-time"] += (1 - blocked) * (1 - busy) * total_ms
        for way in ("read", "write"):
            counted[f"{way}-bytes"] = 100 * counted[f"{way}-records"]
        return {name: round(value) if name.endswith("records") else value for name, value in counted.items()}

    def _tasks(self, key: str) -> dict[str, int]:
        if self.state != "RUNNING":
            return {"RUNNING": 0}
        running = min(self.degrees[key], self.splits.get(key, self.degrees[key]))
        return {"RUNNING": running, "FINISHED": self.degrees[key] - running}

    def _details(self) -> dict[str, Any]:
        now_ms = round(self.clock.now().timestamp() * 1000)
        started_ms = round((START.timestamp() + self.started_s) * 1000)
        vertices = []
        for key, vertex in VERTICES.items():
            one = self._subtask(key)
            vertices.append(
                {
                    "id": vertex,
                    "name": NAMES[key],
                    "parallelism": self.degrees[key],
                    "maxParallelism": self.max_parallelism,
                    "status": self.state,
                    "start-time": started_ms,
                    "tasks": self._tasks(key),
                    "metrics": {name: value * self.degrees[key] for name, value in one.items()},
                }
            )
        order = list(VERTICES)
        nodes = [
            {
                "id": VERTICES[key],
                "parallelism": self.degrees[key],
                "description": NAMES[key],
                "inputs": [{"id": VERTICES[order[position - 1]], "ship_strategy": "REBALANCE"}] if position else [],
            }
            for position, key in enumerate(order)
        ]
        return {
            "jid": self.job_id,
            "name": self.job_name,
            "state": self.state,
            "start-time": round(START.timestamp() * 1000),
            "now": now_ms,
            "vertices": vertices,
            "plan": {"nodes": nodes},
        }

    def _vertex(self, rest: str, query: str) -> Answer:
        key = next((key for key, vertex in VERTICES.items() if f"/vertices/{vertex}" in rest), None)
        if key is None:
            return 404, {"errors": ["not found"]}
        if rest.endswith("/subtasks/metrics"):
            return 200, self._vertex_metrics(key, query)
        started_ms = round((START.timestamp() + self.started_s) * 1000)
        subtasks = [
            {
                "subtask": number,
                "attempt": self.attempt,
                "status": "RUNNING",
                "start-time": started_ms,
                "metrics": self._subtask(key),
            }
            for number in range(self.degrees[key])
        ]
        return 200, {
            "id": VERTICES[key],
            "name": NAMES[key],
            "parallelism": self.degrees[key],
            "subtasks": subtasks,
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else every answer waits 40 ms for an acknowledgement

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(length)
                is_json = "json" in (self.headers.get("Content-Type") or "")
                status, payload = fake.answer(self.command, self.path, json.loads(raw) if raw and is_json else None)
                content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815 - the names that http.server looks for

            def log_message(self, format: str, *args: Any) -> None:  # noqa: ARG002
                return

        return Handler


def hang(seconds: float) -> Callable[[str, str], Answer | None]:
    """An intercept that answers too late."""

    def wait(_method: str, _path: str) -> Answer | None:
        time.sleep(seconds)
        return None

    return wait
