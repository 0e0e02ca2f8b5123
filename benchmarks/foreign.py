"""Jobs that nobody here wrote, on a real Flink: does a plan settle, is it clean, and is it not too large?

    python benchmarks/foreign.py                                  # everything that is missing, on Flink 2.3, adaptive
    python benchmarks/foreign.py --flink .flink/1.20/pyflink --scheduler default
    python benchmarks/foreign.py --parts least --jobs chain fork  # try the least plan and one instance less

Fifteen jobs as people write them (``foreign_jobs/``: default names, chaining on, generator sources without a lag
metric; SQL scripts with datagen and blackhole; waiting and real computing), each from parallelism 1 under a load that
needs more and from ten times too much, tuned as ``streamtune tune --engine flink`` does, without a model. What is
measured is kept piece by piece in ``benchmarks/results/foreign.json``; what is there is not done again, so that it can
be run in slices (``--seconds``). Records of all observations go to ``--work``/…/history, for ``streamtune history
ingest``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from streamtune.cli.flink_tuning import FlinkTuning, tune_flink
from streamtune.control.audit import AuditTrail
from streamtune.control.guards import Guards
from streamtune.control.recording import RunRecorder
from streamtune.dataflow import Observation, Plan
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, Program, RescaleSettings
from streamtune.errors import StreamTuneError
from streamtune.labs.flink import FlinkDistribution, LocalCluster
from streamtune.labs.flink.cluster import free_port
from streamtune.labs.flink.jar import compile_jar
from streamtune.labs.flink.settings import ClusterSettings
from streamtune.tuners.streamtune import StreamTune, StreamTuneSettings

HERE = Path(__file__).parent
WINDOW = MeasurementWindow(settle_s=8.0, length_s=16.0)
# What the issue allows: 1.3 times the least that serves, and one more.
FACTOR, MORE, MOST_RECONFIGURATIONS = 1.3, 1, 3
STARTS = {"one": 1, "ten-times": 30}
SOURCE = (
    "CREATE TABLE orders (id BIGINT, price DOUBLE, ts AS PROCTIME()) WITH ('connector' = 'datagen', "
    "'rows-per-second' = '{rate}', 'fields.id.min' = '0')"
)
NOWHERE = "CREATE TABLE {name} ({columns}) WITH ('connector' = 'blackhole')"


@dataclass(frozen=True)
class ForeignJob:
    """One job: how it is started, and how many instances the vertices that work need (all others: 1)."""

    name: str
    rate: float
    micros: int
    heavy: dict[str, int]
    sql: tuple[str, ...] = ()
    tune_sources: bool = False
    sources: tuple[str, ...] = field(default=("orders",))

    def program(self, jar_id: str, parallelism: int) -> Program:
        if self.sql:
            first = SOURCE.format(rate=round(self.rate))
            return Program(jar_id, "foreign.ForeignSql", (f"foreign-{self.name}", str(parallelism), first, *self.sql))
        arguments = (self.name, str(self.rate), str(self.micros), str(parallelism))
        return Program(jar_id, "foreign.ForeignJobs", arguments)


def _ranked(order: str) -> str:
    return (
        "INSERT INTO out1 SELECT WORK(id, 4000) FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY "
        f"{order}) AS n FROM orders) WHERE n = 1"
    )


FORK = (
    "EXECUTE STATEMENT SET BEGIN INSERT INTO out1 SELECT WORK(id, 4000) FROM (SELECT id, COUNT(*) AS c FROM orders "
    "GROUP BY id); INSERT INTO out2 SELECT COUNT(*) FROM orders WHERE price > 0.9; END"
)
OUT1, OUT2 = NOWHERE.format(name="out1", columns="id BIGINT"), NOWHERE.format(name="out2", columns="n BIGINT")
# Least instances: rate × microseconds, with about 0.07 ms that a wait takes longer; tried by --parts least.
JOBS = {
    job.name: job
    for job in (
        ForeignJob("chain", 700, 4000, {"Map": 3}),
        ForeignJob("cpu", 400, 3000, {"Map": 2}),
        ForeignJob("fork", 700, 4000, {"Map": 3}),
        ForeignJob("side-output", 700, 4000, {"Map": 3}),
        ForeignJob("union", 460, 4000, {"KeyedProcess": 3}, sources=("orders", "returns")),
        ForeignJob("self-join", 680, 4000, {"KeyedProcess": 3}),
        ForeignJob("co-process", 680, 4000, {"Co-Keyed-Process": 3}, sources=("orders", "rules")),
        ForeignJob("async", 500, 20000, {"async-wait-operator": 3}),
        ForeignJob("session", 700, 4000, {"Map": 3}),
        ForeignJob("global-window", 700, 4000, {"GlobalWindows": 3}),
        ForeignJob("single", 700, 4000, {"Map": 3}),
        ForeignJob("chained", 700, 4000, {"orders": 3}, tune_sources=True),
        ForeignJob("sql-deduplicate", 680, 0, {"Deduplicate": 3}, (OUT1, _ranked("ts ASC"))),
        ForeignJob("sql-rank", 680, 0, {"Rank": 3}, (OUT1, _ranked("price DESC"))),
        ForeignJob("sql-fork", 680, 0, {"GroupAggregate": 3}, (OUT1, OUT2, FORK)),
    )
}

# So much of the rate at least reaches what works (a side output takes a twentieth).
TAKEN = 0.93
# What computes has the cores to itself: beside other jobs on two of them it is slower than it says.
ALONE = "/cpu"

LOCKS = {name: threading.Lock() for name in JOBS}


class Measured:
    """The pieces so far; every piece is written as soon as it is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.pieces: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def keep(self, key: str, value: Any) -> None:
        with self._lock:
            self.pieces[key] = value
            self._path.parent.mkdir(parents=True, exist_ok=True)
            scratch = self._path.with_suffix(".new")
            scratch.write_text(json.dumps(self.pieces, indent=1, sort_keys=True) + "\n")
            scratch.replace(self._path)


