"""Twenty minutes of ``tune --engine flink --watch``: rates change, a TaskManager dies, jobs are submitted again.

    python benchmarks/flink_watch.py                 # two emulated jobs, each watched by a process of its own
    python benchmarks/flink_watch.py --foreign       # two jobs that nobody here wrote, without any lag metric
    python benchmarks/flink_watch.py --foreign --flink .flink/1.20/pyflink
    python benchmarks/flink_watch.py --scale 0.2     # a fifth of the time, to try it

The rates of both jobs move five times. After six minutes the TaskManager is killed without warning (another one comes
ten seconds later), after eleven each job is cancelled and submitted again under its name. A watch must live until it is
told to end, and follow its job. Printed and kept in ``benchmarks/results/flink-watch.json`` (``flink-watch-foreign-``
and the version with ``--foreign``): every deployment with its why, what was noted in between, and the plan at the end
beside the least that serves.
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
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from foreign import make_jar
from foreign_cycle import DRIVEN, MICROS

from streamtune.control.audit import read_audit
from streamtune.dataflow import Plan
from streamtune.engines.base import Deployment
from streamtune.engines.flink import FlinkClient, FlinkEngine
from streamtune.engines.simulator import find_oracle
from streamtune.errors import StreamTuneError
from streamtune.experiments.flink_jobs import engine_on, small_cluster, small_workload
from streamtune.labs.flink import FlinkDistribution, LocalCluster

HERE = Path(__file__).parent
JOBS = {"nexmark-q1": (2, 6, 9, 3, 7), "pqp-linear-0": (8, 3, 5, 9, 2)}
FOREIGN = {"foreign-fork": (2, 6, 9, 3, 7), "foreign-union": (8, 3, 5, 9, 2)}
# Seconds from the beginning at which rates move, and at which something happens to the cluster.
MOVES_S = (0, 240, 480, 780, 1000)
KILL_S, RESUBMIT_S, END_S = 360, 660, 1200
ENDED_WHEN_TOLD = (0, 130)


class Subject(Protocol):
    """A job that can be started, whose rates can be moved, and of which the least plan is known."""

    def start(self) -> str: ...

    def offer(self, multiple: float) -> None: ...

    def least(self, multiple: float, plan: Mapping[str, int]) -> Mapping[str, int]: ...


class Emulated:
    """A job spec of the catalogue, whose service times are waited for."""

    def __init__(self, engine: FlinkEngine, name: str) -> None:
        self._engine = engine
        self._workload = small_workload(name)
        self._deployment: Deployment | None = None

    def start(self) -> str:
        job = self._workload.spec.job
        self._deployment = self._engine.deploy(job, job.initial_plan)
        return self._deployment.id

    def offer(self, multiple: float) -> None:
        assert self._deployment is not None
        self._engine.set_source_rates(self._deployment, self._workload.rates_at(multiple))

    def least(self, multiple: float, plan: Mapping[str, int]) -> Mapping[str, int]:  # noqa: ARG002
        spec = self._workload.spec
        sources = dict.fromkeys(spec.job.source_rates, 1)
        return dict(find_oracle(spec.job, spec.physics or {}, self._workload.rates_at(multiple), fixed=sources).plan)


class Foreign:
    """A job as people write them; its rate changes behind the tuner's back, in a file that only it reads."""

    def __init__(self, client: FlinkClient, jar_id: str, name: str, folder: Path) -> None:
        self._client = client
        self._jar_id = jar_id
        self._job = DRIVEN[name]
        self._rate = (folder / f"{name}.rate").resolve()

    def start(self) -> str:
        if not self._rate.exists():
            self.offer(1.0)
        arguments = (self._job.kind, str(self._rate), str(MICROS), "1")
        job_id = self._client.run_jar(self._jar_id, entry_class="foreign.ForeignJobs", arguments=arguments)
        for _ in range(120):
            if self._client.job(job_id).is_running and self._client.checkpoints(job_id).latest.completed is not None:
                return job_id
            time.sleep(1.0)
        raise StreamTuneError(f"{self._job.kind} did not start")

    def offer(self, multiple: float) -> None:
        scratch = self._rate.with_suffix(".new")  # the generators read it twice a second: never half of it
        scratch.write_text(str(multiple * self._job.base_per_s))
        scratch.replace(self._rate)

    def least(self, multiple: float, plan: Mapping[str, int]) -> Mapping[str, int]:
        return dict(self._job.least(multiple, Plan(dict(plan))))


@dataclass
class Watched:
    """One job, and the process that watches it."""

    subject: Subject
    job_id: str
    process: subprocess.Popen[bytes]
    audit: Path
    log: Path


