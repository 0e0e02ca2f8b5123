"""The API: who may do what, what is refused, and in which words."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.worlds import World, key_of, make_world, short_job
from streamtune.service.api.app import make_app
from streamtune.service.api.limits import Buckets
from streamtune.service.api.security import COOKIE
from streamtune.service.api.state import ApiState
from streamtune.service.clusters.simulated import SimulatedJob
from streamtune.service.demo import _renamed
from streamtune.service.metrics import ServiceCollector
from streamtune.service.settings import ApiSettings, Policy

SCRIPT = "<script>alert(1)</script>"
Q1 = "nexmark-q1"


def named(job: SimulatedJob, name: str) -> SimulatedJob:
    return replace(job, workload=_renamed(job.workload, name))


class Api:
    """A service on a hand-moved clock, and clients of every kind."""

    def __init__(self, folder: Path, **api: Any) -> None:
        jobs = [short_job(), named(short_job(), SCRIPT)]
        limits = {"requests_per_minute": 100_000, "failures_per_minute": 100_000, **api}
        self.world: World = make_world(
            folder,
            jobs,
            Policy(pattern="nexmark-*", mode="approve", tuner="ds2"),
            Policy(pattern="*", mode="recommend", tuner="ds2"),
            api=ApiSettings(**limits),
        )
        self.world.run(400)
        self.world.context.flush()
        state = ApiState(self.world.context, self.world.fleet, self.world.clock.now())
        state.metrics = ServiceCollector(self.world.context, self.world.fleet).text
        self.app = make_app(state)
        now = datetime.now(UTC)
        tokens = self.world.store.tokens
        self.viewer = tokens.create("vera", "viewer", now)[1]
        self.operator = tokens.create("oscar", "operator", now)[1]

    def client(
        self, token: str | None = None, *, address: str = "127.0.0.1", host: str = "127.0.0.1:8440"
    ) -> TestClient:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return TestClient(
            self.app,
            base_url=f"http://{host}",
            client=(address, 5000),
            headers=headers,
            raise_server_exceptions=False,
            follow_redirects=False,
        )

    @property
    def job(self) -> str:
        return f"/api/v1/jobs/{key_of(Q1)}"

    @property
    def pending(self) -> str:
        (decision,) = self.world.decisions(Q1, "proposed")
        return f"{self.job}/decisions/{decision.id}"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One for all tests that change nothing."""
    api = Api(tmp_path_factory.mktemp("api"))
    yield api
    api.world.store.close()


CHANGES = [
    ("POST", "{job}/decisions/00/approve", None),
    ("POST", "{job}/decisions/00/reject", None),
    ("POST", "{job}/rollback", None),
    ("POST", "{job}/pause", None),
    ("POST", "{job}/resume", None),
    ("PUT", "{job}/bounds", {}),
    ("POST", "/api/v1/models/m1/promote", None),
    ("POST", "/api/v1/models/rollback", None),
]
READS = [
    "/api/v1/service", "/api/v1/jobs", "{job}", "{job}/decisions", "{job}/observations", "{job}/drawing.svg",
    "/api/v1/models", "/api/v1/history", "/api/v1/policies", "/api/v1/audit", "/metrics",
]  # fmt: skip


def is_refused(answer: Any, status: int, code: str) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    assert error["message"]
    assert error["next"]


@pytest.mark.parametrize("path", READS)
def test_this_machine_may_read_and_no_other_without_a_token(shared: Api, path: str) -> None:
    path = path.format(job=shared.job)
    assert shared.client().get(path).status_code == 200
    is_refused(shared.client(address="203.0.113.5").get(path), 401, "no_token")
    assert shared.client(shared.viewer, address="203.0.113.5").get(path).status_code == 200


