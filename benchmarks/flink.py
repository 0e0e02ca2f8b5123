"""The paper's experiment on a real Flink, at this machine's scale: several hours of mostly waiting, resumable.

    python benchmarks/flink.py                            # everything that is missing
    python benchmarks/flink.py --parts downtime polling   # only these
    python benchmarks/flink.py --tuners ds2 conttune --queries nexmark-q2 --changes 3

- tuning: Q1, Q2, Q3, Q5, Q8 and one query of each PQP template through one ten-rate cycle, by every tuner: parallelism
  at the top rate, reconfigurations per change, backpressure. ``--model`` gives StreamTune a pre-trained model.
- downtime: of a live rescale and of a stop-and-restart.
- fidelity: busy and backpressured shares, simulated and measured, at the oracle's plan and one instance below it.
- polling: REST calls and CPU for one snapshot of 20 vertices of 10 to 100 subtasks.

Every finished piece is kept in ``benchmarks/results/flink.json``; what is there is not done again. Prints tables,
writes them to ``flink.html`` beside it, and every step of every tuner to ``flink-stories.html``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from rich.console import Console

from streamtune.audit import AuditTrail
from streamtune.benchmark.flink_instruments import measure_downtime, measure_fidelity, measure_polling
from streamtune.benchmark.flink_jobs import engine_on, small_cluster, small_workload
from streamtune.benchmark.flink_tuning import tune_on_flink
from streamtune.benchmark.paper.contest import WORKLOADS
from streamtune.benchmark.paper.findings import Check, Finding, Shown, grouped_bars
from streamtune.benchmark.paper.report import write_findings
from streamtune.benchmark.report import write_report
from streamtune.benchmark.tuning import TuningStory, make_contestant
from streamtune.cli.bench import print_finding
from streamtune.controller import Guards
from streamtune.engines.base import MeasurementWindow
from streamtune.errors import StreamTuneError
from streamtune.workloads import cycle

RESULTS = Path(__file__).parent / "results"
TUNERS = ("streamtune", "ds2", "conttune", "flink-autoscaler")
VERTICES = 20
SUBTASKS = (10, 20, 40, 100)
PARTS = ("downtime", "polling", "fidelity", "tuning")
# Windows of Q5 and Q8 are ten seconds long: a measurement must see some of them fire.
WINDOW = MeasurementWindow(settle_s=8.0, length_s=16.0)
console = Console()


class Results:
    """What is known so far; every piece is written as soon as it is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def keep(self, key: str, value: Any) -> None:
        with self._lock:
            self.known[key] = value
            self._path.parent.mkdir(parents=True, exist_ok=True)
            scratch = self._path.with_suffix(".new")
            scratch.write_text(json.dumps(self.known, indent=1, sort_keys=True, allow_nan=True))
            scratch.replace(self._path)

    def under(self, prefix: str) -> dict[str, Any]:
        return {key: value for key, value in self.known.items() if key.startswith(f"{prefix}/")}


Piece = tuple[str, Callable[[str, Path], Any]]


def pieces(chosen: argparse.Namespace) -> list[Piece]:
    """Everything there is to measure, by its key in the results."""
    queries, tuners = chosen.queries, chosen.tuners
    downtime: list[Piece] = [(f"downtime/{mode}", partial(_downtime, mode=mode)) for mode in ("live", "restart")]
    fidelity: list[Piece] = [(f"fidelity/{name}", partial(_fidelity, name=name)) for name in queries]
    tuning: list[Piece] = [
        (f"tuning/{tuner}/{name}", partial(_story, tuner=tuner, name=name, chosen=chosen))
        for tuner in tuners
        for name in queries
    ]
    by_part = {"downtime": downtime, "fidelity": fidelity, "tuning": tuning}
    return [piece for part in PARTS if part in chosen.parts for piece in by_part.get(part, [])]


def _downtime(url: str, folder: Path, mode: str) -> Any:
    return [one.model_dump() for one in measure_downtime(url, folder, mode, times=6)]


def _fidelity(url: str, folder: Path, name: str) -> Any:
    return [one.model_dump() for one in measure_fidelity(url, folder, name, (3, 7, 10), WINDOW)]


def _story(url: str, folder: Path, tuner: str, name: str, chosen: argparse.Namespace) -> Any:
    workload = small_workload(name)
    rates = [workload.rates_at(multiple) for multiple in cycle()[: chosen.changes]]
    audit = chosen.out.parent / "flink-audit" / f"{tuner}-{name}.jsonl"
    with engine_on(url, folder, workload.spec) as engine, AuditTrail(audit) as trail:
        story = tune_on_flink(
            engine,
            workload.spec,
            partial(make_contestant, tuner, model=chosen.model),
            rates,
            guards=Guards(max_reconfigurations=8, not_ready_patience=30),
            window=WINDOW,
            audit=trail,
        )
    return story.model_dump(mode="json")


