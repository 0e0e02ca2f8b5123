"""Ways in, and that no secret ever leaves: console, JSON, audit trail, crash files and errors are searched for it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import httpx
import pytest

from engines.flink.fake_flink import FakeFlink
from streamtune.cli import run
from streamtune.cli.net import keep
from streamtune.control.audit import AuditTrail
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient
from streamtune.engines.flink.access import Access, split_login
from streamtune.engines.flink.client import FlinkRefusedError
from streamtune.engines.flink.settings import AccessSettings, FlinkSettings
from streamtune.errors import EngineError
from streamtune.labs.flink import FlinkDistribution
from streamtune.outputs import redacted
from streamtune.service.clusters.flink import FlinkCluster

SECRET = "s3cr3t-tok3n"


def headers_of(client: FlinkClient, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a request would carry."""
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={"jobs": []})

    monkeypatch.setattr(client._http, "_transport", httpx.MockTransport(answer))
    monkeypatch.setattr(client._http, "_mounts", {})
    client.jobs()
    return {"url": str(sent[0].url), **sent[0].headers}


def test_tokens_passwords_and_headers_from_environment_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    monkeypatch.setenv("TENANT", "blue")
    token = Access.of(AccessSettings(token_file=file, headers={"X-Tenant": "env:TENANT"}))
    found = headers_of(FlinkClient("https://proxy/flink/prod", access=token), monkeypatch)
    assert found["url"] == "https://proxy/flink/prod/jobs/overview"
    assert (found["authorization"], found["x-tenant"]) == (f"Bearer {SECRET}", "blue")
    monkeypatch.setenv("STREAMTUNE_FLINK_USER", "me")
    monkeypatch.setenv("STREAMTUNE_FLINK_PASSWORD", SECRET)
    basic = headers_of(FlinkClient("https://proxy", access=Access.of()), monkeypatch)["authorization"]
    assert base64.b64decode(basic.removeprefix("Basic ")).decode() == f"me:{SECRET}"
    assert SECRET not in repr(token)


def test_a_login_in_the_address_works_and_is_not_kept_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert split_login("http://me:a%40b@host:8081/x") == ("http://host:8081/x", ("me", "a@b"))
    client = FlinkClient(f"https://me:{SECRET}@proxy/prod")
    assert client.url == "https://proxy/prod"
    assert headers_of(client, monkeypatch)["authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (302, "as by a login page"),
        (401, "It asks who you are: set STREAMTUNE_FLINK_TOKEN"),
        (403, "not allowed to do this"),
    ],
)
def test_what_a_proxy_says_is_named(fake: FakeFlink, status: int, words: str) -> None:
    fake.intercept = lambda _method, _path: (status, b"<html>log in</html>")
    with pytest.raises(FlinkRefusedError, match=words):
        FlinkClient(fake.url, retries=0).jobs() if status != 302 else _redirected().jobs()


def test_who_has_said_who_he_is_is_not_asked_again(fake: FakeFlink) -> None:
    fake.intercept = lambda _method, _path: (401, b"")
    with pytest.raises(FlinkRefusedError, match=r"with 401\. It does not know the user, password or token that it was"):
        FlinkClient(fake.url.replace("//", "//me:wrong@"), retries=0).jobs()


def _redirected() -> FlinkClient:
    client = FlinkClient("https://proxy", retries=0)

    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(302, headers={"location": f"https://sso/login?state={SECRET}"})

    client._http._transport = httpx.MockTransport(answer)
    client._http._mounts = {}
    return client


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate",
            r"certificate of https://proxy is not trusted .*access\.ca_file",
        ),
        (
            "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required",
            "asks for a certificate of yours",
        ),
    ],
)
def test_a_certificate_that_is_not_trusted_or_missing_is_named(problem: str, words: str) -> None:
    client = FlinkClient("https://proxy", retries=0)

    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(problem)

    client._http._transport = httpx.MockTransport(refuse)
    client._http._mounts = {}
    with pytest.raises(FlinkRefusedError, match=words):
        client.jobs()


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("[SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert protocol version", "see which versions it allows"),
        ("[SSL: SSLV3_ALERT_HANDSHAKE_FAILURE] sslv3 alert handshake failure", "wants a certificate of yours"),
    ],
)
def test_a_handshake_that_fails_says_of_what(problem: str, words: str) -> None:
    client = FlinkClient("https://proxy", retries=0)

    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(problem)

    client._http._transport = httpx.MockTransport(refuse)
    client._http._mounts = {}
    with pytest.raises(FlinkRefusedError, match=words):
        client.jobs()


def test_https_on_a_port_that_speaks_http_is_named(fake: FakeFlink) -> None:
    with pytest.raises(FlinkRefusedError, match=r"does not speak TLS .*: give it as http://"):
        FlinkClient(fake.url.replace("http://", "https://"), retries=0).jobs()


