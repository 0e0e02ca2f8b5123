"""The files that examples name, as a user of StreamTune would have them; those that a page shows are taken from it."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from streamtune_docs.blocks import DOCS

from good_run import GOOD_RUN
from streamtune.dataflow import Plan, Run
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import Simulator
from streamtune.sealed import sign_folder
from streamtune.signatures import Keys, make_key
from streamtune.workloads import load

RELEASE = Path(__file__).parents[1] / "releases" / "v0_1_0"
JOB = """name: auctions
operators:
  - {id: bids, type: source, rate: 80000, parallelism: 2}
  - {id: sellers, type: source, rate: 500}
  - {id: filter, type: filter, inputs: [bids]}
  - {id: join, type: join, inputs: [filter, sellers]}
  - {id: hot_items, type: window_aggregate, inputs: [join]}
  - {id: sink, type: sink, inputs: [hot_items]}
max_parallelism: 100
physics:
  bids: {service_us: 2}
  sellers: {service_us: 2}
  filter: {service_us: 20, selectivity: 0.2}
  join: {service_us: 60, selectivity: 0.5}
  hot_items: {service_us: 90, selectivity: 0.1}
  sink: {service_us: 50}
"""
# Paths that an example needs and another example makes.
MADE_BY = {
    "my-session": "streamtune autoconfig run space.yaml --steps 30 --store my-session",
    "cmo1.json": "streamtune provision sample CMO1 --simulated --out cmo1.json",
    "cmo1-new.json": "streamtune provision sample CMO1 --simulated --seed 1 --out cmo1-new.json",
    "cmo1-model": "streamtune provision sample CMO1 --simulated --out cmo1.json"
    " && streamtune provision train cmo1.json --out cmo1-model",
}


def block(page: str, start: str) -> str:
    """The block of a page whose text begins so."""
    found = re.findall(r"^```(?:yaml|json|python)\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return next(text for text in found if text.startswith(start))


def write_example_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("job.yaml", "a.yaml"):
        (folder / name).write_text(JOB)
    (folder / "b.yaml").write_text(block("reference/job-spec.md", "name:"))
    (folder / "clicks.yaml").write_text(block("tutorial/first-job.md", "name: clicks"))
    (folder / "production.yaml").write_text(block("how-to/configure.md", "guards"))
    (folder / "streamtune.yaml").write_text(block("how-to/configure.md", "guards"))
    (folder / "hosts.yaml").write_text(block("how-to/place.md", "hosts:"))
    (folder / "problem.yaml").write_text(block("how-to/provision.md", "# problem.yaml"))
    (folder / "problem.json").write_text(
        json.dumps(
            {
                "sizes": [{"name": "small", "cpu": 1, "memory_mb": 256, "performance_per_s": 100, "price": 1}],
                "start_cost": 0.5, "stop_cost": 0, "workload": [90, 340, 120],
            }
        )
    )  # fmt: skip
    (folder / "space.yaml").write_text(block("how-to/autoconfig.md", "# space.yaml"))
    (folder / "measure.py").write_text("import sys; print(len(sys.argv[2]) + int(sys.argv[4]) % 7)\n")
    (folder / "my-rates.yaml").write_text("[1, 2, 1]\n")
    (folder / "known.yaml").write_text("operators:\n  bids: {rate: 400}\nexclude: [sink]\n")  # as the fake server's job
    # Up to now, for a running job is looked ahead from here.
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    rows = [
        f"{now - timedelta(minutes=15 * (400 - step)):%Y-%m-%d %H:%M:%S},{60000 + 900 * (step % 96)}"
        for step in range(400)
    ]
    (folder / "rates.csv").write_text("\n".join(["time,rate", *rows]) + "\n")
    (folder / "prices.yaml").write_text("per_core_hour: 0.04\nper_gib_hour: 0.005\nshort_hour: 0.6\n")
    tasks = [{"id": f"{kind}-{number}", "load": 1.0} for kind in ("a", "b") for number in range(10)]
    edges = [{"from": f"a-{one}", "to": f"b-{one}", "bytes_per_s": 1000} for one in range(10)]
    (folder / "graph.json").write_text(json.dumps({"tasks": tasks, "edges": edges}))
    (folder / "today.json").write_text(json.dumps({"join#0": "a-0"}))
    _write_runs(folder)
    for name in ("model", "costmodel", "clusters"):
        shutil.copytree(RELEASE / name, folder / name)
    make_key(folder / "keys.txt")
    sign_folder(folder / "model", Keys.read(folder / "keys.txt"))
    shutil.copytree(RELEASE / "history", folder / "my-history")
    shutil.copy(RELEASE / "state.db", folder / "tuning.db")


def _write_runs(folder: Path) -> None:
    for place in ("runs", "records", "logs", "jobs"):
        (folder / place).mkdir()
    lines = "".join(json.dumps({**GOOD_RUN, "run_id": f"new-{number}"}) + "\n" for number in range(20))
    for place in ("runs", "logs"):
        (folder / place / "runs.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "jobs" / "one.yaml").write_text(JOB)


@contextmanager
def one_engine_history(folder: Path, run: Callable[[str], None]) -> Iterator[None]:
    """Meanwhile my-history is that of a user with one engine and one job, seen every quarter of an hour."""
    kept = folder / "one-engine"
    if not kept.exists():
        kept.mkdir()
        (kept / "quarters.jsonl").write_text("".join(f"{one.model_dump_json()}\n" for one in _quarters()))
        run("streamtune history ingest one-engine/my-history one-engine/quarters.jsonl")
        run("streamtune history label one-engine/my-history && streamtune history featurise one-engine/my-history")
        run("streamtune cluster one-engine/my-history --out one-engine/clusters")
    names = ("my-history", "clusters")
    for name in names:
        (folder / name).rename(folder / f"{name}-meanwhile")
        shutil.copytree(kept / name, folder / name)
    yield
    for name in names:
        shutil.rmtree(folder / name)
        (folder / f"{name}-meanwhile").rename(folder / name)


def _quarters() -> list[Run]:
    """Nexmark Q5 with rates that rise and fall over a day, under a few plans."""
    workload = load("nexmark-q5")
    job = workload.spec.job
    engine = Simulator.of(workload.spec)
    deployment = engine.deploy(job, job.initial_plan)
    runs = []
    for number in range(4 * 96):
        hour = number % 96 / 4
        if number % 16 == 0:
            deployment = engine.rescale(deployment, Plan(dict.fromkeys(job.dataflow.index, 1 + number // 16 % 12)))
        engine.set_source_rates(deployment, workload.rates_at(2 + abs(12 - hour) / 3))
        seen = engine.observe(deployment, MeasurementWindow(5, 10))
        at = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(minutes=15 * number)
        runs.append(Run.of(f"quarter-{number}", job, "simulator", seen.model_copy(update={"observed_at": at})))
    return runs
