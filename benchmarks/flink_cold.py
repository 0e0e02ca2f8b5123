"""First plans on a real Flink: eight jobs held out of every history, each started by every way and looked at once.

    python benchmarks/flink_cold.py [--multiples 5 10] [--lanes 7] [--seconds 600]

Ways: one instance each; a pilot at a tenth of the rate, sized by DS2 or with the past; the past alone, of real runs,
of simulated ones and of both; OptiSample's rule; ZeroTune's advice; the thresholds of an encoder that went on from
simulated runs to real ones. A plan is clean if its observation shows no backpressure; totals are of operators that are
not sources, against what these truly need. Target: clean in at least 6 of 8, at no more than 1.3 times that.

What is learnt is learnt before the cluster starts. Then real time passes: about six minutes for each of the three
rounds that 8 jobs at 2 multiples take in 7 lanes. Every job and multiple that is done is kept in
``benchmarks/results/flink-cold.json`` and not done again (``--again`` forgets them).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from streamtune.dataflow import Run
from streamtune.engines.base import MeasurementWindow
from streamtune.errors import StreamTuneError
from streamtune.experiments.flink_cold import Judgement, Trial, table, ways_of
from streamtune.experiments.flink_instruments import observed
from streamtune.experiments.flink_jobs import engine_on, small_cluster, small_workload
from streamtune.experiments.flink_transfer import real_runs, simulated_runs
from streamtune.experiments.paper.contest import WORKLOADS

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "flink-cold.json"
# Windows of Q5 and Q8 are ten seconds long: a measurement must see some of them fire.
WINDOW = MeasurementWindow(settle_s=8.0, length_s=16.0)
DRAIN = MeasurementWindow(settle_s=2.0, length_s=4.0)
MULTIPLES = (5.0, 10.0)


def histories(count: int) -> tuple[list[Run], list[Run]]:
    """Simulated runs of jobs that are not among the real ones, and real runs without the eight jobs."""
    every = real_runs(ROOT / "data" / "flink" / "runs.jsonl.gz")
    simulated = simulated_runs(count, {run.job for run in every} | set(WORKLOADS))
    return simulated, [run for run in every if run.job not in WORKLOADS]


@dataclass
class Kept:
    """What is done, by job and multiple; written as soon as one of them is through."""

    path: Path
    runs: int
    done: dict[str, list[Judgement]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def read(cls, path: Path, runs: int) -> Kept:
        stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"simulated_runs": runs, "done": {}}
        if stored["simulated_runs"] != runs:
            raise SystemExit(
                f"{path} has plans of {stored['simulated_runs']} simulated runs, not of {runs}: "
                f"give --runs {stored['simulated_runs']}, or --again to begin anew"
            )
        done = {key: [Judgement.model_validate(row) for row in rows] for key, rows in stored["done"].items()}
        return cls(path, runs, done)

    @property
    def rows(self) -> list[Judgement]:
        return [row for key in sorted(self.done) for row in self.done[key]]

    def keep(self, key: str, rows: list[Judgement]) -> None:
        with self._lock:
            self.done[key] = rows
            done = {name: [row.model_dump() for row in some] for name, some in self.done.items()}
            text = json.dumps({"simulated_runs": self.runs, "done": done}, indent=1, sort_keys=True)
            self.path.write_text(text + "\n", encoding="utf-8")
        print(f"{key}: {sum(row.clean for row in rows)} of {len(rows)} plans clean", flush=True)


def run(chosen: argparse.Namespace, kept: Kept) -> None:
    units = {f"{name}@{multiple:g}": (name, multiple) for multiple in chosen.multiples for name in WORKLOADS}
    missing = [key for key in units if key not in kept.done]
    if not missing:
        return
    started_s = time.monotonic()
    ways = ways_of(*histories(chosen.runs))
    print(f"learnt in {time.monotonic() - started_s:.0f} s; {len(missing)} to start on Flink", flush=True)
    deadline_s = time.monotonic() + chosen.seconds

    def work(key: str, url: str, folder: Path) -> None:
        if time.monotonic() > deadline_s:
            return
        name, multiple = units[key]
        workload = small_workload(name)
        try:
            with engine_on(url, folder, workload.spec) as engine:
                kept.keep(key, list(Trial(engine, workload, WINDOW, observed, DRAIN).judge(ways, multiple)))
        except StreamTuneError as error:  # the others go on; this one is missing and will be tried again
            print(f"{key} failed: {error}", flush=True)

    with (
        ThreadPoolExecutor(chosen.lanes) as pool,  # outermost: lanes end by themselves once the cluster is gone
        small_cluster(chosen.lanes) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        list(pool.map(lambda key: work(key, cluster.url, Path(folder)), missing))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--runs", type=int, default=3000, help="simulated runs")
    arguments.add_argument("--multiples", type=float, nargs="+", default=MULTIPLES, help="of W_u")
    arguments.add_argument("--lanes", type=int, default=7, help="jobs side by side")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="start no job after so long")
    arguments.add_argument("--results", type=Path, default=RESULTS, help="what is done")
    arguments.add_argument("--again", action="store_true", help="forget what is done")
    chosen = arguments.parse_args()
    if chosen.again:
        chosen.results.unlink(missing_ok=True)
    kept = Kept.read(chosen.results, chosen.runs)
    run(chosen, kept)
    print("\n".join(table(kept.rows)))


if __name__ == "__main__":
    main()