@contextmanager
def watched(subject: Subject, url: str, name: str, work: Path) -> Iterator[Watched]:
    job_id = subject.start()
    audit, log = work / f"watch-{name}.audit.jsonl", work / f"watch-{name}.log"
    for old in (audit, log):
        old.unlink(missing_ok=True)
    words = ["tune", "--engine", "flink", "--url", url, "--job", job_id, "--watch", "7200", "--audit", str(audit)]
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
        yield Watched(subject, job_id, process, audit, log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@contextmanager
def subjects(
    cluster: LocalCluster, names: list[str], folder: Path, distribution: FlinkDistribution, *, foreign: bool
) -> Iterator[dict[str, Subject]]:
    if foreign:
        with FlinkClient(cluster.url, timeout_s=60.0) as client:
            jar_id = client.upload_jar(make_jar(distribution, folder))
            yield {name: Foreign(client, jar_id, name, folder) for name in names}
        return
    specs = [small_workload(name).spec for name in names]
    with engine_on(cluster.url, folder, *specs, distribution=distribution) as engine:
        yield {name: Emulated(engine, name) for name in names}


def happenings(scale: float) -> list[tuple[float, str, int]]:
    """What happens when, in order."""
    moves = [(at * scale, "rates", number) for number, at in enumerate(MOVES_S)]
    return sorted(
        [*moves, (KILL_S * scale, "kill", 0), ((KILL_S + 10) * scale, "new", 0), (RESUBMIT_S * scale, "again", 0)]
    )


def run(scale: float, work: Path, flink: Path | None, *, foreign: bool) -> dict[str, Any]:
    work.mkdir(parents=True, exist_ok=True)
    told: list[tuple[float, str]] = []
    jobs, distribution = FOREIGN if foreign else JOBS, FlinkDistribution.find(flink)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        cluster = stack.enter_context(small_cluster(len(jobs), distribution))
        made = stack.enter_context(subjects(cluster, list(jobs), Path(folder), distribution, foreign=foreign))
        both = {name: stack.enter_context(watched(one, cluster.url, name, work)) for name, one in made.items()}
        began = time.time()

        def tell(text: str) -> None:
            told.append((time.time(), text))
            print(f"{time.time() - began:6.0f} s  {text}", flush=True)

        def offer(number: int) -> None:
            for name, one in both.items():
                one.subject.offer(jobs[name][number])
                tell(f"{name} is offered {jobs[name][number]} times its unit")

        tell(f"Flink {distribution.version}")
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
                    submit_again(cluster.url, one)
                    tell(f"{name} was cancelled and submitted again")
                offer(2)
            else:
                offer(number)
        time.sleep(max(0.0, began + END_S * scale - time.time()))
        found = {name: ended(one, jobs[name][-1]) for name, one in both.items()}
        return {"jobs": found, "happened": _clocked(told, began), "flink": distribution.version}


def submit_again(url: str, one: Watched) -> None:
    with FlinkClient(url, timeout_s=30.0) as client:
        client.cancel(one.job_id)
        while not client.job(one.job_id).has_ended:
            time.sleep(0.5)
    one.job_id = one.subject.start()


def ended(one: Watched, multiple: float) -> dict[str, Any]:
    """How the watch ended when it was told to, and what it had done."""
    alive = one.process.poll() is None
    one.process.send_signal(signal.SIGINT)
    try:
        code = one.process.wait(60)
    except subprocess.TimeoutExpired:
        code = None
    events = read_audit(one.audit)
    plan = next((event["plan"] for event in reversed(events) if "plan" in event), {})
    return {
        "alive_until_told": alive,
        "exit_code": code,
        "events": dict(Counter(event["event"] for event in events)),
        "decisions": list(decisions(events)),
        "plan_at_the_end": plan,
        "oracle_at_the_end": one.subject.least(multiple, plan),
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
    arguments.add_argument("--foreign", action="store_true", help="watch jobs that nobody here wrote")
    arguments.add_argument("--flink", type=Path, help="a Flink other than the installed one")
    arguments.add_argument("--results", type=Path)
    arguments.add_argument("--work", type=Path, default=Path("build/flink-watch"), help="for logs and audit trails")
    chosen = arguments.parse_args()
    found = run(chosen.scale, chosen.work, chosen.flink, foreign=chosen.foreign)
    version = ".".join(found["flink"].split(".")[:2])
    file = f"flink-watch-foreign-{version}.json" if chosen.foreign else "flink-watch.json"
    results = chosen.results or HERE / "results" / file
    results.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    for name, one in found["jobs"].items():
        print(f"{name}: alive until told {one['alive_until_told']}, exit code {one['exit_code']}, {one['events']}")
        print(f"  plan {one['plan_at_the_end']}, the least is {one['oracle_at_the_end']}")
    if not all(one["alive_until_told"] and one["exit_code"] in ENDED_WHEN_TOLD for one in found["jobs"].values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
