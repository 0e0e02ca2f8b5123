"""Collects labelled runs on a real Flink: Nexmark, PQP and random jobs, at rates this machine can run.

    python benchmarks/flink_history.py --runs 320 --lanes 5
    streamtune history ingest my-history benchmarks/data/flink/runs.jsonl.gz
    streamtune history label my-history && streamtune history featurise my-history
    streamtune pretrain my-history --out model

Rates are uniform in (1, 10)·W_u without the multiples that tuning is tested on; half of the plans are random, half near
what the operators need (StreamTune Section V-A, and ``streamtune history generate``). Jobs come in visits: one job is
deployed and then seen under four pairs of plan and rates, moved between them by live rescaling. Visit number i is drawn
from the seed and i alone. Runs that are in the file already are not repeated, so the script may be stopped and started
again; ``--seconds`` ends it in time. Lanes are jobs side by side on one cluster: they mostly sleep.

Prints how long it took and how the labels compare with the truth, which only this experiment knows.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamtune.benchmark.flink_jobs import LIMIT, engine_on, small_cluster, small_workload
from streamtune.dataflow import Observation, ParallelismPlan, Run
from streamtune.dataflow.demand import input_rates
from streamtune.dataflow.physics import smallest_parallelism
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.flink import FlinkEngine
from streamtune.errors import EngineError, StreamTuneError
from streamtune.labels import label_observation
from streamtune.workloads import Workload, cycle, names

ROOT = Path(__file__).parents[1]
DATA = ROOT / "benchmarks" / "data" / "flink" / "runs.jsonl.gz"
RANDOM_JOBS = 60
RANDOM_SHARE = 0.4
NEAR_SHARE = 0.5
LARGEST_RANDOM_DEGREE = 14
RUNS_PER_VISIT = 4
KEEP_AWAY = 0.02
WINDOW = MeasurementWindow(settle_s=10.0, length_s=16.0)


@dataclass(frozen=True)
class Experiment:
    """One run before it is run."""

    number: int
    workload: Workload
    rates: dict[str, float]
    plan: ParallelismPlan

    @property
    def demand(self) -> dict[str, float]:
        selectivities = {key: truth.selectivity for key, truth in self.workload.physics.items()}
        return input_rates(self.workload.spec.job.dataflow, selectivities, self.rates)

    @property
    def truth(self) -> dict[str, int]:
        """1 where an operator's capacity is below what the sources demand of it."""
        demand, physics = self.demand, self.workload.physics
        return {key: int(physics[key].capacity_per_s(degree) < demand[key]) for key, degree in self.plan.items()}


def draw_visit(visit: int, seed: int) -> list[Experiment]:
    """The runs of one visit: one job, several plans and rates."""
    rng = np.random.default_rng([seed, visit])
    queries = names()
    is_random = rng.random() < RANDOM_SHARE
    name = f"random-{rng.integers(RANDOM_JOBS)}" if is_random else queries[rng.integers(len(queries))]
    workload = small_workload(name)
    job = workload.spec.job
    sources = {source.id: job.initial_plan[source.id] for source in job.dataflow.sources}
    experiments = []
    for position in range(RUNS_PER_VISIT):
        rates = {source: unit * _multiple(rng) for source, unit in workload.units.items()}
        bare = Experiment(visit * RUNS_PER_VISIT + position, workload, rates, job.initial_plan)
        degrees = _near(bare, rng) if rng.random() < NEAR_SHARE else _anything(bare, rng)
        experiments.append(Experiment(bare.number, workload, rates, ParallelismPlan({**degrees, **sources})))
    return experiments


def _multiple(rng: np.random.Generator) -> float:
    while True:
        multiple = float(rng.uniform(1, 10))
        if min(abs(multiple - tested) for tested in cycle()) > KEEP_AWAY:
            return multiple


def _near(bare: Experiment, rng: np.random.Generator) -> dict[str, int]:
    needs = {
        key: smallest_parallelism(bare.workload.physics[key], rate, LIMIT) or LIMIT for key, rate in bare.demand.items()
    }
    return {
        key: int(np.clip(round(need * rng.lognormal(0.0, 0.2)) + rng.integers(-1, 2), 1, LIMIT))
        for key, need in needs.items()
    }


def _anything(bare: Experiment, rng: np.random.Generator) -> dict[str, int]:
    return {key: int(rng.integers(1, LARGEST_RANDOM_DEGREE + 1)) for key in bare.plan}


def run_id(number: int, seed: int) -> str:
    return f"flink-{seed}-{number:06d}"