def test_http_on_a_port_that_speaks_https_is_named() -> None:
    """As Flink itself does with ``security.ssl.rest.enabled``."""
    client = FlinkClient("http://flink:8081", retries=0)
    elsewhere = httpx.Response(301, headers={"location": "https://flink:8081/jobs/overview"})
    client._http._transport = httpx.MockTransport(lambda _request: elsewhere)
    client._http._mounts = {}
    with pytest.raises(FlinkRefusedError, match="speaks TLS there, so give it as https://"):
        client.jobs()


def test_a_service_comes_in_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knew only of tokens in the environment, and showed the address with the password to whoever asked."""
    (tmp_path / "token").write_text(SECRET)
    access = AccessSettings(token_file=tmp_path / "token", headers={"X-Tenant": "blue"})
    window = MeasurementWindow(1, 1)
    cluster = FlinkCluster("prod", "https://proxy/prod", window, settings=FlinkSettings(access=access))
    found = headers_of(cluster._client, monkeypatch)
    assert (found["authorization"], found["x-tenant"]) == (f"Bearer {SECRET}", "blue")
    assert FlinkCluster("prod", f"https://me:{SECRET}@proxy/prod", window).url == "https://proxy/prod"


@pytest.mark.parametrize("kept", ["variable", "env header", "plain header"])
def test_a_line_break_at_the_end_of_a_secret_is_no_part_of_it(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``$(cat token)`` leaves none and ``$'…\\n'`` one: httpx refused it, and quoted the token on the screen."""
    settings = AccessSettings(headers={"X-Key": {"env header": "env:KEY"}.get(kept, f" {SECRET}\n")})
    monkeypatch.setenv("KEY", f"{SECRET}\n")
    monkeypatch.setenv("STREAMTUNE_FLINK_TOKEN", f"{SECRET}\r\n")
    found = headers_of(FlinkClient("https://proxy", access=Access.of(settings)), monkeypatch)
    assert (found["authorization"], found["x-key"]) == (f"Bearer {SECRET}", SECRET)


