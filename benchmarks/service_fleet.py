"""What a fleet costs the service: CPU, memory, REST calls, lag of observations, and how fast the API answers meanwhile.

Fake clusters answer from a process of their own; what is measured is ``streamtune serve`` alone. Run it with nothing
beside it: python benchmarks/service_fleet.py --sizes 100,300,1000 --results benchmarks/results/service.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

HERE = Path(__file__).parent
_JOBS_PER_CLUSTER = 100


def start_clusters(jobs: int) -> tuple[subprocess.Popen[str], list[int]]:
    clusters = max(1, jobs // _JOBS_PER_CLUSTER)
    command = [sys.executable, str(HERE / "fake_clusters.py"), str(clusters), str(jobs // clusters)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def start_service(folder: Path, ports: list[int]) -> tuple[subprocess.Popen[str], str]:
    config = {
        "service": {
            "clusters": [{"name": f"c{n:02d}", "url": f"http://127.0.0.1:{port}"} for n, port in enumerate(ports)],
            "policies": [{"pattern": "*", "mode": "recommend"}],
            "window_s": 60,
            "settle_s": 0,
            "api": {"requests_per_minute": 1_000_000},
        }
    }
    (folder / "streamtune.yaml").write_text(yaml.safe_dump(config))
    command = [str(Path(sys.executable).parent / "streamtune"), "serve", "--config", str(folder / "streamtune.yaml")]
    command += ["--port", "0", "--data", str(folder / "data"), "--store", f"sqlite:///{folder}/service.db"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "300"})
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(r"dashboard: (http\S+)", line)
        if found:
            return process, found[1]
    raise SystemExit("the service did not start")


def metric(text: str, name: str) -> list[float]:
    return [float(line.rpartition(" ")[2]) for line in text.splitlines() if re.match(rf"{name}[ {{]", line)]


def ask(client: httpx.Client, jobs: list[str], seconds: float) -> dict[str, float]:
    """Ask as ten people with open dashboards do, and say how long answers took, in ms."""
    chosen = random.Random(0)
    times: dict[str, list[float]] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job = chosen.choice(jobs)
        paths = {
            "fleet": "/api/v1/jobs?limit=100",
            "job": f"/api/v1/jobs/{job}",
            "drawing": f"/api/v1/jobs/{job}/drawing.svg",
            "observations": f"/api/v1/jobs/{job}/observations",
            "decisions": f"/api/v1/jobs/{job}/decisions",
            "service": "/api/v1/service",
        }
        for name, path in paths.items():
            began = time.perf_counter()
            client.get(path).raise_for_status()
            times.setdefault(name, []).append(1000 * (time.perf_counter() - began))
            time.sleep(0.02)
    every = sorted(one for many in times.values() for one in many)
    told = {f"p95_{name}_ms": round(sorted(many)[int(0.95 * len(many))], 1) for name, many in times.items()}
    return {"requests": len(every), "p95_ms": round(every[int(0.95 * len(every))], 1), **told}


def measure(jobs: int, warm_s: float, for_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="streamtune-bench-") as name:
        clusters, ports = start_clusters(jobs)
        service, url = start_service(Path(name), ports)
        try:
            process = psutil.Process(service.pid)
            with httpx.Client(base_url=url, timeout=30) as client:
                time.sleep(warm_s)
                before, cpu = (
                    metric(client.get("/metrics").text, "streamtune_engine_calls_total")[0],
                    process.cpu_times(),
                )
                began = time.monotonic()
                known = [job["id"] for job in client.get("/api/v1/jobs?limit=1000").json()["jobs"]]
                quiet = for_s / 2  # a whole window each, or the bursts between two would be missed or counted twice
                time.sleep(quiet)
                alone = process.cpu_times()
                used_alone = (alone.user + alone.system - cpu.user - cpu.system) / (time.monotonic() - began)
                answers = ask(client, known, for_s - quiet)
                elapsed = time.monotonic() - began
                text, after = client.get("/metrics").text, process.cpu_times()
            ages = metric(text, "streamtune_job_seconds_since_observation")
            return {
                "jobs": jobs,
                "clusters": len(ports),
                "observed": len(ages),
                "cpu_cores": round(used_alone, 3),
                "cpu_cores_while_asked": round((after.user + after.system - cpu.user - cpu.system) / elapsed, 3),
                "memory_mb": round(process.memory_info().rss / 2**20),
                "calls_per_s": round((metric(text, "streamtune_engine_calls_total")[0] - before) / elapsed, 1),
                "oldest_observation_s": round(max(ages, default=-1), 1),
                "median_observation_s": round(sorted(ages)[len(ages) // 2], 1) if ages else -1,
                "step_lag_s": round(metric(text, "streamtune_poll_lag_seconds")[0], 3),
                "api": answers,
            }
        finally:
            service.send_signal(signal.SIGTERM)
            try:
                service.wait(60)
            except subprocess.TimeoutExpired:
                service.kill()
            clusters.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="100,300,1000")
    parser.add_argument("--warm-s", type=float, default=150)
    parser.add_argument("--for-s", type=float, default=126)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    found = []
    for size in given.sizes.split(","):
        found.append(measure(int(size), given.warm_s, given.for_s))
        print(json.dumps(found[-1]), flush=True)
        if given.results:
            known = json.loads(given.results.read_text()) if given.results.exists() else {}
            others = [one for one in known.get("fleet", []) if one["jobs"] != found[-1]["jobs"]]
            fleet = sorted([*others, found[-1]], key=lambda one: one["jobs"])
            given.results.write_text(json.dumps({**known, "fleet": fleet}, indent=2) + "\n")


if __name__ == "__main__":
    main()