def make_jar(distribution: FlinkDistribution, folder: Path) -> Path:
    """The foreign jobs, compiled against this version of Flink."""
    return compile_jar(sorted((HERE / "foreign_jobs").glob("*.java")), distribution, folder / "foreign.jar")


@dataclass(frozen=True)
class Site:
    """A cluster, the jar on it, and where things are written."""

    url: str
    jar: Path
    jar_id: str
    scheduler: str
    work: Path

    def settings(self) -> FlinkSettings:
        return FlinkSettings(
            url=self.url, start_timeout_s=90.0, fetch_patience_s=40.0, rescale=RescaleSettings(timeout_s=90.0)
        )

    def start(self, client: FlinkClient, job: ForeignJob, parallelism: int) -> str:
        program = job.program(self.jar_id, parallelism)
        job_id = client.run_jar(program.jar_id, entry_class=program.entry_class, arguments=program.arguments)
        for _ in range(90):
            # A rescale restarts a job from its last checkpoint: a user's job has one by the time it is tuned.
            if client.job(job_id).is_running and client.checkpoints(job_id).latest.completed is not None:
                return job_id
            time.sleep(1.0)
        raise StreamTuneError(f"{job.name} did not start")


def tuned(site: Site, job: ForeignJob, start: str) -> Any:
    """Tune one job from one start; what it ended with, and how."""
    label = f"{site.work.name}-{start}-{job.name}"
    began = time.monotonic()
    with FlinkClient(site.url, timeout_s=30.0) as client:
        job_id = site.start(client, job, STARTS[start])
        program = job.program(site.jar_id, STARTS[start])
        tuning = FlinkTuning(
            site.url,
            job=job_id,
            jar=None if site.scheduler == "adaptive" else site.jar,
            entry_class=program.entry_class,
            arguments=program.arguments,
            settings=site.settings(),
        )
        try:
            with AuditTrail(site.work / "audit" / f"{label}.jsonl") as trail:
                [outcome] = tune_flink(
                    tuning,
                    lambda found: StreamTune(found, StreamTuneSettings(tune_sources=job.tune_sources)),
                    Guards(max_reconfigurations=6, not_ready_patience=30, tune_sources=job.tune_sources),
                    WINDOW,
                    trail,
                    watch_of=lambda found: RunRecorder(site.work / "history", found, "flink").watch,
                )
        finally:
            for one in client.jobs():
                if one.name == f"foreign-{job.name}" and one.state not in ("CANCELED", "FINISHED", "FAILED"):
                    client.cancel(one.id)
            while any(one.name == f"foreign-{job.name}" and one.state == "CANCELLING" for one in client.jobs()):
                time.sleep(0.5)
    flow = outcome.deployment.job.dataflow
    return {
        "types": {operator.id: operator.type for operator in flow.operators},
        "sources": [source.id for source in flow.sources],
        "plan": dict(outcome.deployment.plan),
        "reconfigurations": outcome.reconfigurations,
        "backpressure": outcome.backpressure,
        "stopped": outcome.stop_reason,
        "rates": dict(outcome.rates),
        "taken": {key: metrics.records_in_per_s for key, metrics in outcome.observation.operators.items()},
        "origins": dict(outcome.observation.rate_origins),
        "seconds": round(time.monotonic() - began),
    }