def test_a_proxy_on_this_machine_is_not_this_machine(shared: Api) -> None:
    for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
        is_refused(shared.client().get("/api/v1/jobs", headers={header: "203.0.113.5"}), 401, "no_token")


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_changes_need_an_operator(shared: Api, method: str, path: str, body: Any) -> None:
    path = path.format(job=shared.job)
    is_refused(shared.client().request(method, path, json=body), 401, "no_token")
    is_refused(shared.client(shared.viewer).request(method, path, json=body), 403, "wrong_role")
    is_refused(shared.client("st_000000000000_wrong").request(method, path, json=body), 401, "bad_token")
    strange = {"Authorization": "Bearer nonsense é".encode()}
    is_refused(shared.client().request(method, path, json=body, headers=strange), 401, "bad_token")


def test_a_revoked_token_is_worth_nothing_at_once(shared: Api) -> None:
    tokens, now = shared.world.store.tokens, datetime.now(UTC)
    _, text = tokens.create("gone", "operator", now)
    client = shared.client(text, address="203.0.113.5")
    assert client.get("/api/v1/jobs").status_code == 200
    tokens.revoke("gone", now)
    is_refused(client.get("/api/v1/jobs"), 401, "bad_token")
    _, old = tokens.create("old", "operator", now, now - timedelta(seconds=1))
    is_refused(shared.client(old).get("/api/v1/jobs"), 401, "bad_token")


def test_the_dashboard_logs_in_and_another_site_cannot_use_that(tmp_path: Path) -> None:
    api = Api(tmp_path)
    browser = api.client()
    is_refused(browser.post("/api/v1/login", json={"token": "st_x_y"}), 401, "bad_token")
    answer = browser.post("/api/v1/login", json={"token": api.operator})
    cookie = answer.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/"))
    csrf = answer.json()["csrf"]
    assert browser.get("/api/v1/login").json()["csrf"] == csrf
    assert browser.get("/api/v1/service").json()["identity"] == {"name": "oscar", "role": "operator"}
    is_refused(browser.post(f"{api.job}/pause"), 403, "csrf")  # what a form of another site could send
    is_refused(browser.post(f"{api.job}/pause", headers={"X-CSRF-Token": "x"}), 403, "csrf")
    assert browser.post(f"{api.job}/pause", headers={"X-CSRF-Token": csrf}).json()["paused"]
    api.world.store.tokens.revoke("oscar", datetime.now(UTC))  # a session ends with its token
    is_refused(browser.post(f"{api.job}/resume", headers={"X-CSRF-Token": csrf}), 401, "no_token")
    browser.post("/api/v1/logout")
    assert COOKIE not in browser.cookies


def test_no_answer_lets_another_site_read_it(shared: Api) -> None:
    answer = shared.client().get("/api/v1/jobs", headers={"Origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    preflight = shared.client().options("/api/v1/jobs", headers={"Origin": "https://evil.example"})
    assert preflight.status_code == 405


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8440", "127.0.0.1.evil.example", "10.0.0.5", "", "*"])
def test_a_foreign_host_is_refused(shared: Api, host: str) -> None:
    is_refused(shared.client().get("/api/v1/jobs", headers={"Host": host}), 421, "foreign_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8440", "127.0.0.1", "[::1]:8440"])
def test_our_own_names_are_not(shared: Api, host: str) -> None:
    assert shared.client().get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/v1/jobs", "/nowhere", "/static/index.html"])
def test_every_answer_forbids_what_a_page_does_not_need(shared: Api, path: str) -> None:
    headers = shared.client().get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../settings.py", "/static/..%2f..%2fsettings.py", "/static/%2e%2e/settings.py", "/static//etc/passwd",
        "/static/....//settings.py", "/static/..\\settings.py", "/..%2f..%2fetc/passwd",
        "/api/v1/jobs/..%2f..%2fetc%2fpasswd", "/api/v1/jobs/%2e%2e/drawing.svg", "/static/%00",
        "/static/" + "a" * 3000,
    ],
)  # fmt: skip
def test_no_path_leads_out(shared: Api, path: str) -> None:
    answer = shared.client().get(path)
    assert answer.status_code in (400, 404, 405, 414, 422)
    assert "root:" not in answer.text
    assert "ServiceSettings" not in answer.text


