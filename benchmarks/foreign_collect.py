"""``collect`` and ``history ingest`` on jobs that nobody here wrote: is what they write down valid, and true?

    python benchmarks/foreign_collect.py

The jobs of ``foreign.py`` (but for the one that computes) run side by side on a Flink 2.3, first with one instance of
everything, so that nearly all are overloaded, then with four, which serve. ``streamtune collect`` watches them, and
``streamtune history ingest`` reads what it wrote. Counted are valid and rejected rows, and the offered rates: within
a tenth of what the generators offer, marked as a guess, or neither. Kept in benchmarks/results/foreign-collect.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from foreign import JOBS, Site, make_jar

from streamtune.engines.flink import FlinkClient
from streamtune.labs.flink import FlinkDistribution, LocalCluster
from streamtune.labs.flink.cluster import free_port
from streamtune.labs.flink.settings import ClusterSettings

RESULTS = Path(__file__).parent / "results/foreign-collect.json"
WATCHED = {name: job for name, job in JOBS.items() if name != "cpu"}
PARALLELISM = (1, 4)
SHARES = {"orders": 1.0, "returns": 0.5, "rules": 0.05}
WITHIN = 0.1
SECONDS = 120


def streamtune(*words: str) -> str:
    command = [str(Path(sys.executable).with_name("streamtune")), *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def gather(folder: Path, records: Path) -> None:
    """Records of all jobs at each parallelism."""
    settings = ClusterSettings(
        port=free_port(), slots=100, task_heap_mb=1024, network_mb=512, managed_mb_per_slot=8, start_timeout_s=180.0
    )
    distribution = FlinkDistribution.find()
    with LocalCluster.temporary(settings, distribution) as cluster, FlinkClient(cluster.url, timeout_s=60.0) as client:
        jar = make_jar(distribution, folder)
        site = Site(cluster.url, jar, client.upload_jar(jar), "adaptive", folder)
        for parallelism in PARALLELISM:
            started = [site.start(client, job, parallelism) for job in WATCHED.values()]
            print(f"{len(started)} jobs run with {parallelism}", flush=True)
            watching = ("--window-s", "16", "--settle-s", "20", "--poll-s", "4", "--duration-s", str(SECONDS))
            streamtune("collect", "--url", cluster.url, "--out", str(records), *watching)
            for job_id in started:
                client.cancel(job_id)


def truth_of(run: dict[str, Any], source: str) -> float:
    job = WATCHED[run["job"].removeprefix("foreign-")]
    return job.rate * SHARES[source]


def judged(runs: list[dict[str, Any]]) -> tuple[Counter[str], list[str]]:
    """Every offered rate: true, a guess that says so, or wrong."""
    found: Counter[str] = Counter()
    wrong = []
    for run in runs:
        origins = run.get("rate_origins") or {}
        for source, rate in run["source_rates"].items():
            offered = truth_of(run, source)
            if abs(rate / offered - 1) <= WITHIN:
                found["true"] += 1
            elif origins.get(source) == "estimated":
                found["off, and marked as a guess"] += 1
            else:
                found["wrong"] += 1
                wrong.append(f"{run['job']} {source}: {rate:.0f} for {offered:.0f} ({origins.get(source)})")
    return found, wrong


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="streamtune-foreign-") as scratch:
        folder = Path(scratch)
        records = folder / "records"
        gather(folder, records)
        runs = [json.loads(line) for file in sorted(records.glob("*.jsonl*")) for line in file.read_text().splitlines()]
        report = json.loads(streamtune("history", "ingest", str(folder / "history"), str(records), "--json"))
    rates, wrong = judged(runs)
    jobs = Counter(run["job"] for run in runs)
    told = {
        "runs": len(runs),
        "jobs": dict(sorted(jobs.items())),
        "ingest": report,
        "rates": dict(rates),
        "wrong": wrong,
    }
    RESULTS.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    print(json.dumps(told, indent=1, sort_keys=True))
    return 1 if wrong or len(jobs) < len(WATCHED) else 0


if __name__ == "__main__":
    sys.exit(main())