def least(site: Site, job: ForeignJob) -> Any:
    """Whether the least plan is clean, and one instance less is not."""
    with FlinkClient(site.url, timeout_s=30.0) as client:
        job_id = site.start(client, job, 1)
        engine = FlinkEngine(client, settings=site.settings())
        try:
            deployment = engine.attach(job_id)
            found = {}
            for name, fewer in (("least", 0), ("one less", 1)):
                wanted = {key: max(1, degree - fewer) for key, degree in job.heavy.items()}
                deployment = engine.rescale(deployment, Plan({**dict.fromkeys(deployment.plan, 1), **wanted}))
                found[name] = is_short(engine, deployment, job.rate, windows=1 + 3 * fewer)
            return found
        finally:
            client.cancel(job_id)


def is_short(engine: FlinkEngine, deployment: Deployment, rate: float, windows: int) -> bool | str:
    """Backpressure, or less taken than is offered (where all is chained to the source), within so many windows.

    Small rows fill buffers for a minute before anybody is held up.
    """
    found: bool | str = False
    for _ in range(windows):
        seen = engine.observe(deployment, WINDOW)
        if not isinstance(seen, Observation):
            return str(seen.reason)
        found = seen.has_backpressure or seen.operators["orders"].records_in_per_s < TAKEN * rate
        if found:
            break
    return found


def run(chosen: argparse.Namespace, measured: Measured) -> None:
    distribution = FlinkDistribution.find(chosen.flink)
    combination = f"{distribution.version}/{chosen.scheduler}"
    pieces: list[tuple[str, Callable[[Site], Any]]] = []
    if "tuning" in chosen.parts:
        pieces += [
            (f"tuning/{combination}/{start}/{name}", partial(tuned, job=JOBS[name], start=start))
            for start in chosen.starts
            for name in chosen.jobs
        ]
    if "least" in chosen.parts:
        pieces += [(f"least/{combination}/{name}", partial(least, job=JOBS[name])) for name in chosen.jobs]
    missing = [piece for piece in pieces if piece[0] not in measured.pieces]
    print(f"{len(missing)} pieces to measure on Flink {combination}, {chosen.lanes} side by side", flush=True)
    if not missing:
        return
    deadline_s = time.monotonic() + chosen.seconds
    settings = ClusterSettings(
        port=free_port(),
        slots=36 * chosen.lanes,
        scheduler=chosen.scheduler,
        task_heap_mb=1024,
        network_mb=512,
        managed_mb_per_slot=8,
        start_timeout_s=180.0,
    )
    work = chosen.work / combination.replace("/", "-")
    for folder in (work / "audit", work / "history"):
        folder.mkdir(parents=True, exist_ok=True)
    with (
        ThreadPoolExecutor(chosen.lanes) as pool,
        tempfile.TemporaryDirectory() as folder,
        LocalCluster.temporary(settings, distribution) as cluster,
    ):
        jar = make_jar(distribution, Path(folder))
        with FlinkClient(cluster.url, timeout_s=60.0) as client:
            site = Site(cluster.url, jar, client.upload_jar(jar), chosen.scheduler, work)
        shared = [piece for piece in missing if not piece[0].endswith(ALONE)]
        list(pool.map(lambda piece: _measure(piece, site, measured, deadline_s), shared))
        for piece in missing:
            if piece[0].endswith(ALONE):
                _measure(piece, site, measured, deadline_s)


