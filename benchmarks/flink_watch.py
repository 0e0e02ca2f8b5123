"""Twenty minutes of ``tune --engine flink --watch``: rates change, a TaskManager dies, jobs are submitted again.

    python benchmarks/flink_watch.py                 # two jobs, each watched by a process of its own, on one cluster
    python benchmarks/flink_watch.py --scale 0.2     # a fifth of the time, to try it

The rates of both jobs move five times. After six minutes the TaskManager is killed without warning (another one comes
ten seconds later), after eleven each job is cancelled and submitted again under its name. A watch must live until it is
told to end, and follow its job. Printed and kept in ``benchmarks/results/flink-watch.json``: every deployment with its
why, what was noted in between, and how each stretch of constant rate ended, against the oracle of the emulated jobs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from streamtune.control.audit import read_audit
from streamtune.engines.base import Deployment
from streamtune.engines.flink import FlinkClient, FlinkEngine
from streamtune.engines.simulator import find_oracle
from streamtune.experiments.flink_jobs import engine_on, small_cluster, small_workload
from streamtune.workloads import Workload

HERE = Path(__file__).parent
JOBS = {"nexmark-q1": (2, 6, 9, 3, 7), "pqp-linear-0": (8, 3, 5, 9, 2)}
# Seconds from the beginning at which rates move, and at which something happens to the cluster.
MOVES_S = (0, 240, 480, 780, 1000)
KILL_S, RESUBMIT_S, END_S = 360, 660, 1200
ENDED_WHEN_TOLD = (0, 130)


@dataclass
class Watched:
    """One job, and the process that watches it."""

    workload: Workload
    deployment: Deployment
    process: subprocess.Popen[bytes]
    audit: Path
    log: Path


@contextmanager
def watched(engine: FlinkEngine, url: str, name: str, work: Path) -> Iterator[Watched]:
    workload = small_workload(name)
    job = workload.spec.job
    deployment = engine.deploy(job, job.initial_plan)
    audit, log = work / f"watch-{name}.audit.jsonl", work / f"watch-{name}.log"
    for old in (audit, log):
        old.unlink(missing_ok=True)
    words = [
        "tune",
        "--engine",
        "flink",
        "--url",
        url,
        "--job",
        deployment.id,
        "--watch",
        "7200",
        "--audit",
        str(audit),
    ]
    words += ["--settle-s", "8", "--window-s", "16", "--max-per-hour", "60"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("streamtune")), *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            # A benchmark that a shell put into the background ignores SIGINT, and so would all that it starts.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            env={**os.environ, "XDG_STATE_HOME": str(work.resolve() / f"state-{name}")},
        )
    try:
        yield Watched(workload, deployment, process, audit, log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def happenings(scale: float) -> list[tuple[float, str, int]]:
    """What happens when, in order."""
    moves = [(at * scale, "rates", number) for number, at in enumerate(MOVES_S)]
    return sorted(
        [*moves, (KILL_S * scale, "kill", 0), ((KILL_S + 10) * scale, "new", 0), (RESUBMIT_S * scale, "again", 0)]
    )


def run(scale: float, work: Path) -> dict[str, Any]:
    work.mkdir(parents=True, exist_ok=True)
    told: list[tuple[float, str]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        small_cluster(len(JOBS)) as cluster,
        engine_on(cluster.url, Path(folder), *(small_workload(name).spec for name in JOBS)) as engine,
        watched(engine, cluster.url, "nexmark-q1", work) as first,
        watched(engine, cluster.url, "pqp-linear-0", work) as second,
    ):
        both = {"nexmark-q1": first, "pqp-linear-0": second}
        began = time.time()

        def tell(text: str) -> None:
            told.append((time.time(), text))
            print(f"{time.time() - began:6.0f} s  {text}", flush=True)

        for at, what, number in happenings(scale):
            time.sleep(max(0.0, began + at - time.time()))
            for name, one in both.items():
                if one.process.poll() is not None:
                    raise SystemExit(f"the watch of {name} ended by itself: {one.log.read_text()[-2000:]}")
            if what == "kill":
                cluster.kill("taskmanager-1")
                tell("the TaskManager is killed")
            elif what == "new":
                cluster.start_task_manager(2)
                tell("another TaskManager is started")
            elif what == "again":
                for name, one in both.items():
                    submit_again(cluster.url, engine, one)
                    tell(f"{name} was cancelled and submitted again")
                    offer(engine, one, JOBS[name][2])
            else:
                for name, one in both.items():
                    offer(engine, one, JOBS[name][number])
                    tell(f"{name} is offered {JOBS[name][number]} times its unit")
        time.sleep(max(0.0, began + END_S * scale - time.time()))
        return {name: ended(name, one) for name, one in both.items()} | {"happened": _clocked(told, began)}


def offer(engine: FlinkEngine, one: Watched, multiple: float) -> None:
    engine.set_source_rates(one.deployment, one.workload.rates_at(multiple))


def submit_again(url: str, engine: FlinkEngine, one: Watched) -> None:
    with FlinkClient(url, timeout_s=30.0) as client:
        client.cancel(one.deployment.id)
        while not client.job(one.deployment.id).has_ended:
            time.sleep(0.5)
    job = one.workload.spec.job
    one.deployment = engine.deploy(job, job.initial_plan)


def ended(name: str, one: Watched) -> dict[str, Any]:
    """How the watch ended when it was told to, and what it had done."""
    alive = one.process.poll() is None
    one.process.send_signal(signal.SIGINT)
    try:
        code = one.process.wait(60)
    except subprocess.TimeoutExpired:
        code = None
    events = read_audit(one.audit)
    spec = one.workload.spec
    sources = dict.fromkeys(spec.job.source_rates, 1)
    oracle = find_oracle(spec.job, spec.physics or {}, one.workload.rates_at(JOBS[name][-1]), fixed=sources)
    return {
        "alive_until_told": alive,
        "exit_code": code,
        "events": dict(Counter(event["event"] for event in events)),
        "decisions": list(decisions(events)),
        "plan_at_the_end": next((event["plan"] for event in reversed(events) if "plan" in event), None),
        "oracle_at_the_end": dict(oracle.plan),
        "said": one.log.read_text(errors="replace").splitlines()[-60:],
    }


def decisions(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What a reader of the trail wants to know: what was seen, what was changed and why, and how it ended."""
    seen: dict[str, Any] = {}
    why: dict[str, Any] = {}
    for event in events:
        kind = event["event"]
        if kind == "observed":
            seen = {"at": event["at"], "rates": event["rates"], "backpressured": event["backpressured"]}
        elif kind == "recommended":
            why = event["why"]
        elif kind == "deploying":
            changed = {key: [event["from"][key], to] for key, to in event["to"].items() if event["from"][key] != to}
            yield {"event": kind, **seen, "changed": changed, "why": {key: why.get(key) for key in changed}}
        elif kind not in ("deployed", "rates_changed"):
            yield {key: value for key, value in event.items() if key not in ("figures", "operators")} | {"seen": seen}


def _clocked(told: list[tuple[float, str]], began: float) -> list[str]:
    return [f"{at - began:.0f} s: {text}" for at, text in told]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--scale", type=float, default=1.0, help="of all times")
    arguments.add_argument("--results", type=Path, default=HERE / "results/flink-watch.json")
    arguments.add_argument("--work", type=Path, default=Path("build/flink-watch"), help="for logs and audit trails")
    chosen = arguments.parse_args()
    found = run(chosen.scale, chosen.work)
    chosen.results.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    for name in JOBS:
        one = found[name]
        print(f"{name}: alive until told {one['alive_until_told']}, exit code {one['exit_code']}, {one['events']}")
    if not all(found[name]["alive_until_told"] and found[name]["exit_code"] in ENDED_WHEN_TOLD for name in JOBS):
        sys.exit(1)


if __name__ == "__main__":
    main()