def run(chosen: argparse.Namespace, results: Results) -> None:
    missing = [piece for piece in pieces(chosen) if piece[0] not in results.known]
    deadline_s = time.monotonic() + chosen.seconds
    console.print(f"{len(missing)} pieces to measure, {chosen.lanes} side by side")

    def work(piece: Piece, url: str, folder: Path) -> None:
        key, measure = piece
        if time.monotonic() > deadline_s:
            return
        start = time.monotonic()
        try:
            results.keep(key, measure(url, folder))
            console.print(f"{key}: {time.monotonic() - start:.0f} s", highlight=False)
        except StreamTuneError as error:  # the others go on; this one is missing and will be tried again
            console.print(f"{key} failed: {error}", highlight=False)

    if missing:
        with (
            ThreadPoolExecutor(chosen.lanes) as pool,  # outermost: lanes end by themselves once the cluster is gone
            small_cluster(chosen.lanes) as cluster,
            tempfile.TemporaryDirectory() as folder,
        ):
            list(pool.map(lambda piece: work(piece, cluster.url, Path(folder)), missing))
    if "polling" in chosen.parts:
        for subtasks in chosen.subtasks:
            key = f"polling/{VERTICES}x{subtasks}"
            if key in results.known or time.monotonic() > deadline_s:
                continue
            with (
                small_cluster(1, slots=subtasks, task_heap_mb=1536, network_mb=2048) as cluster,
                tempfile.TemporaryDirectory() as folder,
            ):
                results.keep(key, measure_polling(cluster.url, Path(folder), VERTICES, subtasks).model_dump())


def show(results: Results, folder: Path) -> None:
    """Tables on the terminal and on one page, and all tuning stories on another."""
    stories = [TuningStory.model_validate(story) for story in results.under("tuning").values()]
    findings = [
        *_downtime_finding(results.under("downtime")),
        *_polling_finding(results.under("polling")),
        *_fidelity_finding(results.under("fidelity")),
        *_tuning_finding(stories),
    ]
    for finding in findings:
        print_finding(finding)
    write_findings(
        folder / "flink.html",
        findings,
        title="On a real Flink",
        command="make bench-flink",
        where="Flink on this machine",
    )
    if stories:
        write_report(folder / "flink-stories.html", stories, title="Tuning on a real Flink", command="make bench-flink")
    console.print(f"report: {folder / 'flink.html'}, every step: {folder / 'flink-stories.html'}", highlight=False)


def _downtime_finding(measured: dict[str, Any]) -> Iterator[Finding]:
    down = {key.split("/")[1]: [row["down_s"] for row in rows] for key, rows in measured.items()}
    rows = tuple(
        (
            mode,
            str(len(times)),
            f"{median(times):.2f}",
            f"{max(times):.2f}",
            f"{median(row['until_running_s'] for row in measured[f'downtime/{mode}']):.1f}",
        )
        for mode, times in down.items()
    )
    if {"live", "restart"} <= set(down):
        live, restart = median(down["live"]), median(down["restart"])
        check = Check("live is shorter than stop-and-restart", f"{live:.2f} s against {restart:.2f} s", live < restart)
        headings = ("mode", "rescales", "down s (median)", "down s (most)", "until all run s")
        yield Finding(
            "downtime",
            "Downtime of a reconfiguration",
            "a small job without much state on this machine: the time in which nothing reaches the sink",
            "",
            (Shown("", headings, rows),),
            checks=(check,),
        )


def _polling_finding(measured: dict[str, Any]) -> Iterator[Finding]:
    rows = tuple(
        (
            f"{row['vertices']} × {row['subtasks']}",
            str(row["calls"]),
            f"{row['wall_s']:.2f}",
            f"{row['cpu_s']:.3f}",
        )
        for row in measured.values()
    )
    if rows:
        headings = ("vertices × subtasks", "REST calls", "wall s", "CPU s of StreamTune")
        yield Finding(
            "polling", "What one snapshot costs", "an observation takes two", "", (Shown("", headings, rows),)
        )


def _fidelity_finding(measured: dict[str, Any]) -> Iterator[Finding]:
    rows = []
    for key, found in measured.items():
        errors = sorted(abs(row["busy_simulated"] - row["busy_measured"]) for row in found)
        agree = mean((row["backpressured_simulated"] > 0.1) == (row["backpressured_measured"] > 0.1) for row in found)
        rows.append(
            (
                key.split("/")[1],
                f"{median(errors):.3f}",
                f"{errors[int(0.9 * (len(errors) - 1))]:.3f}",
                f"{agree:.0%}",
                *_safe_parallelism(found),
            )
        )
    headings = (
        "job",
        "error of busy share (median)",
        "(90 %)",
        "same backpressure",
        "oracle's plan is clean",
        "one instance less is short",
    )
    if rows:
        yield Finding(
            "fidelity",
            "The simulator against Flink",
            "the same specs at 3, 7 and 10·W_u, at the oracle's plan and with one instance less of its widest operator",
            "",
            (Shown("", headings, tuple(rows)),),
        )