def visit_job(engine: FlinkEngine, experiments: list[Experiment], seed: int) -> Iterator[Run]:
    """Deploy a job once and see it under every experiment."""
    job = experiments[0].workload.spec.job
    deployment = engine.deploy(job, experiments[0].plan)
    try:
        for experiment in experiments:
            if deployment.plan != experiment.plan:
                deployment = engine.rescale(deployment, experiment.plan)
            engine.set_source_rates(deployment, experiment.rates)
            yield Run.of(run_id(experiment.number, seed), job, "flink", observe(engine, deployment))
    finally:
        engine.stop(deployment)


def observe(engine: FlinkEngine, deployment: Deployment) -> Observation:
    for _ in range(8):
        seen = engine.observe(deployment, WINDOW)
        if isinstance(seen, Observation):
            return seen
        time.sleep(seen.retry_after_s)
    raise EngineError(f"{deployment.job.name} gave no metrics: {seen.reason}")


def read(path: Path) -> Iterator[Run]:
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from (Run.model_validate_json(line) for line in lines)


def collect(path: Path, runs: int, seed: int, lanes: int, seconds: float) -> int:
    """Add the missing runs until done or out of time; how many were added."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {record.run_id for record in read(path)}
    deadline_s, lock = time.monotonic() + seconds, threading.Lock()
    added = 0

    def work(visit: int, url: str, folder: Path) -> None:
        nonlocal added
        missing = [one for one in draw_visit(visit, seed) if run_id(one.number, seed) not in known]
        if not missing or time.monotonic() > deadline_s:
            return
        try:
            with engine_on(url, folder, missing[0].workload.spec) as engine:
                for record in visit_job(engine, missing, seed):
                    with lock, gzip.open(path, "at", encoding="utf-8") as file:
                        file.write(json.dumps(record.to_record(), separators=(",", ":")) + "\n")
                        added += 1
                    print(f"{record.run_id} {record.job}", flush=True)
                    if time.monotonic() > deadline_s:
                        return
        except StreamTuneError as error:  # one job that fails must not end the collection; it is drawn again next time
            print(f"visit {visit} of {missing[0].workload.name} ended early: {error}", flush=True)

    visits = range(-(-runs // RUNS_PER_VISIT))
    with (
        ThreadPoolExecutor(lanes) as pool,  # outermost: lanes end by themselves once the cluster is gone
        small_cluster(lanes) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        list(pool.map(lambda visit: work(visit, cluster.url, Path(folder)), visits))
    return added


def score(path: Path, seed: int) -> None:
    """Labels against the truth over the whole file."""
    counts: Counter[tuple[int, int]] = Counter()
    records = list(read(path))
    for record in records:
        visit, position = divmod(int(record.run_id.rsplit("-", 1)[1]), RUNS_PER_VISIT)
        labels = label_observation(record.dataflow, observation_of(record))
        counts.update((labels[key], short) for key, short in draw_visit(visit, seed)[position].truth.items())
    labelled = sum(count for (label, _), count in counts.items() if label >= 0)
    print(f"{len(records)} runs of {len({record.job for record in records})} jobs, {sum(counts.values())} operators")
    print(f"labelled: {labelled}; as bottleneck {counts[1, 1] + counts[1, 0]}, of them truly short {counts[1, 1]}")
    print(f"labelled as none: {counts[0, 0] + counts[0, 1]}, of them truly short {counts[0, 1]}")


def observation_of(record: Run) -> Observation:
    from streamtune.dataflow import OperatorMetrics

    nan = float("nan")
    fields = (
        "records_in_per_s",
        "records_out_per_s",
        "busy_ms_per_s",
        "idle_ms_per_s",
        "backpressured_ms_per_s",
    )
    operators = {}
    for one in record.operators:
        values = {name: getattr(one, name) for name in fields}
        operators[one.id] = OperatorMetrics(
            parallelism=one.parallelism, **{name: nan if value is None else value for name, value in values.items()}
        )
    return Observation(
        observed_at=record.observed_at,
        window_s=record.window_s,
        source_rates=record.source_rates,
        operators=operators,
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--runs", type=int, default=320)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--lanes", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="start no run after so long")
    arguments.add_argument("--out", type=Path, default=DATA)
    chosen = arguments.parse_args()
    start = time.monotonic()
    added = collect(chosen.out, chosen.runs, chosen.seed, chosen.lanes, chosen.seconds)
    took = time.monotonic() - start
    print(f"seed {chosen.seed}: {added} runs added in {took:.0f} s, {took / max(1, added):.1f} s per run")
    score(chosen.out, chosen.seed)


if __name__ == "__main__":
    main()
