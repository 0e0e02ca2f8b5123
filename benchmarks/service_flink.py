"""``streamtune serve --demo flink`` as a newcomer runs it, end to end, in two parts that share a folder.

1: the cluster starts, rates rise, plans are applied live, and the schedule of the service makes the first model.
2: started again on what it had, with the model; more history; ``streamtune learn`` by hand, which compares; rollback.

python benchmarks/service_flink.py 1 --folder build/service-flink --results benchmarks/results/service.json
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

_STREAMTUNE = [sys.executable, "-c", "from streamtune.cli import main; main()"]
_ENVIRONMENT = {**os.environ, "COLUMNS": "500"}


class Demo:
    """The running demo."""

    def __init__(self, folder: Path) -> None:
        self.began = time.monotonic()
        self.log = folder / f"serve-{int(time.time())}.log"
        command = [*_STREAMTUNE, "serve", "--demo", "flink", "--port", "0", "--data", str(folder)]
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=stream, env=_ENVIRONMENT)
        url, token = self.wait_for(
            "address", lambda: (self._said(r"dashboard: (\S+)"), self._said(r"demo: (st_\S+)")), 120
        )
        self.client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=20)
        self.up_s = self.age_s

    @property
    def age_s(self) -> float:
        return round(time.monotonic() - self.began, 1)

    def _said(self, pattern: str) -> str | None:
        found = re.search(pattern, self.log.read_text(errors="replace"))
        return None if found is None else found[1]

    def wait_for(self, what: str, found: Callable[[], Any], within_s: float) -> Any:
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            answer = found()
            if answer and (not isinstance(answer, tuple) or all(answer)):
                return answer
            if self.process.poll() is not None:
                raise SystemExit(f"the demo ended: {self.log.read_text()[-2000:]}")
            time.sleep(0.5)
        raise SystemExit(f"no {what} within {within_s:.0f} s: {self.log.read_text()[-2000:]}")

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(f"/api/v1/{path}", params=query).raise_for_status().json()

    def applied(self, name: str) -> list[dict[str, Any]]:
        jobs = self.get("jobs", query=name)["jobs"]
        return self.get(f"jobs/{jobs[0]['id']}/decisions", status="applied")["decisions"] if jobs else []

    def grown(self, name: str) -> dict[str, Any] | None:
        """The first plan that gave a job more instances."""
        found = [one for one in self.applied(name) if sum(one["to"].values()) > sum(one["from"].values())]
        return found[-1] if found else None

    def runs(self) -> int:
        return sum(day["runs"] for day in self.get("history")["days"])

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


def first_part(demo: Demo) -> dict[str, Any]:
    plan = demo.wait_for("plan that adds instances", lambda: demo.grown("nexmark-q1"), 300)
    told: dict[str, Any] = {"plan_applied_after_s": demo.age_s, "plan": plan["summary"]}
    model = demo.wait_for("model", lambda: demo.get("models")["running"], 560 - demo.age_s)
    (shown,) = demo.get("models")["models"]
    told |= {"first_model_after_s": demo.age_s, "first_model": model, "first_runs": shown["data"]["runs"]}
    return {**told, "first_scores": shown["scores"], "first_reason": shown["changed"]}


def second_part(demo: Demo, folder: Path) -> dict[str, Any]:
    before = demo.get("models")["running"]
    known = demo.runs()
    demo.wait_for("history", lambda: demo.runs() >= known + 30, 330)
    with_model = demo.wait_for("decision of the model", lambda: demo.get("jobs", query="nexmark-q1")["jobs"], 60)[0]
    detail = demo.get(f"jobs/{with_model['id']}")
    began = time.monotonic()
    command = [*_STREAMTUNE, "learn", "--data", str(folder), "--store", f"sqlite:///{folder}/service.db"]
    answer = subprocess.run(
        [*command, "--min-runs", "20", "--json"], capture_output=True, text=True, env=_ENVIRONMENT, timeout=400
    )
    if answer.returncode != 0:
        raise SystemExit(answer.stderr[-2000:])
    result = json.loads(answer.stdout)
    told = {"second_learn_s": round(time.monotonic() - began, 1), "second": result, "job_used_model": detail["model"]}
    if not result["promoted"]:
        demo.client.post(f"/api/v1/models/{result['version']}/promote").raise_for_status()
    running = demo.get("models")["running"]
    back = demo.client.post("/api/v1/models/rollback").raise_for_status().json()["running"]
    assert (running, back) == (result["version"], before)
    return {**told, "compared_with": before, "rolled_back_to": back, "runs_in_all": demo.runs()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("1", "2"))
    parser.add_argument("--folder", type=Path, default=Path("build/service-flink"))
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    demo = Demo(folder)
    try:
        told = {"up_s": demo.up_s, **(first_part(demo) if given.part == "1" else second_part(demo, folder))}
    finally:
        code = demo.end()
    told["exit_code"] = code
    print(json.dumps(told, indent=2))
    if given.results:
        known = json.loads(given.results.read_text()) if given.results.exists() else {}
        flink = {**known.get("flink", {}), f"part_{given.part}": told}
        given.results.write_text(json.dumps({**known, "flink": flink}, indent=2) + "\n")


if __name__ == "__main__":
    main()