def _safe_parallelism(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """How often Flink is clean at the oracle's plan, and short with one instance less, as the simulator says."""
    backpressure: dict[tuple[float, bool], bool] = {}
    for multiple in {row["multiple"] for row in rows}:
        plans: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        operators = len({row["operator"] for row in rows})
        of_rate = [row for row in rows if row["multiple"] == multiple]
        for start in range(0, len(of_rate), operators):
            seen = of_rate[start : start + operators]
            plans[all(row["parallelism"] == row["oracle_parallelism"] for row in seen)] += seen
        for is_oracle, seen in plans.items():
            if seen:
                backpressure[multiple, is_oracle] = any(row["backpressured_measured"] > 0.1 for row in seen)
    clean = [not found for (_, is_oracle), found in backpressure.items() if is_oracle]
    short = [found for (_, is_oracle), found in backpressure.items() if not is_oracle]
    return f"{sum(clean)} of {len(clean)}", f"{sum(short)} of {len(short)}"


def _tuning_finding(stories: Sequence[TuningStory]) -> Iterator[Finding]:
    if not stories:
        return
    jobs = [job for job in WORKLOADS if any(story.job == job for story in stories)]
    overall, peaks = [], []
    left: dict[str, int] = {}
    above: dict[str, list[float]] = {}
    for tuner in dict.fromkeys(story.tuner for story in stories):
        own = {story.job: story for story in stories if story.tuner == tuner}
        changes = [change for story in own.values() for change in story.changes]
        total, best = sum(one.total_parallelism for one in changes), sum(one.oracle_total or 0 for one in changes)
        left[tuner] = sum(one.backpressure for one in changes)
        overall.append(
            (
                tuner,
                f"{mean(one.reconfigurations for one in changes):.2f}",
                f"{left[tuner]} of {len(changes)}",
                f"{mean(one.backpressure_seen for one in changes):.2f}",
                f"{total / best:.3f}",
            )
        )
        above[tuner] = [own[job].over_oracle or 0.0 if job in own else 0.0 for job in jobs]
        peaks.append((tuner, *(_at_the_top(own[job]) if job in own else "–" for job in jobs)))
    checks: tuple[Check, ...] = ()
    if "streamtune" in left:
        told = ", ".join(f"{tuner} {count}" for tuner, count in left.items())
        checks = (Check("StreamTune leaves no backpressure", told, left["streamtune"] == 0),)
    yield Finding(
        "tuning",
        "Tuning over one cycle of ten rates",
        f"{len(jobs)} jobs at this machine's rates; the oracle knows the emulated service times",
        "StreamTune recommends the least parallelism, restarts least and never leaves backpressure.",
        (
            Shown(
                "all jobs",
                ("tuner", "reconfigurations / change", "ended with backpressure", "seen / change", "total / oracle"),
                tuple(overall),
            ),
            Shown("total parallelism at 10·W_u (oracle's)", ("tuner", *jobs), tuple(peaks)),
        ),
        pictures=(grouped_bars(jobs, above, "total parallelism / oracle, ten rates", 1.0),),
        checks=checks,
    )


def _at_the_top(story: TuningStory) -> str:
    top = max(story.changes, key=lambda change: sum(change.rates.values()))
    return f"{top.total_parallelism} ({top.oracle_total})"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    arguments.add_argument("--queries", nargs="+", default=WORKLOADS)
    arguments.add_argument("--tuners", nargs="+", default=TUNERS)
    arguments.add_argument("--changes", type=int, default=len(cycle()), help="only the first changes of the cycle")
    arguments.add_argument("--model", type=Path, default=None, help="a pre-trained model for StreamTune")
    arguments.add_argument("--subtasks", nargs="+", type=int, default=SUBTASKS, help="of every vertex, for polling")
    arguments.add_argument("--lanes", type=int, default=7, help="jobs side by side")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="begin no piece after so long")
    arguments.add_argument("--out", type=Path, default=RESULTS / "flink.json")
    chosen = arguments.parse_args()
    results = Results(chosen.out)
    start = time.monotonic()
    run(chosen, results)
    console.print(f"took {time.monotonic() - start:.0f} s")
    show(results, chosen.out.parent)


if __name__ == "__main__":
    main()