def test_large_bodies_are_refused_with_and_without_a_length(shared: Api) -> None:
    client = shared.client(shared.operator)
    is_refused(client.put(f"{shared.job}/bounds", content=b"x" * 70_000), 413, "too_large")

    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    is_refused(client.put(f"{shared.job}/bounds", content=pieces()), 413, "too_large")
    is_refused(client.put(f"{shared.job}/bounds", content=b"{}", headers={"Content-Length": "-5"}), 413, "too_large")


def test_a_deeply_nested_body_ends_nothing(shared: Api) -> None:
    body = "[" * 30_000 + "]" * 30_000
    answer = shared.client(shared.operator).put(
        f"{shared.job}/bounds", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (400, 422)


def test_too_many_requests_have_to_wait(tmp_path: Path) -> None:
    api = Api(tmp_path, requests_per_minute=40)
    client = api.client()
    codes = [client.get("/healthz").status_code for _ in range(30)]
    assert codes.count(200) == 10  # a quarter of a minute's share at once
    assert codes[-1] == 429
    assert api.client(address="203.0.113.9").get("/healthz").status_code == 200  # others need not


def test_guessing_tokens_is_slow(tmp_path: Path) -> None:
    api = Api(tmp_path, failures_per_minute=8)
    codes = [api.client(f"st_000000000000_{number}").get("/api/v1/jobs").status_code for number in range(6)]
    assert codes == [401, 401, 429, 429, 429, 429]


def test_buckets_fill_again() -> None:
    now = [0.0]
    buckets = Buckets(60, clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(17)].count(True) == 15
    now[0] = 2.0
    assert [buckets.take("a") for _ in range(5)].count(True) == 2


def test_a_script_in_a_name_is_text(shared: Api) -> None:
    client = shared.client()
    answer = client.get("/api/v1/jobs", params={"query": "script"})
    (job,) = answer.json()["jobs"]
    assert answer.headers["content-type"].startswith("application/json")
    assert job["name"] == SCRIPT
    picture = client.get(f"/api/v1/jobs/{job['id']}/drawing.svg")
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert "<script" not in picture.text
    assert "&lt;script&gt;" in picture.text
    told = client.get("/metrics").text
    assert 'job_name="<script>alert(1)</script>"' in told  # Prometheus' form escapes quotes alone


@pytest.mark.parametrize("text", ["' or 1=1 --", "%", "_", "'; drop table jobs; --", '"', "\\", "\x00", "é\u202e"])
def test_sql_in_a_filter_is_text(shared: Api, text: str) -> None:
    client = shared.client()
    assert client.get("/api/v1/jobs", params={"query": text}).json()["total"] == 0
    assert client.get(f"{shared.job}/decisions", params={"before": text}).status_code == 200
    assert client.get(f"{shared.job}/decisions", params={"status": text}).status_code == 422
    assert client.get("/api/v1/jobs", params={"cluster": text}).json()["jobs"] == []
    assert client.get("/api/v1/jobs").json()["total"] == 2


def test_the_whole_way_approve_apply_roll_back(tmp_path: Path) -> None:
    api = Api(tmp_path)
    client, path = api.client(api.operator), api.pending
    assert client.post(f"{path}/approve").json()["status"] == "approved"
    is_refused(client.post(f"{path}/approve"), 409, "not_proposed")
    api.world.run(300)
    done = client.get(path).json()
    assert done["status"] == "applied"
    assert [step["by"] for step in done["history"]][1] == "oscar"
    assert done["outcome"]["backpressured"] is False
    back = client.post(f"{api.job}/rollback").json()
    assert (back["kind"], back["from"], back["to"]) == ("rollback", done["to"], done["from"])
    api.world.run(60)
    assert client.get(path).json()["status"] == "rolled_back"
    assert client.get(api.job).json()["paused"] is True
    is_refused(client.post(f"{api.job}/rollback"), 409, "nothing_applied")
    told = [(entry["who"], entry["what"]) for entry in client.get("/api/v1/audit").json()["entries"]]
    assert told == [("oscar", "rollback"), ("oscar", "approve")]


def test_bounds_are_checked_and_kept(tmp_path: Path) -> None:
    api = Api(tmp_path)
    client = api.client(api.operator)
    operator = client.get(api.job).json()["operators"][1]["id"]
    is_refused(client.put(f"{api.job}/bounds", json={"nobody": {"min": 1, "max": 2}}), 422, "no_operator")
    is_refused(client.put(f"{api.job}/bounds", json={operator: {"min": 3, "max": 2}}), 422, "bounds")
    is_refused(client.put(f"{api.job}/bounds", json={operator: {"min": 0, "max": 2}}), 422, "not_valid")
    most = client.get(api.job).json()["operators"][1]["max_parallelism"]
    beyond = client.put(f"{api.job}/bounds", json={operator: {"min": most + 1, "max": most + 1}})
    is_refused(beyond, 422, "bounds")
    assert client.put(f"{api.job}/bounds", json={operator: {"min": 1, "max": 2}}).json()["bounds"] == {
        operator: {"min": 1, "max": 2}
    }


def test_recommend_cannot_be_approved(shared: Api) -> None:
    (decision,) = shared.world.decisions(SCRIPT, "proposed")
    path = f"/api/v1/jobs/{decision.job}/decisions/{decision.id}/approve"
    is_refused(shared.client(shared.operator).post(path), 409, "mode")


@pytest.mark.parametrize("path", ["/api/v1/jobs/none", "/api/v1/jobs/none/decisions", "/nowhere", "{job}/decisions/ff"])
def test_what_is_not_there_is_said_so(shared: Api, path: str) -> None:
    answer = shared.client().get(path.format(job=shared.job))
    assert answer.status_code == 404
    assert answer.json()["error"]["next"]


def test_health_says_whether_the_store_answers(tmp_path: Path) -> None:
    api = Api(tmp_path)
    assert api.client(address="203.0.113.5").get("/healthz").json() == {"status": "ok"}
    assert api.client().get("/readyz").status_code == 200
    (tmp_path / "service.db").rename(tmp_path / "moved.db")
    (tmp_path / "service.db").mkdir()
    api.world.store.database.engine.dispose()
    is_refused(api.client().get("/readyz"), 503, "store")
    assert api.client().get("/healthz").status_code == 200


def test_observations_are_a_table_of_columns(shared: Api) -> None:
    found = shared.client().get(f"{shared.job}/observations", params={"points": 3}).json()
    assert len({len(column) for key, column in found.items() if key != "parallelism"}) == 1
    assert set(found["parallelism"]) == {
        operator["id"] for operator in shared.client().get(shared.job).json()["operators"]
    }
    strange = {"since": "9999-12-31T23:59:59-14:00", "until": "0001-01-01T00:00:00+14:00"}
    for name, moment in strange.items():
        assert shared.client().get(f"{shared.job}/observations", params={name: moment}).status_code == 422


def test_metrics_are_prometheus(shared: Api) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    found = {family.name for family in text_string_to_metric_families(shared.client().get("/metrics").text)}
    assert {"streamtune_job_rate", "streamtune_job_seconds_since_observation", "streamtune_leases_held"} <= found


def test_live_changes_reach_listeners_and_nothing_is_missed(shared: Api) -> None:
    events = shared.world.context.events
    events.publish("service", {"number": 1})
    last = events.since(0)[-1].id
    events.publish("service", {"number": 2})
    import anyio

    from streamtune.service.api.events import listen

    async def first() -> Any:
        class Here:
            async def is_disconnected(self) -> bool:
                return False

        class Service:
            context = shared.world.context

        response = await listen(Service(), Here(), str(last))  # type: ignore[arg-type]
        return await anext(response.body_iterator)  # type: ignore[call-overload]

    event = anyio.run(first)
    assert (event.event, event.id, json.loads(event.data)) == ("service", str(last + 1), {"number": 2})


def test_an_answer_is_quick(shared: Api) -> None:
    client = shared.client()
    began = time.perf_counter()
    for _ in range(20):
        client.get("/api/v1/jobs")
    assert (time.perf_counter() - began) / 20 < 0.2
