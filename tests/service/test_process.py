"""``streamtune serve`` as an operator meets it: a process that gets signals, dies, comes back, and shares its store."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from engines.flink.fake_flink import FakeFlink

pytestmark = pytest.mark.slow
_STREAMTUNE = [sys.executable, "-c", "from streamtune.cli import main; main()"]
PATIENCE_S = 30.0


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    """A Flink whose time passes as ours does."""
    over = threading.Event()
    with FakeFlink() as server:

        def tick() -> None:
            last = time.monotonic()
            while not over.wait(0.05):
                now = time.monotonic()
                server.clock.sleep(now - last)
                last = now

        ticking = threading.Thread(target=tick, daemon=True)
        ticking.start()
        yield server
        over.set()
        ticking.join()


class Served:
    """One running ``streamtune serve``."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log
        found = self.wait_for("address", lambda: re.search(r"dashboard: (http\S+)", self.said()))
        self.url: str = found[1]

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def get(self, path: str, **more: Any) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=20, **more)

    def job(self) -> dict[str, Any]:
        jobs = self.get("/api/v1/jobs").json()["jobs"]
        return jobs[0] if jobs else {}

    def decisions(self) -> list[dict[str, Any]]:
        job = self.job()
        return self.get(f"/api/v1/jobs/{job['id']}/decisions").json()["decisions"] if job else []

    def wait_for(self, what: str, found: Callable[[], Any]) -> Any:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            answer = found()
            if answer:
                return answer
            assert self.process.poll() is None, self.said()[-2000:]
            time.sleep(0.1)
        raise AssertionError(f"no {what} within {PATIENCE_S:.0f} s: {self.said()[-2000:]}")

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


def write_config(folder: Path, url: str, mode: str = "auto", **service: Any) -> Path:
    policy = {"pattern": "*", "mode": mode, "tuner": "ds2", "max_per_hour": 20}
    said = {"clusters": [{"name": "main", "url": url}], "policies": [policy], "window_s": 1, "settle_s": 1,
            "discover_s": 1, "lease_s": 5, **service}  # fmt: skip
    path = folder / "streamtune.yaml"
    path.write_text(yaml.safe_dump({"service": said}))
    return path


@contextmanager
def serve(folder: Path, config: Path, name: str = "one") -> Iterator[Served]:
    log = folder / f"{name}-{time.monotonic_ns()}.log"
    command = [*_STREAMTUNE, "serve", "--config", str(config), "--port", "0", "--data", str(folder / name)]
    command += ["--store", f"sqlite:///{folder}/service.db"]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env={**os.environ, "COLUMNS": "400"})
    try:
        yield Served(process, log)
    finally:
        process.kill()
        process.wait()


def test_settings_are_read_again_and_bad_ones_are_refused(tmp_path: Path, flink: FakeFlink) -> None:
    config = write_config(tmp_path, flink.url, "observe")
    with serve(tmp_path, config) as one:
        one.wait_for("job", lambda: one.job().get("mode") == "observe")
        write_config(tmp_path, flink.url, "recommend")
        one.process.send_signal(signal.SIGHUP)
        one.wait_for("new mode", lambda: one.job()["mode"] == "recommend")
        good = config.read_text()
        misspelt = good.replace("mode: recommend", "mode: recomend")
        for bad in ("service: [", misspelt, good.replace("window_s: 1", "window_s: soon")):
            config.write_text(bad)
            before = len(audit(one, "reload_refused"))
            one.process.send_signal(signal.SIGHUP)
            one.wait_for("refusal", lambda known=before: len(audit(one, "reload_refused")) > known)
            assert one.job()["mode"] == "recommend"
        assert "must be" in audit(one, "reload_refused")[0]["detail"]["error"]
        assert one.end() == 0


def statuses(one: Served) -> set[str]:
    return {decision["status"] for decision in one.decisions()}


def slowly(flink: FakeFlink, seconds: float) -> None:
    """Let Flink take its time over a new plan."""

    def wait(method: str, _path: str) -> None:
        if method == "PUT":
            time.sleep(seconds)

    flink.intercept = wait


def audit(one: Served, what: str) -> list[dict[str, Any]]:
    return [entry for entry in one.get("/api/v1/audit").json()["entries"] if entry["what"] == what]


