"""Webhooks: signed, tried again, never to an internal address unless allowed, and never where a redirect leads."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from service.worlds import make_world, short_job
from streamtune.service.errors import ServiceError
from streamtune.service.settings import Policy, WebhookSettings
from streamtune.service.store import Store
from streamtune.service.store.tables import outbox
from streamtune.service.views import JobSummary
from streamtune.service.webhooks import SIGNATURE, InternalAddressError, Webhooks, checked_address

INTERNAL = {
    "this machine": "127.0.0.1",
    "all of 127": "127.8.9.1",
    "any": "0.0.0.0",
    "private": "10.1.2.3",
    "link-local, where clouds keep credentials": "169.254.169.254",
    "carrier-grade NAT": "100.64.0.1",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "6to4 relay": "192.88.99.1",
    "this machine, IPv6": "::1",
    "unique local": "fd00::1",
    "link-local, IPv6": "fe80::1%eth0",
    "multicast, IPv6": "ff0e::1",
    "mapped": "::ffff:127.0.0.1",
    "compatible": "::7f00:1",
    "NAT64": "64:ff9b::7f00:1",
    "local NAT64": "64:ff9b:1::a00:1",
    "6to4": "2002:7f00:1::",
    "Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "documentation": "2001:db8::1",
}


class Receiver(ThreadingHTTPServer):
    """Keeps what it was sent; answers with the codes it was given, then with 204."""

    def __init__(self, codes: Sequence[int] = ()) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.codes = list(codes)
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers), body))
        self.send_response(self.server.codes.pop(0) if self.server.codes else 204)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path}/service.db")
    yield opened
    opened.close()


def summary() -> JobSummary:
    return JobSummary.model_construct(id="q5", name="q5")


def rows(store: Store) -> list[Any]:
    with store.database.read() as connection:
        return list(connection.execute(select(outbox)))


def make_due(store: Store) -> None:
    with store.database.write() as connection:
        connection.execute(outbox.update().values(next_try=datetime.now(UTC) - timedelta(seconds=1)))


@pytest.mark.parametrize("address", INTERNAL.values(), ids=list(INTERNAL))
def test_an_internal_address_is_refused_whatever_the_name(address: str) -> None:
    with pytest.raises(InternalAddressError, match="internal address"):
        checked_address("https://hooks.example/x", False, lambda _host, _port: [address])
    with pytest.raises(InternalAddressError):  # one good address does not help a bad one
        checked_address("https://hooks.example/x", False, lambda _host, _port: ["9.9.9.9", address])
    assert checked_address("https://hooks.example/x", True, lambda _host, _port: [address]) == address


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://[::1]/", "http://localhost/"]
)
def test_every_way_to_write_this_machine_is_refused(url: str) -> None:
    with pytest.raises(InternalAddressError):
        checked_address(url, False)


def test_public_addresses_are_not() -> None:
    for address in ("9.9.9.9", "2620:fe::fe"):
        assert checked_address("https://hooks.example/", False, lambda _host, _port, one=address: [one]) == address


@pytest.mark.parametrize(
    "url", ["ftp://x/", "file:///etc/passwd", "https://", "http://x:99999/", "http://[::1", "http://" + "a" * 300 + "/"]
)
def test_what_is_no_address_is_one_sentence(url: str) -> None:
    with pytest.raises(ServiceError, match="webhook"):
        checked_address(url, False)


def test_a_message_is_signed_and_sent_once(store: Store, receiver: Receiver) -> None:
    hook = WebhookSettings(url=f"{receiver.url}/hook", secret="key", allow_internal=True)
    hooks = Webhooks(store, [hook])
    hooks.notify("decision", summary(), None, "12 instances become 20")
    assert (hooks.send_due(), hooks.send_due()) == (1, 0)
    ((path, headers, body),) = receiver.got
    moment, _, digest = headers[SIGNATURE].removeprefix("t=").partition(",v1=")
    assert hmac.compare_digest(digest, hmac.new(b"key", f"{moment}.".encode() + body, hashlib.sha256).hexdigest())
    assert abs(int(moment) - datetime.now(UTC).timestamp()) < 60
    assert (path, headers["X-StreamTune-Event"]) == ("/hook", "decision")
    assert json.loads(body)["text"] == "12 instances become 20"


def test_what_fails_is_tried_again_later_and_later_then_given_up(store: Store, receiver: Receiver) -> None:
    receiver.codes = [500, 503, 404]
    hooks = Webhooks(store, [WebhookSettings(url=receiver.url, attempts=3, allow_internal=True)])
    hooks.notify("failure", summary(), None, "")
    pauses = []
    for _ in range(3):
        before = datetime.now(UTC)
        assert hooks.send_due() == 0
        (row,) = rows(store)
        pauses.append((row.next_try - before).total_seconds())
        make_due(store)
    assert [round(pause) for pause in pauses[:2]] == [5, 10]
    assert row.state == "given_up"
    assert "404" in row.error
    assert hooks.send_due() == 0
    assert len(receiver.got) == 3


def test_a_redirect_is_not_followed(store: Store, receiver: Receiver) -> None:
    """It would lead past the check of the address."""
    receiver.codes = [302, 307]
    hooks = Webhooks(store, [WebhookSettings(url=receiver.url, allow_internal=True)])
    hooks.notify("decision", summary(), None, "")
    assert hooks.send_due() == 0
    make_due(store)
    assert hooks.send_due() == 0
    assert [path for path, _, _ in receiver.got] == ["/", "/"]


def test_an_internal_address_is_not_even_asked(store: Store, receiver: Receiver) -> None:
    hooks = Webhooks(store, [WebhookSettings(url=receiver.url)])
    hooks.notify("decision", summary(), None, "")
    assert hooks.send_due() == 0
    (row,) = rows(store)
    assert row.state == "given_up"
    assert "internal address 127.0.0.1" in row.error
    assert receiver.got == []


def test_the_address_that_was_checked_is_the_one_that_is_asked(store: Store, receiver: Receiver) -> None:
    """A name that leads elsewhere the second time it is looked up (DNS rebinding) is looked up once."""
    asked: list[str] = []

    def lookup(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    url = f"http://hooks.example:{receiver.server_port}/"
    hooks = Webhooks(store, [WebhookSettings(url=url, allow_internal=True)], lookup=lookup)
    hooks.notify("decision", summary(), None, "")
    assert hooks.send_due() == 1
    assert asked == ["hooks.example"]
    assert receiver.got[0][1]["Host"] == f"hooks.example:{receiver.server_port}"


def test_a_secret_that_is_not_there_sends_nothing(store: Store, receiver: Receiver) -> None:
    hooks = Webhooks(store, [WebhookSettings(url=receiver.url, secret="$NO_SUCH_VARIABLE", allow_internal=True)])
    hooks.notify("decision", summary(), None, "")
    assert hooks.send_due() == 0
    assert receiver.got == []
    assert "NO_SUCH_VARIABLE" in rows(store)[0].error


def test_a_fleet_tells_of_decisions_failures_and_approvals(tmp_path: Path) -> None:
    told: list[str] = []
    world = make_world(tmp_path, [short_job()], Policy(pattern="*", mode="approve", tuner="ds2"))
    world.context.notify = lambda event, _job, _decision, _text: told.append(event)
    world.run(400)
    assert {"decision", "approval_wanted"} <= set(told)