def _measure(piece: tuple[str, Callable[[Site], Any]], site: Site, measured: Measured, deadline_s: float) -> None:
    key, measure = piece
    with LOCKS[key.split("/")[-1]]:  # a stop-and-restart changes a job's id: one of each name at a time
        _measure_alone(key, measure, site, measured, deadline_s)


def _measure_alone(key: str, measure: Callable[[Site], Any], site: Site, measured: Measured, deadline_s: float) -> None:
    if time.monotonic() > deadline_s:
        return
    try:
        found = measure(site)
        measured.keep(key, found)
        print(f"{key}: {json.dumps(found)}", flush=True)
    except StreamTuneError as error:  # the others go on; this one is missing and will be tried again
        print(f"{key} failed: {error}", flush=True)


def verdict(job: ForeignJob, found: dict[str, Any]) -> tuple[bool, str]:
    """Whether a tuned plan is within what is allowed, and by which vertex it is not."""
    for key, degree in found["plan"].items():
        if key in found["sources"] and not job.tune_sources:
            continue
        limit = FACTOR * job.heavy.get(key, 1) + MORE
        if degree > limit:
            return False, f"{key} {degree} > {limit:g}"
    return True, ""


def faults(job: ForeignJob, found: dict[str, Any]) -> list[str]:
    """What is not as it should be about the end of one tuning."""
    told = []
    if found["reconfigurations"] > MOST_RECONFIGURATIONS:
        told.append("too many reconfigurations")
    # Generators of SQL do not say that they are held up, but then less arrives at what works.
    if found["backpressure"] or min(found["taken"][heavy] for heavy in job.heavy) < TAKEN * job.rate:
        told.append("not clean")
    good, why = verdict(job, found)
    return told if good else [*told, why]


def show(measured: Measured) -> None:
    """The table of the docs: a row for each job, a column for each Flink and start."""
    tuned_pieces = {tuple(key.split("/")[1:]): found for key, found in measured.pieces.items() if key[0] == "t"}
    columns = sorted({key[:3] for key in tuned_pieces})
    print("| job, vertex and its least | " + " | ".join(f"{one[0]} {one[1]}, {one[2]}" for one in columns) + " |")
    print("| --- |" + " --- |" * len(columns))
    misses = []
    for name, job in JOBS.items():
        [(heavy, least_of_it)] = job.heavy.items()
        cells = []
        for column in columns:
            found = tuned_pieces.get((*column, name))
            if found is None:
                cells.append("–")
                continue
            wrong = faults(job, found)
            misses += [f"{' '.join(column)} {name}: {', '.join(wrong)}"] if wrong else []
            cells.append(f"{found['plan'][heavy]} after {found['reconfigurations']}{' **✗**' if wrong else ''}")
        print(f"| {name}: {heavy} {least_of_it} | " + " | ".join(cells) + " |")
    for column in columns:
        own = {key[3]: found for key, found in tuned_pieces.items() if key[:3] == column}
        sound = sum(not faults(JOBS[name], found) for name, found in own.items())
        print(f"{' '.join(column)}: {sound} of {len(own)} jobs as they should be")
    print("\n".join(misses))
    for key, found in sorted(measured.pieces.items()):
        if key.startswith("least/"):
            print(f"{key}: short with the least plan {found['least']}, with one less {found['one less']}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--parts", nargs="+", default=["tuning"], choices=["tuning", "least"])
    arguments.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    arguments.add_argument("--starts", nargs="+", default=list(STARTS), choices=list(STARTS))
    arguments.add_argument("--flink", type=Path, default=None, help="another Flink than the installed one")
    arguments.add_argument("--scheduler", default="adaptive", choices=["adaptive", "default"])
    arguments.add_argument("--lanes", type=int, default=6, help="jobs side by side")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="begin no piece after so long")
    arguments.add_argument("--results", type=Path, default=HERE / "results/foreign.json")
    arguments.add_argument("--work", type=Path, default=Path("build/foreign"), help="for audit trails and records")
    arguments.add_argument("--show", action="store_true", help="measure nothing")
    chosen = arguments.parse_args()
    measured = Measured(chosen.results)
    if not chosen.show:
        run(chosen, measured)
    show(measured)


if __name__ == "__main__":
    main()