def test_killed_and_started_again_it_goes_on_and_applies_nothing_twice(tmp_path: Path, flink: FakeFlink) -> None:
    config = write_config(tmp_path, flink.url)
    with serve(tmp_path, config) as one:
        one.wait_for(
            "plan being applied", lambda: any(two["status"] in ("applying", "applied") for two in one.decisions())
        )
        holder = one.get("/api/v1/service").json()["holder"]
        one.end(signal.SIGKILL)
    with serve(tmp_path, config) as again:
        again.wait_for("end of the decision", lambda: statuses(again) & {"applied", "failed"})
        assert again.get("/api/v1/service").json()["holder"] == holder
        again.wait_for("calm", lambda: flink.degrees["work"] >= 4 and not again.job()["backpressured"])
        plans = [request for request in flink.requests if request.startswith("PUT")]
        counted = [two for two in again.decisions() if two["status"] in ("applied", "failed", "rolled_back")]
        assert len(plans) == len(counted)
        assert again.end() == 0


def test_two_services_and_a_tune_do_not_fight(tmp_path: Path, flink: FakeFlink) -> None:
    config = write_config(tmp_path, flink.url)
    with serve(tmp_path, config) as one:
        one.wait_for("lease", lambda: one.job().get("lease"))
        holder = one.get("/api/v1/service").json()["holder"]
        tune = [
            *_STREAMTUNE,
            "tune",
            "--engine",
            "flink",
            "--url",
            flink.url,
            "--store",
            f"sqlite:///{tmp_path}/service.db",
        ]
        refused = subprocess.run(
            tune, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, "COLUMNS": "400"}
        )
        assert refused.returncode != 0
        assert holder in refused.stdout + refused.stderr
        same = subprocess.run(
            [*_STREAMTUNE, "serve", "--config", str(config), "--port", "0", "--data", str(tmp_path / "one")],
            capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert same.returncode != 0
        assert "another service uses" in same.stderr
        with serve(tmp_path, config, "two") as two:
            told = two.wait_for("word of the other", lambda: two.job().get("trouble"))
            assert holder in told[0]
            assert one.job()["trouble"] == []
            one.end(signal.SIGKILL)  # the lease runs out, and the other goes on
            two.wait_for("lease of the other", lambda: two.job().get("trouble") == [] and two.job().get("lease"))
            assert two.end() == 0


def test_a_stop_finishes_a_rescale_and_gives_the_leases_back(tmp_path: Path, flink: FakeFlink) -> None:
    slowly(flink, 2.0)
    config = write_config(tmp_path, flink.url)
    with serve(tmp_path, config) as one:
        one.wait_for("plan being applied", lambda: "applying" in statuses(one))
        assert one.end() == 0
    from streamtune.service.store import Store

    store = Store(f"sqlite:///{tmp_path}/service.db")
    try:
        assert store.leases.all(store.lease_clock.now()) == {}
        counts = store.decisions.counts()
        assert "applying" not in counts
        assert counts["applied"] == len([request for request in flink.requests if request.startswith("PUT")])
    finally:
        store.close()


def test_a_stranger_with_curl(tmp_path: Path, flink: FakeFlink) -> None:
    config = write_config(tmp_path, flink.url, "observe")
    with serve(tmp_path, config) as one:
        one.wait_for("readiness", lambda: one.get("/readyz").status_code == 200)
        one.wait_for("job", one.job)
        job = one.job()["id"]
        for path in ("/healthz", "/readyz", "/metrics", "/api/openapi.json", "/api/v1/jobs", f"/api/v1/jobs/{job}",
                     f"/api/v1/jobs/{job}/decisions", "/"):  # fmt: skip
            answer = one.get(path)
            assert answer.status_code == 200, path
            assert "default-src 'self'" in answer.headers["content-security-policy"]
            assert "access-control-allow-origin" not in answer.headers
        assert one.get("/healthz", headers={"Host": "evil.example"}).status_code == 421
        assert (
            one.get("/api/v1/jobs", headers={"Origin": "https://evil.example"}).headers.get(
                "access-control-allow-origin"
            )
            is None
        )
        refused = httpx.post(f"{one.url}/api/v1/jobs/{job}/pause")
        assert refused.status_code == 401
        assert "token create" in refused.json()["error"]["next"]
        assert "changes need one" in one.said()
        big = httpx.post(f"{one.url}/api/v1/login", content=b"x" * 3_000_000)
        assert big.status_code == 413
