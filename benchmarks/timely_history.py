"""Collects labelled runs on a real Timely Dataflow: Nexmark Q3, Q5, Q8 and random jobs, at rates this machine can run.

    python benchmarks/timely_history.py --runs 240 --lanes 3
    streamtune history ingest my-history benchmarks/data/timely/runs.jsonl.gz
    streamtune history label my-history && streamtune history featurise my-history
    streamtune pretrain my-history --engine timely --out model

Rates are uniform in (1, 10)·W_u without the multiples that tuning is tested on; half of the plans are random, half near
what the operators need (StreamTune Section V-A, and ``streamtune history generate``). Run number i is drawn from the
seed and i alone. A run that is in the file already is not repeated, so the script may be stopped and started again;
``--seconds`` ends it in time. Lanes are jobs side by side: they sleep most of the time, but not all of it.

Prints how long it took and how the labels compare with the truth, which only this experiment knows.
"""

from __future__ import annotations

import argparse
import gzip
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamtune.dataflow import ParallelismPlan, Run
from streamtune.dataflow.demand import input_rates
from streamtune.dataflow.physics import smallest_parallelism
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.timely import TimelyEngine, TimelySettings
from streamtune.labels import label_observation
from streamtune.workloads import Workload, cycle, timely

ROOT = Path(__file__).parents[1]
DATA = ROOT / "benchmarks" / "data" / "timely" / "runs.jsonl.gz"
RANDOM_JOBS = 40
RANDOM_SHARE = 0.5
NEAR_SHARE = 0.5
LARGEST_RANDOM_DEGREE = 10
KEEP_AWAY = 0.02
WINDOW = MeasurementWindow(settle_s=4.0, length_s=10.1)


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


def draw(number: int, seed: int) -> Experiment:
    rng = np.random.default_rng([seed, number])
    queries = timely.names()
    is_random = rng.random() < RANDOM_SHARE
    name = f"random-{rng.integers(RANDOM_JOBS)}" if is_random else queries[rng.integers(len(queries))]
    workload = timely.load(name)
    rates = {source: unit * _multiple(rng) for source, unit in workload.units.items()}
    bare = Experiment(number, workload, rates, workload.spec.job.initial_plan)
    near = rng.random() < NEAR_SHARE
    degrees = _near(bare, rng) if near else _anything(bare, rng)
    kept = {source.id: bare.plan[source.id] for source in workload.spec.job.dataflow.sources}
    return Experiment(number, workload, rates, ParallelismPlan({**degrees, **kept}))


def _multiple(rng: np.random.Generator) -> float:
    while True:
        multiple = float(rng.uniform(1, 10))
        if min(abs(multiple - tested) for tested in cycle()) > KEEP_AWAY:
            return multiple


def _near(bare: Experiment, rng: np.random.Generator) -> dict[str, int]:
    limit = bare.workload.spec.job.max_parallelism
    needs = {
        key: smallest_parallelism(bare.workload.physics[key], rate, limit) or limit for key, rate in bare.demand.items()
    }
    return {
        key: int(np.clip(round(need * rng.lognormal(0.0, 0.2)) + rng.integers(-1, 2), 1, limit))
        for key, need in needs.items()
    }


def _anything(bare: Experiment, rng: np.random.Generator) -> dict[str, int]:
    return {key: int(rng.integers(1, LARGEST_RANDOM_DEGREE + 1)) for key in bare.plan}


def run_id(number: int, seed: int) -> str:
    return f"timely-{seed}-{number:06d}"


def run(experiment: Experiment, seed: int) -> tuple[Run, dict[str, int]]:
    """Deploy, observe once, stop."""
    job = experiment.workload.spec.job
    with TimelyEngine.of(experiment.workload.spec, settings=TimelySettings(seed=experiment.number)) as engine:
        deployment = engine.deploy(job, experiment.plan)
        engine.set_source_rates(deployment, experiment.rates)
        seen = engine.observe(deployment, WINDOW)
    record = Run.of(run_id(experiment.number, seed), job, "timely", seen)
    return record, label_observation(job.dataflow, seen, engine="timely")


def read(path: Path) -> Iterator[Run]:
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from (Run.model_validate_json(line) for line in lines)


def collect(path: Path, runs: int, seed: int, lanes: int, seconds: float) -> int:
    """Add the missing runs, in order, until done or out of time; how many were added."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {record.run_id for record in read(path)}
    missing = [number for number in range(runs) if run_id(number, seed) not in known]
    deadline_s, lock = time.monotonic() + seconds, threading.Lock()
    added = 0

    def work(number: int) -> None:
        nonlocal added
        if time.monotonic() > deadline_s:
            return
        experiment = draw(number, seed)
        record, labels = run(experiment, seed)
        with lock, gzip.open(path, "at", encoding="utf-8") as file:
            file.write(json.dumps(record.to_record(), separators=(",", ":")) + "\n")
            added += 1
        print(f"{record.run_id} {record.job}: {sum(value == 1 for value in labels.values())} bottlenecks", flush=True)

    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(work, missing))
    return added


def score(path: Path, seed: int) -> None:
    """Labels against the truth over the whole file."""
    counts: Counter[tuple[int, int]] = Counter()
    records = list(read(path))
    for record in records:
        experiment = draw(int(record.run_id.rsplit("-", 1)[1]), seed)
        labels = _labels(record)
        counts.update((labels[key], short) for key, short in experiment.truth.items())
    ones = counts[1, 1] + counts[1, 0]
    short = sum(count for (_, truth), count in counts.items() if truth)
    print(f"{len(records)} runs of {len({record.job for record in records})} jobs, {sum(counts.values())} operators")
    print(f"labelled 1: {ones}, of them truly short {counts[1, 1]}; truly short: {short}, found {counts[1, 1]}")


def _labels(record: Run) -> dict[str, int]:
    from streamtune.dataflow import Observation, OperatorMetrics

    nothing = float("nan")
    fields = ("parallelism", "records_in_per_s", "records_out_per_s")
    operators = {
        one.id: OperatorMetrics(
            **{name: getattr(one, name) for name in fields},
            busy_ms_per_s=nothing,
            idle_ms_per_s=nothing,
            backpressured_ms_per_s=nothing,
        )
        for one in record.operators
    }
    seen = Observation(
        observed_at=record.observed_at,
        window_s=record.window_s,
        source_rates=record.source_rates,
        operators=operators,
    )
    return label_observation(record.dataflow, seen, engine="timely")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--runs", type=int, default=240)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--lanes", type=int, default=3)
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
