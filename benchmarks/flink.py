"""The paper's experiment on a real Flink, at this machine's scale: several hours of mostly waiting, resumable.

    python benchmarks/flink.py                            # everything that is missing
    python benchmarks/flink.py --parts downtime polling   # only these
    python benchmarks/flink.py --tuners ds2 conttune --queries nexmark-q2 --changes 3

- tuning: Q1, Q2, Q3, Q5, Q8 and one query of each PQP template through one ten-rate cycle, by every tuner: parallelism
  at the top rate, reconfigurations per change, backpressure. ``--model`` gives StreamTune a pre-trained model.
- downtime: of a live rescale and of a stop-and-restart.
- fidelity: busy and backpressured shares, simulated and measured, at the oracle's plan and one instance below it.
- polling: REST calls and CPU for one snapshot of 20 vertices of 100 subtasks.

Every finished piece is kept in ``benchmarks/results/flink.json``; what is there is not done again. Prints tables and
writes ``benchmarks/results/flink.html`` with all tuning stories.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from rich.console import Console
from rich.table import Table

from streamtune.audit import AuditTrail
from streamtune.benchmark.flink_instruments import measure_downtime, measure_fidelity, measure_polling
from streamtune.benchmark.flink_jobs import engine_on, small_cluster, small_workload
from streamtune.benchmark.flink_tuning import tune_on_flink
from streamtune.benchmark.paper.contest import WORKLOADS
from streamtune.benchmark.report import write_report
from streamtune.benchmark.tuning import TuningStory, make_contestant
from streamtune.controller import Guards
from streamtune.engines.base import MeasurementWindow
from streamtune.errors import StreamTuneError
from streamtune.workloads import cycle

RESULTS = Path(__file__).parent / "results"
TUNERS = ("streamtune", "ds2", "conttune", "flink-autoscaler")
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
    if "polling" in chosen.parts and "polling/20x100" not in results.known and time.monotonic() < deadline_s:
        with small_cluster(1, slots=100, task_heap_mb=1024) as cluster, tempfile.TemporaryDirectory() as folder:
            results.keep("polling/20x100", measure_polling(cluster.url, Path(folder), 20, 100).model_dump())


def show(results: Results, report: Path) -> None:
    _show_downtime(results)
    _show_polling(results)
    _show_fidelity(results)
    stories = [TuningStory.model_validate(story) for story in results.under("tuning").values()]
    if stories:
        _show_tuning(stories)
        write_report(report, stories, title="Tuning on a real Flink", command="make bench-flink")
        console.print(f"report: {report}", highlight=False, soft_wrap=True)


def _show_downtime(results: Results) -> None:
    table = Table("mode", "rescales", "down s (median)", "down s (max)", "until running s", title="downtime")
    for key, rows in results.under("downtime").items():
        down = [row["down_s"] for row in rows]
        running = median(row["until_running_s"] for row in rows)
        table.add_row(key.split("/")[1], str(len(rows)), f"{median(down):.1f}", f"{max(down):.1f}", f"{running:.1f}")
    if table.row_count:
        console.print(table)


def _show_polling(results: Results) -> None:
    for row in results.under("polling").values():
        console.print(
            f"polling {row['vertices']} vertices × {row['subtasks']} subtasks: {row['calls']} REST calls, "
            f"{row['wall_s']:.2f} s, {row['cpu_s']:.2f} s of CPU per snapshot",
            highlight=False,
        )


def _show_fidelity(results: Results) -> None:
    headings = (
        "job",
        "busy error (median)",
        "busy error (90 %)",
        "backpressure agrees",
        "oracle clean",
        "one less short",
    )
    table = Table(*headings, title="simulator against Flink")
    for key, rows in results.under("fidelity").items():
        errors = sorted(abs(row["busy_simulated"] - row["busy_measured"]) for row in rows)
        agree = mean((row["backpressured_simulated"] > 0.1) == (row["backpressured_measured"] > 0.1) for row in rows)
        table.add_row(
            key.split("/")[1],
            f"{median(errors):.3f}",
            f"{errors[int(0.9 * (len(errors) - 1))]:.3f}",
            f"{100 * agree:.0f} %",
            *_safe_parallelism(rows),
        )
    if table.row_count:
        console.print(table)


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
    return f"{sum(clean)}/{len(clean)}", f"{sum(short)}/{len(short)}"


def _show_tuning(stories: list[TuningStory]) -> None:
    table = Table(
        "tuner", "job", "reconf./change", "backpressure after", "seen", "p at top rate", "oracle", title="tuning"
    )
    for story in sorted(stories, key=lambda one: (one.tuner, one.job)):
        top = max(story.changes, key=lambda change: sum(change.rates.values()))
        table.add_row(
            story.tuner,
            story.job,
            f"{story.reconfigurations_per_change:.2f}",
            f"{story.backpressure_after_tuning}/{len(story.changes)}",
            str(sum(change.backpressure_seen for change in story.changes)),
            str(top.total_parallelism),
            str(top.oracle_total),
        )
    console.print(table)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    arguments.add_argument("--queries", nargs="+", default=WORKLOADS)
    arguments.add_argument("--tuners", nargs="+", default=TUNERS)
    arguments.add_argument("--changes", type=int, default=len(cycle()), help="only the first changes of the cycle")
    arguments.add_argument("--model", type=Path, default=None, help="a pre-trained model for StreamTune")
    arguments.add_argument("--lanes", type=int, default=4)
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="begin no piece after so long")
    arguments.add_argument("--out", type=Path, default=RESULTS / "flink.json")
    chosen = arguments.parse_args()
    results = Results(chosen.out)
    start = time.monotonic()
    run(chosen, results)
    console.print(f"took {time.monotonic() - start:.0f} s")
    show(results, chosen.out.with_suffix(".html"))


if __name__ == "__main__":
    main()
