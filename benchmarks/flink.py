"""The paper's experiment on a real Flink, at this machine's scale: several hours of mostly waiting, resumable.

    python benchmarks/flink.py                            # everything that is missing
    python benchmarks/flink.py --parts downtime polling   # only these
    python benchmarks/flink.py --tuners ds2 conttune --queries nexmark-q2 --changes 3
    python benchmarks/flink.py --tuners streamtune --parts tuning --again   # forget StreamTune's pieces, measure anew

- tuning: Q1, Q2, Q3, Q5, Q8, one query of each PQP template and four jobs that nobody here wrote (``foreign_cycle.py``)
  through one ten-rate cycle, by every tuner: parallelism at the top rate, reconfigurations per change, backpressure.
  ``--model`` gives StreamTune a pre-trained model.
- downtime: of a live rescale and of a stop-and-restart.
- fidelity: busy and backpressured shares, simulated and measured, at the oracle's plan and one instance below it.
- polling: REST calls and CPU for one snapshot of 20 vertices of 10 to 100 subtasks.

Every finished piece is kept in ``benchmarks/data/flink/experiment.json.gz``; what is there is not done again. The
findings are printed and kept in ``benchmarks/results/flink.json``; pages with them and with every step of every tuner,
and the audit trails, go to ``build/flink``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from foreign_cycle import DRIVEN, foreign_story
from rich.console import Console

from streamtune.cli.bench import print_finding
from streamtune.control.audit import AuditTrail
from streamtune.control.guards import Guards
from streamtune.engines.base import MeasurementWindow
from streamtune.errors import StreamTuneError
from streamtune.experiments.flink_findings import flink_findings, stories_of
from streamtune.experiments.flink_instruments import measure_downtime, measure_fidelity, measure_polling
from streamtune.experiments.flink_jobs import engine_on, small_cluster, small_workload, wide_cluster
from streamtune.experiments.flink_tuning import tune_on_flink
from streamtune.experiments.paper.contest import WORKLOADS
from streamtune.experiments.paper.report import write_findings
from streamtune.reports.report import write_report
from streamtune.tuners import make_contestant
from streamtune.workloads import cycle

HERE = Path(__file__).parent
TUNERS = ("streamtune", "ds2", "conttune", "flink-autoscaler")
VERTICES = 20
SUBTASKS = (10, 20, 40, 100)
PARTS = ("downtime", "polling", "fidelity", "tuning")
# Windows of Q5 and Q8 are ten seconds long: a measurement must see some of them fire.
WINDOW = MeasurementWindow(settle_s=8.0, length_s=16.0)
console = Console()


class Measured:
    """The pieces so far; every piece is written as soon as it is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.pieces: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes())) if path.exists() else {}

    def forget(self, keys: list[str]) -> None:
        for key in keys:
            self.pieces.pop(key, None)

    def keep(self, key: str, value: Any) -> None:
        with self._lock:
            self.pieces[key] = value
            self._path.parent.mkdir(parents=True, exist_ok=True)
            scratch = self._path.with_suffix(".new")
            text = json.dumps(self.pieces, sort_keys=True, separators=(",", ":"))
            scratch.write_bytes(gzip.compress(text.encode(), mtime=0))
            scratch.replace(self._path)


Piece = tuple[str, Callable[[str, Path], Any]]


def pieces(chosen: argparse.Namespace) -> list[Piece]:
    """Everything there is to measure, by its key in the results."""
    queries, tuners = chosen.queries, chosen.tuners
    downtime: list[Piece] = [(f"downtime/{mode}", partial(_downtime, mode=mode)) for mode in ("live", "restart")]
    fidelity: list[Piece] = [
        (f"fidelity/{name}", partial(_fidelity, name=name)) for name in queries if name not in DRIVEN
    ]
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
    if name in DRIVEN:
        return foreign_story(url, folder, tuner, name, chosen, WINDOW)
    workload = small_workload(name)
    rates = [workload.rates_at(multiple) for multiple in cycle()[: chosen.changes]]
    audit = chosen.work / "audit" / f"{tuner}-{name}.jsonl"
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


def run(chosen: argparse.Namespace, measured: Measured) -> None:
    if chosen.again:
        measured.forget([key for key, _ in pieces(chosen)])
    missing = [piece for piece in pieces(chosen) if piece[0] not in measured.pieces]
    deadline_s = time.monotonic() + chosen.seconds
    console.print(f"{len(missing)} pieces to measure, {chosen.lanes} side by side")

    def work(piece: Piece, url: str, folder: Path) -> None:
        key, measure = piece
        if time.monotonic() > deadline_s:
            return
        start = time.monotonic()
        try:
            measured.keep(key, measure(url, folder))
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
    for subtasks in chosen.subtasks if "polling" in chosen.parts else ():
        key = f"polling/{VERTICES}x{subtasks}"
        if key not in measured.pieces:
            with (
                wide_cluster(subtasks) as cluster,
                tempfile.TemporaryDirectory() as folder,
            ):
                work((key, partial(_polling, subtasks=subtasks)), cluster.url, Path(folder))


def _polling(url: str, folder: Path, subtasks: int) -> Any:
    return measure_polling(url, folder, VERTICES, subtasks).model_dump()


def show(measured: Measured, results: Path, work: Path) -> None:
    """Findings on the terminal, in a file and on one page; all tuning stories on another."""
    findings, stories = flink_findings(measured.pieces), stories_of(measured.pieces)
    for finding in findings:
        print_finding(finding)
    results.write_text(json.dumps([finding.to_record() for finding in findings], indent=1) + "\n", encoding="utf-8")
    page, steps = work / "flink.html", work / "flink-stories.html"
    work.mkdir(parents=True, exist_ok=True)
    write_findings(page, findings, title="On a real Flink", command="make bench-flink", where="Flink on this machine")
    console.print(f"figures: {results}, report: {page}", highlight=False, soft_wrap=True)
    if stories:
        write_report(steps, stories, title="Tuning on a real Flink", command="make bench-flink")
        console.print(f"every step: {steps}", highlight=False, soft_wrap=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    arguments.add_argument("--queries", nargs="+", default=(*WORKLOADS, *DRIVEN))
    arguments.add_argument("--tuners", nargs="+", default=TUNERS)
    arguments.add_argument("--changes", type=int, default=len(cycle()), help="only the first changes of the cycle")
    arguments.add_argument("--model", type=Path, default=None, help="a pre-trained model for StreamTune")
    arguments.add_argument("--subtasks", nargs="+", type=int, default=SUBTASKS, help="of every vertex, for polling")
    arguments.add_argument("--again", action="store_true", help="forget the chosen pieces and measure them anew")
    arguments.add_argument("--lanes", type=int, default=7, help="jobs side by side")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="begin no piece after so long")
    arguments.add_argument("--pieces", type=Path, default=HERE / "data/flink/experiment.json.gz")
    arguments.add_argument("--results", type=Path, default=HERE / "results/flink.json")
    arguments.add_argument("--work", type=Path, default=Path("build/flink"), help="for the pages and the audit trails")
    chosen = arguments.parse_args()
    measured = Measured(chosen.pieces)
    start = time.monotonic()
    run(chosen, measured)
    console.print(f"took {time.monotonic() - start:.0f} s")
    show(measured, chosen.results, chosen.work)


if __name__ == "__main__":
    main()
