"""Requests to the service's API as a fuzz target: sent to the app itself, below any client that would refuse to.

A sample says method, path, query, headers and body as JSON. TOKEN and JOB stand for an operator's token and the id of a
job. Bytes that are no such document any more are sent as the body of the sound request.
"""

from __future__ import annotations

import asyncio
import atexit
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from input_fuzz import Target

_HEADERS = {"host": "127.0.0.1", "authorization": "Bearer TOKEN", "content-type": "application/json"}
_WEB = {"host": "127.0.0.1", "cookie": "streamtune=x; a=b", "x-csrf-token": "y", "x-forwarded-for": "10.0.0.1"}


def _request(method: str, path: str, query: str = "", body: Any = None, headers: Any = _HEADERS) -> dict[str, Any]:
    return {"method": method, "path": path, "query": query, "headers": headers, "body": body}


_SAMPLES = {
    "jobs": _request("GET", "/api/v1/jobs", "query=q1&state=running&cluster=main&limit=10&offset=0"),
    "job": _request("GET", "/api/v1/jobs/JOB"),
    "observations": _request(
        "GET", "/api/v1/jobs/JOB/observations", "start=2026-03-02T10:00:00Z&end=2026-03-02T11:00:00Z&limit=50"
    ),
    "decisions": _request("GET", "/api/v1/jobs/JOB/decisions", "limit=10&status=proposed"),
    "bounds": _request("PUT", "/api/v1/jobs/JOB/bounds", body={"sink": {"min": 1, "max": 9}}),
    "approve": _request("POST", "/api/v1/jobs/JOB/decisions/0123456789ab/approve"),
    "rollback": _request("POST", "/api/v1/jobs/JOB/rollback", body={"decision": "0123456789ab"}),
    "pause": _request("POST", "/api/v1/jobs/JOB/pause", headers=_WEB),
    "promote": _request("POST", "/api/v1/models/m20260302-100000/promote"),
    "audit": _request("GET", "/api/v1/audit", "limit=100"),
    "login": _request(
        "POST", "/api/v1/login", body={"token": "TOKEN"}, headers={**_WEB, "content-type": "application/json"}
    ),
    "page": _request("GET", "/", "x=y", headers=_WEB),
}


def request_targets(folder: Path) -> list[Target]:
    """One target for each kind of request, all of one service, which is ready before the first of them."""
    api = _Api(folder / "api")

    def target(name: str, sound: dict[str, Any]) -> Target:
        def read(path: Path) -> None:
            api.send(path.read_bytes(), sound)

        return Target(f"request-{name}.json", json.dumps(sound).encode(), read, place=None)

    return [target(name, sound) for name, sound in _SAMPLES.items()]


class _Api:
    def __init__(self, folder: Path) -> None:
        from service.test_api import Api

        folder.mkdir(parents=True)
        self._service = Api(folder, requests_per_minute=10**8, failures_per_minute=10**8)
        self._job = self._service.job.rpartition("/")[2]
        self._loop = asyncio.new_event_loop()
        self._living: asyncio.Task[Any] | None = None
        atexit.register(self._close)

    def _close(self) -> None:
        if self._living is not None and self._living.cancel():
            self._loop.run_until_complete(asyncio.wait([self._living]))
        self._loop.close()

    def send(self, content: bytes, sound: dict[str, Any]) -> None:
        try:
            given = json.loads(content)
        except (ValueError, RecursionError):
            given = None
        request = {**sound, **given} if isinstance(given, dict) else {**sound, "body": content}
        status = self._loop.run_until_complete(self._in_one_task(request))
        if status >= 500:
            raise AssertionError(f"answered with {status}")

    async def _in_one_task(self, request: dict[str, Any]) -> int:
        """As below a server, one task lives on: the threads that answer are its own, and need not be started anew."""
        if self._living is None or self._living.done():
            self._waiting = asyncio.Queue()
            self._living = asyncio.create_task(self._live(self._waiting))
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((request, answer))
        # A hang ends the task that lives on, and nobody would answer any more.
        await asyncio.wait({answer, self._living}, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else self._living.result()

    async def _live(self, waiting: asyncio.Queue[tuple[dict[str, Any], asyncio.Future[int]]]) -> None:
        while True:
            request, answer = await waiting.get()
            try:
                answer.set_result(await self._answered(request))
            except Exception as error:
                answer.set_exception(error)

    async def _answered(self, request: dict[str, Any]) -> int:
        raw, headers = _bytes(self._text(request["path"])), request["headers"]
        pairs = headers.items() if isinstance(headers, dict) else []
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
            "method": _bytes(self._text(request["method"])).decode("latin-1"), "root_path": "",
            "path": unquote(raw.decode("latin-1")), "raw_path": raw,  # as uvicorn makes them
            "query_string": _bytes(self._text(request["query"])), "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 8440),
            "headers": [(_bytes(self._text(key).lower()), _bytes(self._text(value))) for key, value in pairs],
        }  # fmt: skip
        body, statuses = request["body"], []
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).replace("TOKEN", self._service.operator).encode()
        messages = [{"type": "http.request", "body": body or b"", "more_body": False}]

        async def receive() -> dict[str, Any]:
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            statuses.append(message.get("status", 0))

        await self._service.app(scope, receive, send)
        return max(statuses, default=0)

    def _text(self, value: object) -> str:
        text = value if isinstance(value, str) else json.dumps(value)
        return text.replace("TOKEN", self._service.operator).replace("JOB", self._job)


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")
