"""The service's API on paper: a small HTTP server that answers as /api/v1 is agreed to, for tests of the dashboard."""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import streamtune
from service.dashboard import fleet_fixtures as fixtures

DASHBOARD = Path(streamtune.__file__).parent / "service" / "dashboard"
CSP = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
TOKEN = "operator-token"
Json = dict[str, Any]


class RefusedError(Exception):
    """An answer that is an error, as the contract words it."""

    def __init__(self, status: int, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": "refused", "message": message, "next": next_step}}


class FakeFleet:
    """The state behind the answers; tests reach into it."""

    def __init__(self, size: int = 40, step_s: float = 0.3) -> None:
        self.jobs = fixtures.fleet(size)
        self.decisions = {job["id"]: fixtures.decisions(job) for job in self.jobs.values()}
        self.models, self.history = fixtures.models(), fixtures.history()
        self.policies, self.audit = fixtures.policies(), fixtures.audit()
        self.step_s = step_s
        self.identity: Json | None = None
        self.bounds: dict[str, Json] = {}
        self.listeners: list[queue.Queue[tuple[str, Json]]] = []
        self.asked: list[str] = []
        self.broken = False
        self.learning: Json | None = None
        self.gone = False  # ends the streams, as a service that stops does
        self.clusters = [
            {"name": name, "engine": "flink", "url": f"http://{name}:8081", "state": "ok", "jobs": 13, "error": None}
            for name in ("eu-west", "us-east")
        ]
        if size >= 12:
            self.clusters.append(
                {
                    "name": "staging",
                    "engine": "flink",
                    "url": "http://staging:8081",
                    "state": "away",
                    "jobs": 13,
                    "error": "does not answer: connection refused",
                }
            )

    def tell(self, event: str, data: Json) -> None:
        for listener in self.listeners:
            listener.put((event, data))

    def service(self) -> Json:
        now = fixtures.iso(fixtures.NOW)
        return {
            "version": "0.2.0",
            "started": now,
            "now": now,
            "demo": None,
            "speed": 1,
            "identity": self.identity,
            "read_only": self.identity is None,
            "holder": "streamtune-1",
            "clusters": self.clusters,
            "counts": {},
            "learning": self.learning,
        }

    def job(self, identity: str) -> Json:
        if identity not in self.jobs:
            raise RefusedError(404, f"there is no job '{identity}'", "choose one of the fleet")
        return {**fixtures.detail(self.jobs[identity]), "bounds": self.bounds.get(identity, {})}

    def decision(self, job: str, identity: str) -> Json:
        return next(decision for decision in self.decisions[job] if decision["id"] == identity)

    def move(self, decision: Json, status: str, text: str) -> None:
        decision["status"] = status
        step = {"time": fixtures.iso(fixtures.NOW), "status": status, "by": "ada", "text": text}
        decision["history"] = [*decision["history"], step]
        self.tell("decision", decision)

    def decide(self, job: str, identity: str, verb: str) -> Json:
        decision = self.decision(job, identity)
        if decision["status"] != "proposed":
            raise RefusedError(
                409, f"this plan is {decision['status']}, so it cannot be {verb}d", "look at the newest one"
            )
        self.jobs[job] |= {"pending": None}
        self.move(decision, {"approve": "approved", "reject": "rejected"}[verb], "")
        if verb == "approve":
            threading.Timer(self.step_s, self.move, (decision, "applying", "rescale asked for")).start()
            threading.Timer(2 * self.step_s, self.applied, (job, decision)).start()
        return decision

    def applied(self, job: str, decision: Json) -> None:
        calm = {"backpressure": 0.01, "backpressured": False, "trouble": [], "instances": sum(decision["to"].values())}
        self.jobs[job] = {**self.jobs[job], **calm, "recommended_instances": calm["instances"]}
        decision["outcome"] = {
            "time": fixtures.iso(fixtures.NOW),
            "text": "rate served",
            "backpressured": False,
            "instances": calm["instances"],
        }
        self.move(decision, "applied", "all operators run at their new parallelism")
        self.tell("job", self.jobs[job])

    def roll_back(self, job: str) -> Json:
        decision = next((one for one in self.decisions[job] if one["status"] == "applied"), None)
        if decision is None:
            raise RefusedError(409, "no applied plan to take back", "")
        self.jobs[job] = {**self.jobs[job], "instances": sum(decision["from"].values())}
        self.move(decision, "rolled_back", "back at the plan before")
        self.tell("job", self.jobs[job])
        return decision

    def set_paused(self, job: str, paused: bool) -> Json:
        self.jobs[job] = {**self.jobs[job], "paused": paused}
        self.tell("job", self.jobs[job])
        return self.jobs[job]

    def promote(self, version: str) -> Json:
        for model in self.models["models"]:
            if model["status"] == "running":
                model["status"] = "retired"
            if model["version"] == version:
                model["status"] = "running"
        self.models["running"] = version
        return self.models


def _list(fleet: FakeFleet, query: dict[str, str]) -> Json:
    jobs = list(fleet.jobs.values())
    offset, limit = int(query.get("offset", 0)), int(query.get("limit", 100))
    return {"total": len(jobs), "jobs": jobs[offset : offset + limit]}


def _changed(fleet: FakeFleet, change: Callable[[], Json]) -> Json:
    if fleet.identity is None:
        raise RefusedError(401, "changes need a token", "make one: streamtune token create NAME --role operator")
    return change()


def answer(fleet: FakeFleet, method: str, path: str, query: dict[str, str], body: Json) -> Json:
    """What the contract says for this request."""
    parts = path.removeprefix("/api/v1/").split("/")
    if (method, path) == ("POST", "/api/v1/login"):
        if body.get("token") != TOKEN:
            raise RefusedError(401, "this token is not known", "ask an operator for a new one")
        fleet.identity = {"name": "ada", "role": "operator"}
        return {"identity": fleet.identity, "csrf": "c"}
    if (method, path) == ("GET", "/api/v1/login"):
        return {"identity": fleet.identity, "csrf": "c"}
    if method == "GET":
        return _read(fleet, parts, query)
    match parts:
        case ["jobs", job, "decisions", decision, ("approve" | "reject") as verb]:
            return _changed(fleet, lambda: fleet.decide(job, decision, verb))
        case ["jobs", job, "rollback"]:
            return _changed(fleet, lambda: fleet.roll_back(job))
        case ["jobs", job, ("pause" | "resume") as verb]:
            return _changed(fleet, lambda: fleet.set_paused(job, verb == "pause"))
        case ["jobs", job, "bounds"]:
            return _changed(fleet, lambda: fleet.bounds.setdefault(job, body))
        case ["models", version, "promote"]:
            return _changed(fleet, lambda: fleet.promote(version))
    raise RefusedError(404, "no such address")


def _read(fleet: FakeFleet, parts: list[str], query: dict[str, str]) -> Json:
    match parts:
        case ["service"]:
            return fleet.service()
        case ["jobs"]:
            return _list(fleet, query)
        case ["jobs", job]:
            return fleet.job(job)
        case ["jobs", job, "observations"]:
            return fixtures.observations(fleet.jobs[job])
        case ["jobs", job, "decisions"]:
            return {"decisions": fleet.decisions[job], "next": None}
        case ["jobs", job, "decisions", decision]:
            return fleet.decision(job, decision)
        case [("models" | "history" | "policies" | "audit") as name]:
            found: Json = getattr(fleet, name)
            return found
    raise RefusedError(404, "no such address")


DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" width="900" height="110"><rect width="170" height="100"/></svg>'


class Handler(BaseHTTPRequestHandler):
    fleet: FakeFleet

    def log_message(self, *_: object) -> None: ...

    def send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", CSP)
        self.end_headers()
        self.wfile.write(body)

    def file(self, name: str) -> None:
        path = DASHBOARD / name
        self.send(200, TYPES[path.suffix], path.read_bytes()) if path.is_file() else self.send(404, "text/plain", b"")

    def handle_api(self, method: str, path: str, query: dict[str, str]) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        self.fleet.asked.append(f"{method} {path}")
        try:
            if self.fleet.broken:
                raise RefusedError(503, "the store is away", "see the service's log")
            status, given = HTTPStatus.OK, answer(self.fleet, method, path, query, body)
        except RefusedError as error:
            status, given = HTTPStatus(error.status), error.body
        self.send(status, "application/json", json.dumps(given).encode())

    def events(self) -> None:
        mine: queue.Queue[tuple[str, Json]] = queue.Queue()
        self.fleet.listeners.append(mine)  # before the page is told that the stream is open, as the service does
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            self.wfile.write(b": hello\n\n")
            while not self.fleet.gone:
                try:
                    event, data = mine.get(timeout=0.2)
                    self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
                except queue.Empty:
                    self.wfile.write(b": still here\n\n")
        except OSError:
            pass
        self.fleet.listeners.remove(mine)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/":
            self.file("index.html")
        elif url.path.startswith("/static/"):
            self.file(url.path.removeprefix("/static/"))
        elif url.path == "/api/v1/events":
            self.events()
        elif re.fullmatch(r"/api/v1/jobs/[^/]+/drawing\.svg", url.path):
            self.send(200, "image/svg+xml", DRAWING.encode())
        else:
            self.handle_api("GET", url.path, query)

    def do_POST(self) -> None:
        self.handle_api("POST", urlsplit(self.path).path, {})

    def do_PUT(self) -> None:
        self.handle_api("PUT", urlsplit(self.path).path, {})


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # a page asks for all its modules at once

    def handle_error(self, *_: object) -> None: ...  # a browser that leaves is no error


@contextmanager
def serving(fleet: FakeFleet, port: int = 0) -> Iterator[str]:
    """The address at which this fleet is served."""
    server = Server(("127.0.0.1", port), type("Bound", (Handler,), {"fleet": fleet}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
