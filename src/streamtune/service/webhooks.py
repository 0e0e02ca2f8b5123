"""Webhooks: signed, tried again with pauses that double, and never to an internal address unless that is allowed."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import httpx

from streamtune.errors import StreamTuneError
from streamtune.service.clocks import RealClock
from streamtune.service.errors import ServiceError
from streamtune.service.settings import WebhookSettings
from streamtune.service.store import Store
from streamtune.service.store.outbox import Message
from streamtune.service.views import Decision, JobSummary

log = logging.getLogger("streamtune.service")

_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 3600.0
SIGNATURE = "X-StreamTune-Signature"
Resolve = Callable[[str, int], Sequence[str]]
# Ways from IPv6 to any IPv4 address, private ones too, which pass for global: NAT64, 6to4, Teredo, IPv4-compatible.
_WAYS_ROUND = tuple(
    ipaddress.ip_network(text)
    for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "192.88.99.0/24")
)


class InternalAddressError(ServiceError):
    """A webhook that leads to this machine or into a private network."""


def sign(secret: str, moment: int, body: bytes) -> str:
    """``t=…,v1=…``: HMAC-SHA256 over time and body, so that an old message cannot be sent again unnoticed.

    >>> sign("key", 0, b"{}")[:15]
    't=0,v1=7314351d'
    """
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host."""
    return sorted({str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})


def checked_address(url: str, allow_internal: bool, lookup: Resolve = resolve) -> str:
    """The one address to connect to: what was checked is what is used, so that a name cannot change in between."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ServiceError(f"the webhook {url!r} is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServiceError(f"the webhook {url!r} must begin with http:// or https://")
    try:
        addresses = lookup(parts.hostname, port)
    except (OSError, UnicodeError) as error:
        raise ServiceError(f"the webhook's host {parts.hostname} cannot be found: {error}") from error
    for address in addresses:
        if not allow_internal and not _is_public(address):
            raise InternalAddressError(
                f"the webhook {url!r} leads to the internal address {address}: set allow_internal if that is meant"
            )
    return addresses[0]


def _is_public(address: str) -> bool:
    """Whether an address is one of the open internet, and not a way round to another one.

    >>> [_is_public(one) for one in ("9.9.9.9", "10.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::")]
    [True, False, False, False, False]
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_multicast or any(found in network for network in _WAYS_ROUND if network.version == found.version):
        return False
    return found.is_global


class Webhooks:
    """Puts events into the outbox, and sends what is due from a thread of its own."""

    def __init__(self, store: Store, hooks: Sequence[WebhookSettings], *, lookup: Resolve = resolve) -> None:
        self._store = store
        self._hooks = tuple(hooks)
        self._lookup = lookup
        self._clock = RealClock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def use(self, hooks: Sequence[WebhookSettings]) -> None:
        self._hooks = tuple(hooks)

    def notify(self, event: str, job: JobSummary, decision: Decision | None, text: str) -> None:
        """Tell all that asked for this event; they are told soon, not now."""
        hooks = [hook for hook in self._hooks if event in hook.events]
        if not hooks:
            return
        now = self._clock.now()
        said = {
            "event": event,
            "time": now.isoformat(),
            "text": text,
            "job": job.model_dump(mode="json"),
            "decision": None
            if decision is None
            else decision.model_dump(mode="json", by_alias=True, exclude={"curves", "history"}),
        }
        body = json.dumps(said)
        for hook in hooks:
            try:
                self._store.outbox.add(hook.url, event, body, now)
            except StreamTuneError as error:
                log.error("a webhook could not be noted", extra={"url": hook.url, "error": str(error)})
        self._wake.set()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="streamtune-webhooks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(10.0)

    def _run(self) -> None:
        while not self._stopping:
            try:
                self.send_due()
            except StreamTuneError as error:
                log.error("webhooks cannot be sent", extra={"error": str(error)})
            self._wake.wait(2.0)
            self._wake.clear()

    def send_due(self) -> int:
        """Try all that is due; returns how many were sent."""
        now, sent = self._clock.now(), 0
        hooks = {hook.url: hook for hook in self._hooks}
        for message in self._store.outbox.due(now):
            hook = hooks.get(message.url)
            if hook is None:
                self._store.outbox.failed(message, "the webhook is not in the settings any more", None)
                continue
            try:
                self._send(hook, message, now)
            except InternalAddressError as error:
                log.error("a webhook is refused", extra={"url": message.url, "error": str(error)})
                self._store.outbox.failed(message, str(error), None)
            except (ServiceError, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                self._later(hook, message, str(error) or type(error).__name__, now)
            else:
                self._store.outbox.sent(message)
                sent += 1
        return sent

    def _later(self, hook: WebhookSettings, message: Message, problem: str, now: datetime) -> None:
        tried = message.attempts + 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (tried - 1))
        next_try = None if tried >= hook.attempts else now + timedelta(seconds=pause_s)
        self._store.outbox.failed(message, problem, next_try)
        log.warning("a webhook failed", extra={"url": message.url, "error": problem, "attempt": tried})

    def _send(self, hook: WebhookSettings, message: Message, now: datetime) -> None:
        address = checked_address(hook.url, hook.allow_internal, self._lookup)
        body = message.body.encode()
        headers = {"Content-Type": "application/json", "X-StreamTune-Event": message.event}
        headers |= {"X-StreamTune-Delivery": message.id, "User-Agent": "StreamTune"}
        secret = _secret(hook)
        if secret:
            headers[SIGNATURE] = sign(secret, int(now.timestamp()), body)
        # Connect to the address that was checked; the name stays for TLS and for the Host header.
        url = httpx.URL(hook.url)
        pinned = url.copy_with(host=address)
        host = url.host if url.port is None else f"{url.host}:{url.port}"
        with httpx.Client(timeout=hook.timeout_s, follow_redirects=False, trust_env=False) as client:
            answer = client.post(
                pinned, content=body, headers={**headers, "Host": host}, extensions={"sni_hostname": url.host}
            )
        if not answer.is_success:
            raise ServiceError(f"it was answered with {answer.status_code}")


def _secret(hook: WebhookSettings) -> str | None:
    if hook.secret is not None and hook.secret.startswith("$"):
        found = os.environ.get(hook.secret[1:])
        if found is None:
            raise ServiceError(f"the environment has no {hook.secret[1:]}, which a webhook takes its secret from")
        return found
    return hook.secret
