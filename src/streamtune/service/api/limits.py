"""What is refused before anything else: foreign hosts, large bodies, too many requests; and the headers of answers."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamtune.service.errors import RequestError
from streamtune.service.settings import ApiSettings

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_MOST_CLIENTS = 10_000


def error_response(status: int, code: str, message: str, next_step: str) -> JSONResponse:
    """An error in the one form that all have."""
    return JSONResponse({"error": {"code": code, "message": message, "next": next_step}}, status)


class Buckets:
    """So many requests a minute for every client, in small portions; the oldest clients are forgotten."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_minute / 60
        self._most = max(1.0, per_minute / 4)
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, float]] = {}

    def take(self, client: str, cost: float = 1.0) -> bool:
        now = self._clock()
        with self._lock:
            left, then = self._known.pop(client, (self._most, now))
            left = min(self._most, left + (now - then) * self._rate)
            fits = left >= cost
            self._known[client] = (left - cost if fits else left, now)
            if len(self._known) > _MOST_CLIENTS:
                self._known.pop(next(iter(self._known)))
            return fits


class Limits:
    """The limits of one service."""

    def __init__(self, settings: ApiSettings) -> None:
        self._requests = Buckets(settings.requests_per_minute)
        self._failures = Buckets(settings.failures_per_minute)

    def take(self, client: str) -> bool:
        return self._requests.take(client)

    def note_failure(self, request: Request) -> None:
        """A wrong token; a client that tries many has to wait."""
        client = request.client.host if request.client else "unknown"
        if not self._failures.take(client):
            raise RequestError(429, "too_many_failures", "too many wrong tokens from here", "wait a minute")


class Gate:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, *, settings: ApiSettings, limits: Limits, hosts: Iterable[str]) -> None:
        self._app = app
        self._settings = settings
        self._limits = limits
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if scope["path"].startswith("/api/"):
                    headers["Cache-Control"] = "no-store"
                elif scope["path"].startswith("/static/"):  # asked for again each time: never half of an old release
                    headers["Cache-Control"] = "no-cache"
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, guarded)
            return
        await self._app(scope, _bounded(receive, self._settings.max_body_bytes), guarded)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if not self._is_ours(headers.get("host", "")):
            return error_response(
                421,
                "foreign_host",
                "this service does not answer under that name",
                "add it to service.api.allowed_hosts",
            )
        if not _is_utf8(scope["query_string"]):
            return error_response(400, "not_utf8", "the query of the address is not UTF-8", "percent-encode it")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > self._settings.max_body_bytes:
            most = self._settings.max_body_bytes
            return error_response(413, "too_large", f"a request may have {most} bytes", "send less")
        client = scope.get("client")
        if not self._limits.take(client[0] if client else "unknown"):
            response = error_response(429, "too_many", "too many requests from here", "wait some seconds")
            response.headers["Retry-After"] = "5"
            return response
        return None

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header is one of our names: else a foreign page has pointed its own name at us."""
        name = host.lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if name in self._hosts:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback or "*" in self._hosts
        except ValueError:
            return "*" in self._hosts


def _is_utf8(query: bytes) -> bool:
    """Whoever redirects or names an address decodes its query."""
    try:
        query.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _bounded(receive: Receive, most: int) -> Receive:
    """Bodies that come in pieces, without a length, are counted."""
    got = 0

    async def counted() -> Message:
        nonlocal got
        message: Any = await receive()
        got += len(message.get("body", b""))
        if got > most:
            # FastAPI takes any other error while a body is read for a body that cannot be parsed.
            raise HTTPException(413, f"a request may have {most} bytes")
        return dict(message)

    return counted
