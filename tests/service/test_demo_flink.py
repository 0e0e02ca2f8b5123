"""The demo on a real Flink: a rate rises, a plan is applied live, and the history grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamtune.engines.base import MeasurementWindow
from streamtune.service.clusters.flink import FlinkCluster
from streamtune.service.demo_flink import FlinkDemo, flink_demo, flink_demo_settings
from streamtune.service.service import Service
from streamtune.service.settings import LearnSettings
from streamtune.service.store import Store

JOB = "nexmark-q1"
FILES_S = 4.0
RUNS = 12


@contextmanager
def served(demo: FlinkDemo, folder: Path) -> Iterator[tuple[Service, httpx.Client]]:
    """The demo's service with short windows, in this process."""
    settings = flink_demo_settings().replace(window_s=5.0, settle_s=3.0, discover_s=2.0, learn=LearnSettings())
    settings = settings.replace(api=settings.api.replace(port=0))
    store = Store(f"sqlite:///{folder}/service.db")
    cluster = FlinkCluster("local", demo.url, MeasurementWindow(settings.settle_s, settings.window_s))
    service = Service(settings, store, [cluster], data=folder, demo="flink", source="the demo")
    assert service._writer is not None
    service._writer._every_s = FILES_S
    said: list[str] = []
    running = threading.Thread(target=service.run, args=(said.append,))
    running.start()
    try:
        wait_for("address", lambda: said)
        token = store.tokens.create("oscar", "operator", datetime.now(UTC))[1]
        with httpx.Client(base_url=said[0], headers={"Authorization": f"Bearer {token}"}, timeout=20) as client:
            wait_for("answer", lambda: client.get("/readyz").status_code == 200)
            yield service, client
    finally:
        service.stop()
        running.join(60)
        assert not running.is_alive()


def wait_for(what: str, found: Callable[[], Any], within_s: float = 90.0) -> Any:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            answer = found()
        except httpx.TransportError:
            answer = None
        if answer:
            return answer
        time.sleep(0.5)
    raise AssertionError(f"no {what} within {within_s:.0f} s")


def job_of(client: httpx.Client) -> dict[str, Any]:
    jobs: list[dict[str, Any]] = client.get("/api/v1/jobs", params={"query": JOB}).json()["jobs"]
    return jobs[0] if jobs else {}


def applied(client: httpx.Client) -> list[dict[str, Any]]:
    answer = client.get(f"/api/v1/jobs/{job_of(client)['id']}/decisions", params={"status": "applied"})
    found: list[dict[str, Any]] = answer.json()["decisions"]
    return found


def grows(decision: dict[str, Any]) -> bool:
    return sum(decision["to"].values()) > sum(decision["from"].values())


def decision_of(client: httpx.Client, decision: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/api/v1/jobs/{job_of(client)['id']}/decisions/{decision}").json()
    return found


def parallelisms(demo: FlinkDemo) -> list[int]:
    details = httpx.get(f"{demo.url}/jobs/{demo.deployments[JOB].id}", timeout=20).json()
    return sorted(vertex["parallelism"] for vertex in details["vertices"])


def runs_in(folder: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in (folder / "runs").glob("runs-*.jsonl"))


@pytest.mark.realtime
@pytest.mark.slow
def test_a_rate_rises_and_a_plan_is_applied_live(tmp_path: Path) -> None:
    with flink_demo(tmp_path / "flink", change_s=0) as demo, served(demo, tmp_path) as (_, client):
        demo.offer(JOB, 2.0)
        wait_for("observation", lambda: job_of(client).get("last_observed"))
        wait_for("calm", lambda: job_of(client)["backpressured"] is False)
        demo.offer(JOB, 9.0)
        risen = wait_for("plan for the higher rate", lambda: [one for one in applied(client) if grows(one)])[0]
        wait_for("calm", lambda: job_of(client)["backpressured"] is False)
        wait_for("outcome", lambda: decision_of(client, risen["id"])["outcome"])
        wait_for("plan in Flink itself", lambda: parallelisms(demo) == sorted(applied(client)[0]["to"].values()))

        wait_for("history", lambda: runs_in(tmp_path) >= RUNS, 120)
