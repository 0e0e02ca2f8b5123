"""The real service as users start it: ``streamtune serve --demo`` in its own process, folder and port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

START_S = 60.0


@dataclass(frozen=True)
class Demo:
    """A running demo: where it is, and the operator's token that it printed."""

    url: str
    token: str

    def get(self, path: str, **query: Any) -> Any:
        return httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=20).raise_for_status().json()

    def metrics(self) -> str:
        return httpx.get(f"{self.url}/metrics", timeout=20).raise_for_status().text

    def wait_for(self, what: str, found: Callable[[], Any], within_s: float = 90.0) -> Any:
        """The first true answer of ``found``; the demo's minutes pass in seconds."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            answer = found()
            if answer:
                return answer
            time.sleep(0.5)
        raise AssertionError(f"the demo shows no {what} after {within_s:.0f} s")

    def job_with_a_plan(self) -> dict[str, Any]:
        """A job that waits for an approval, one in trouble if there is any; its plan adds instances."""

        def found() -> dict[str, Any] | None:
            jobs = [job for job in self.get("jobs")["jobs"] if job["pending"] and job["mode"] == "approve"]
            troubled: list[dict[str, Any]] = [job for job in jobs if job["backpressured"]]
            return troubled[0] if troubled else None

        job: dict[str, Any] = self.wait_for("job in trouble with a plan that waits", found)
        return job


@contextmanager
def demo(folder: Path) -> Iterator[Demo]:
    """Start it, wait until it is ready, stop it the way an init system does."""
    log = folder / "serve.log"
    command = [
        sys.executable,
        "-c",
        "from streamtune.cli import main; main()",
        "serve",
        "--demo",
        "--port",
        "0",
        "--data",
        str(folder / "data"),
    ]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env={**os.environ, "COLUMNS": "500"})
    try:
        yield _ready(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _ready(process: subprocess.Popen[bytes], log: Path) -> Demo:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        text = log.read_text(encoding="utf-8", errors="replace")
        address, token = re.search(r"dashboard: (http://\S+)", text), re.search(r"token of this demo: (\S+)", text)
        if process.poll() is not None:
            raise AssertionError(f"streamtune serve --demo ended with {process.returncode}: {text[-2000:]}")
        if address and token and httpx.get(f"{address[1]}/readyz", timeout=20).status_code == httpx.codes.OK:
            return Demo(address[1], token[1])
        time.sleep(0.2)
    raise AssertionError(f"streamtune serve --demo was not ready within {START_S:.0f} s: {log.read_text()[-2000:]}")
