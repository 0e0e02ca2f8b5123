"""How long a recommendation takes: over the operators of a job, and over the length of its history.

    python benchmarks/recommendation_speed.py [MODEL]

MODEL is a bundle with past operators ('streamtune pretrain'); without it one is made of 3,000 simulated runs and kept
in ``build/bench-speed``. Random jobs of 10 to 120 operators: making the tuner (assigning the model, finding relatives),
its first recommendation with nothing seen, then learning and recommending over 500 observations. Medians of five jobs
each, in ms; target: 60 operators under 50 ms the first time, which is making the tuner and its first recommendation
together, and under 10 ms after.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from streamtune.dataflow import Observation
from streamtune.engines.simulator import simulate_once
from streamtune.experiments.platform import Platform
from streamtune.models.assigned import AssignedModel
from streamtune.models.bundle import ModelBundle
from streamtune.tuners import StreamTune
from streamtune.workloads import Workload
from streamtune.workloads.random_jobs import random_job

RESULTS = Path(__file__).parent / "results" / "recommendation-speed.json"
SIZES = (10, 20, 40, 60, 90, 120)
JOBS = 5
OBSERVATIONS = 500
TARGET_SIZE = 60
_AT = datetime(2026, 1, 1, tzinfo=UTC)


def ms_since(start: float) -> float:
    return 1000 * (time.perf_counter() - start)


def measure(workload: Workload, bundle: ModelBundle) -> dict[str, float]:
    job, rates = workload.spec.job, workload.rates_at(5)
    nothing = Observation(observed_at=_AT, window_s=1.0, source_rates=rates, operators={})
    start = time.perf_counter()
    tuner = StreamTune(job, model=AssignedModel.of(bundle, job))
    made = ms_since(start)
    start = time.perf_counter()
    plan = tuner.recommend(nothing).plan
    first = ms_since(start)
    seen = [simulate_once(job, workload.physics, plan, workload.rates_at(3 + n % 5), seed=n) for n in range(10)]
    took = []
    for number in range(OBSERVATIONS):
        start = time.perf_counter()
        tuner.learn(seen[number % len(seen)])
        tuner.recommend(seen[number % len(seen)])
        took.append(ms_since(start))
    return {
        "make": made,
        "first": first,
        "make_and_first": made + first,
        "after": median(took[:50]),
        "after_500": median(took[-50:]),
    }


def told_against_target(rows: list[dict[str, float]]) -> list[str]:
    """Both targets, for the size they are of."""
    (row,) = [row for row in rows if row["operators"] == TARGET_SIZE]
    limits = {"make_and_first": 50.0, "after": 10.0, "after_500": 10.0}
    verdict = {key: "met" if row[key] <= limit else "missed" for key, limit in limits.items()}
    return [
        f"{verdict[key]}: {TARGET_SIZE} operators, {key} {row[key]:.1f} ms (target {limit:g})"
        for key, limit in limits.items()
    ]


def main() -> None:
    told = sys.argv[1:]
    bundle = ModelBundle.load(Path(told[0])) if told else Platform(runs=3_000).model(Path("build/bench-speed"), print)
    warm = random_job(1, 8).spec.job
    StreamTune(warm, model=AssignedModel.of(bundle, warm)).foresee(
        {}
    )  # what a process does once: compile, read the past
    rows = []
    for size in SIZES:
        found = [measure(random_job(900 + n, size, min_operators=size), bundle) for n in range(JOBS)]
        rows.append({"operators": size, **{key: round(median(one[key] for one in found), 2) for key in found[0]}})
        print(rows[-1], flush=True)
    past = 0 if bundle.transfer is None else len(bundle.transfer.past.job_rows)
    load = round(os.getloadavg()[0], 1)
    print("\n".join(told_against_target(rows)))
    print(f"{past} past jobs, load of the machine at the end {load}")
    RESULTS.write_text(json.dumps({"past_jobs": past, "load": load, "ms": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
