"""First plans on a real Flink: eight jobs held out of every history, each started by every method and looked at once.

    python benchmarks/flink_cold.py [--seconds 600] [--lanes 7]

Methods: one instance each; a pilot at a tenth of the rate, sized by DS2; the past of the real runs, of simulated ones,
and of both (``flink_transfer.py``). A plan is clean if its observation shows no backpressure; totals are of operators
that are not sources, against what these truly need. Target: clean in at least 6 of 8, at no more than 1.3 times that.

Real time passes: some minutes on a quiet machine. Every job that is done is kept in
``benchmarks/results/flink-cold.json`` and not done again (``--again`` forgets them).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamtune.dataflow import Plan, Run
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.flink import FlinkEngine
from streamtune.errors import StreamTuneError
from streamtune.experiments.flink_instruments import observed
from streamtune.experiments.flink_jobs import bounded, engine_on, small_cluster, small_workload
from streamtune.experiments.flink_transfer import model_of, plan_by, real_runs, simulated_runs
from streamtune.experiments.paper.contest import WORKLOADS
from streamtune.labs.histories import true_needs
from streamtune.models.transfer.model import TransferModel
from streamtune.tuners import DS2
from streamtune.workloads import Workload

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "flink-cold.json"
# Windows of Q5 and Q8 are ten seconds long: a measurement must see some of them fire.
WINDOW = MeasurementWindow(settle_s=8.0, length_s=16.0)
MULTIPLES = (5.0, 10.0)
PILOT, ONE = "pilot at a tenth of the rate", "one instance each"


def held_out_histories(count: int) -> dict[str, list[Run]]:
    """Real runs without the eight jobs, simulated ones of jobs that are not among the real ones, and both."""
    every = real_runs(ROOT / "data" / "flink" / "runs.jsonl.gz")
    real = [run for run in every if run.job not in WORKLOADS]
    simulated = simulated_runs(count, {run.job for run in every} | set(WORKLOADS))
    return {"real runs": real, "simulated runs": simulated, "simulated and real runs": [*simulated, *real]}


def moved(engine: FlinkEngine, deployment: Deployment, plan: Plan) -> Deployment:
    return deployment if deployment.plan == plan else engine.rescale(deployment, plan)


def started(engine: FlinkEngine, workload: Workload, models: Mapping[str, TransferModel]) -> list[dict[str, Any]]:
    """One deployment of a job, moved from plan to plan."""
    job = workload.spec.job
    inner = [operator.id for operator in job.dataflow.operators if not operator.is_source]
    deployment = engine.deploy(job, job.initial_plan)
    rows = []
    try:
        for multiple in MULTIPLES:
            rates = workload.rates_at(multiple)
            deployment = moved(engine, deployment, job.initial_plan)
            engine.set_source_rates(deployment, {key: rate / 10 for key, rate in rates.items()})
            tried = observed(engine, deployment, WINDOW).model_copy(update={"source_rates": rates})
            plans: dict[str, Plan] = {ONE: job.initial_plan, PILOT: DS2(job).recommend(tried).plan}
            plans |= {label: plan_by(model, job, rates) for label, model in models.items()}
            needs = true_needs(workload, rates)
            for label, plan in plans.items():
                deployment = moved(engine, deployment, bounded(plan))
                engine.set_source_rates(deployment, rates)
                seen = observed(engine, deployment, WINDOW)
                rows.append(
                    {
                        "method": label,
                        "multiple": multiple,
                        "clean": not seen.has_backpressure,
                        "total": sum(seen.plan[key] for key in inner),
                        "needed": sum(needs[key] for key in inner),
                    }
                )
    finally:
        engine.stop(deployment)
    return rows


@dataclass
class Kept:
    """What is done; written as soon as a job is through."""

    jobs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, job: str, rows: list[dict[str, Any]]) -> None:
        with self._lock:
            self.jobs[job] = rows
            RESULTS.write_text(json.dumps(self.jobs, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{job}: {sum(row['clean'] for row in rows)} of {len(rows)} plans clean", flush=True)


def run(chosen: argparse.Namespace, kept: Kept) -> None:
    missing = [name for name in WORKLOADS if name not in kept.jobs]
    if not missing:
        return
    models = {label: model_of(some) for label, some in held_out_histories(chosen.runs).items()}
    deadline_s = time.monotonic() + chosen.seconds

    def work(name: str, url: str, folder: Path) -> None:
        if time.monotonic() > deadline_s:
            return
        workload = small_workload(name)
        try:
            with engine_on(url, folder, workload.spec) as engine:
                kept.keep(name, started(engine, workload, models))
        except StreamTuneError as error:  # the others go on; this one is missing and will be tried again
            print(f"{name} failed: {error}", flush=True)

    with (
        ThreadPoolExecutor(chosen.lanes) as pool,  # outermost: lanes end by themselves once the cluster is gone
        small_cluster(chosen.lanes) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        list(pool.map(lambda name: work(name, cluster.url, Path(folder)), missing))


def show(kept: Kept) -> None:
    rows = [row for some in kept.jobs.values() for row in some]
    for label, multiple in sorted({(row["method"], row["multiple"]) for row in rows}):
        some = [row for row in rows if (row["method"], row["multiple"]) == (label, multiple)]
        clean, total = sum(row["clean"] for row in some), sum(row["total"] for row in some)
        over = total / sum(row["needed"] for row in some)
        print(f"{label:28} at {multiple:g}·W_u: {clean} of {len(some)} clean, {over:.2f} x what is needed")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--runs", type=int, default=3000, help="simulated runs")
    arguments.add_argument("--lanes", type=int, default=7, help="jobs side by side")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="start no job after so long")
    arguments.add_argument("--again", action="store_true", help="forget what is done")
    chosen = arguments.parse_args()
    done = {} if chosen.again or not RESULTS.exists() else json.loads(RESULTS.read_text(encoding="utf-8"))
    kept = Kept(done)
    run(chosen, kept)
    show(kept)


if __name__ == "__main__":
    main()