@pytest.mark.parametrize("odd", [f"{SECRET}\nX: y", f"{SECRET}ü", f"{SECRET}\x00"])
def test_secrets_that_no_header_can_hold_are_refused_without_being_shown(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text(odd, encoding="utf-8")
    for settings in (AccessSettings(token_file=file), AccessSettings(headers={"X": odd})):
        with pytest.raises(EngineError, match=r"the (token|header X) holds a line break or a letter that is not ASCII"):
            Access.of(settings)
    if "\x00" not in odd:  # which no environment takes
        monkeypatch.setenv("STREAMTUNE_FLINK_TOKEN", odd)
        assert run(["flink", "status", "--url", "http://127.0.0.1:1"]) == 2
        shown = capsys.readouterr()
        assert SECRET not in shown.out + shown.err
        assert "check where it is kept" in " ".join(shown.err.split())


def test_an_error_of_http_itself_is_not_quoted() -> None:
    """It quotes the header that it refuses."""
    client = FlinkClient("https://proxy", retries=0, access=Access({"X-Key": SECRET}))

    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.LocalProtocolError(f"Illegal header value b'{SECRET}'")

    client._http._transport = httpx.MockTransport(refuse)
    client._http._mounts = {}
    with pytest.raises(FlinkRefusedError, match="a header that is to be sent is not allowed") as told:
        client.jobs()
    assert SECRET not in str(told.value)


def test_an_at_in_a_password_is_a_part_of_it() -> None:
    assert split_login("http://me:p@ss@h:1/x") == ("http://h:1/x", ("me", "p@ss"))
    assert split_login("http://a-token@h") == ("http://h", ("a-token", ""))
    assert redacted("at http://me:p@ss@h:1/x") == "at http://***@h:1/x"
    assert redacted("at http://a-token@h") == "at http://***@h"


@pytest.mark.parametrize(
    "url",
    [
        f"http://me:{SECRET}/x@h:1",
        f"http://me:1/{SECRET}@h",
        f"http://me:1?{SECRET}@h",
        f"http://me:{SECRET}#@h",
        f"http://me:x {SECRET}@h",
        f"http://me:x'{SECRET}@h",
        f"ftp://me:{SECRET}/x@h",
        "http://host:port",
        "http://host:99999",
        "http://[::1",
        "http://",
        "http://a b",
    ],
)
def test_what_is_no_address_is_refused_without_being_shown(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """These ended as a defect of StreamTune, and the crash file held the password."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for given in (["flink", "status", "--url", url], ["flink", "doctor", "--url", url], ["collect", "--url", url]):
        assert run(given) == 2, given
    config = tmp_path / "streamtune.yaml"
    config.write_text(f"engines: {{flink: {{url: {json.dumps(url)}}}}}\n")
    monkeypatch.setenv("STREAMTUNE_CONFIG", str(config))
    run(["config", "show", "--json"])
    run(["config", "show"])
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err
    assert not [*tmp_path.rglob("crash-*")]


def test_a_crash_file_holds_no_password_however_the_address_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    url = f"http://me:{SECRET}/{SECRET}@h:1"
    kept = keep(ValueError(f"no port in {url}"), ["flink", "status", f"--url={url}"])
    assert kept is not None
    text = kept.read_text()
    assert SECRET not in text
    assert "--url=http://***@h:1" in text


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"token cannot be read from .*nowhere"):
        Access.of(AccessSettings(token_file=tmp_path / "nowhere"))
    with pytest.raises(EngineError, match="certificates cannot be used"):
        Access.of(AccessSettings(ca_file=tmp_path / "nowhere.pem"))
    with pytest.raises(EngineError, match="no variable MISSING"):
        Access.of(AccessSettings(headers={"X": "env:MISSING"}))


def _without_a_jvm(fake: FakeFlink, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is the fake's own, jars are not compiled, and uploads are taken."""
    jar = folder / "job.jar"
    jar.write_bytes(b"PK")
    for module in ("engines.flink.engine", "engines.flink.collecting", "cli.flink_tuning"):
        monkeypatch.setattr(f"streamtune.{module}.SystemClock", lambda: fake.clock)
    monkeypatch.setattr("streamtune.labs.flink.submission.workload_jar", lambda _distribution: jar)
    monkeypatch.setattr(FlinkDistribution, "find", lambda _home=None: FlinkDistribution(folder))

    def upload(_method: str, path: str) -> tuple[int, object] | None:
        return (200, {"filename": "/uploads/1_job.jar"}) if path == "/jars/upload" else None

    fake.intercept = upload


def test_no_output_holds_a_secret(
    fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that takes an address, with a password in it, and with everything going wrong as well."""
    _without_a_jvm(fake, tmp_path, monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("STREAMTUNE_FLINK_TOKEN", SECRET)
    url = fake.url.replace("http://", f"http://me:{SECRET}@")
    audit = tmp_path / "audit.jsonl"
    timing = ("--settle-s", "0", "--window-s", "1")
    query, space = tmp_path / "query.sql", ("--jar", "1_job.jar", "--steps", "1", "--store", str(tmp_path / "trials"))
    query.write_text("CREATE TABLE a (x INT); INSERT INTO a SELECT x FROM a;")
    done: list[tuple[str, ...]] = [
        (
            "tune",
            "--engine",
            "flink",
            "--url",
            url,
            "--audit",
            str(audit),
            "--history",
            str(tmp_path / "runs"),
            *timing,
        ),
        ("collect", "--url", url, "--out", str(tmp_path / "records"), *timing, "--duration-s", "9"),
        ("plan", "--engine", "flink", "--url", url, "--rate", "2x"),
        ("flink", "submit", str(query), "--url", url),
    ]
    for command in done:
        assert run(list(command)) == 0, command
    assert fake.degrees["work"] > 1 or fake.submitted
    commands: list[tuple[str, ...]] = [
        ("flink", "submit", "nexmark-q1", "--url", url),
        ("flink", "rates", "2x", "--url", url),
        ("place", "--engine", "flink", "--url", url, "--job-id", "nobody", "--hosts", "2"),
        ("plan", "--engine", "flink", "--url", url, "--job", "nobody"),
        ("flink", "status", "--url", url),
        ("flink", "status", "--url", url, "--json"),
        ("flink", "doctor", "--url", url),
        ("flink", "plan", "--url", url, "--json"),
        ("flink", "resume", "--url", url),
        ("tune", "--engine", "flink", "--url", url, "--job", "nobody", "--audit", str(audit), *timing),
        ("tune", "--engine", "flink", "--url", f"ftp://me:{SECRET}@host"),
        ("flink", "status", "--url", f"http://me:{SECRET}@127.0.0.1:1"),
    ]
    for command in commands:
        run(list(command))
    fake.intercept = lambda _method, _path: (403, b"<html>")
    for command in (*done, *commands, ("autoconfig", "run", "--engine", "flink", "--url", url, *space)):
        run(list(command))
    fake.intercept = lambda _method, _path: (200, b"<html>")
    run(["flink", "plan", "--url", url])
    config = tmp_path / "elsewhere" / "streamtune.yaml"
    monkeypatch.setenv("STREAMTUNE_CONFIG", str(config))
    config.parent.mkdir()
    access = f"{{headers: {{Authorization: Bearer {SECRET}, X-Tenant: env:TENANT}}}}"
    config.write_text(f"engines: {{flink: {{url: {url}, access: {access}}}}}\n")
    run(["config", "show", "engines.flink"])
    run(["config", "show", "--json"])
    run(["flink", "status"])
    config.unlink()
    with AuditTrail(audit) as trail:
        trail.write("attached", {"url": url})
    shown = capsys.readouterr()
    texts = [shown.out, shown.err, *(file.read_text() for file in tmp_path.rglob("*") if file.is_file())]
    assert "env:TENANT" in shown.out
    assert not [text for text in texts if SECRET in text]


def test_redaction_leaves_all_else_alone() -> None:
    assert redacted("http://host:8081/a@b ok") == "http://host:8081/a@b ok"
    assert redacted("x https://u:p@h/ y http://:p@i") == "x https://***@h/ y http://***@i"
