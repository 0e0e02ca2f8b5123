"""How far a plan may be extrapolated: a job is seen at a part of the rate, and planned for the whole of it.

    python benchmarks/extrapolation.py [--jobs 40] [--past 3000]

Random jobs of the simulator that no other table is scored on, planned for 10·W_u after one look at 10/f·W_u under the
least plan that keeps up there, for factors f of 1 to 200; without any past and with that of a platform. Clean is what
the plan is on the simulator; the error is the mean of |log(planned / oracle)| over operators. The factor beyond which
``streamtune plan`` calls its answer a guess comes from here. Writes ``benchmarks/results/extrapolation.json``.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from streamtune.dataflow import Job, Plan
from streamtune.engines.simulator import SimulatorSettings, find_oracle, simulate_once
from streamtune.experiments.coldstart.jobs import platform
from streamtune.experiments.coldstart.light import LightModel, light_model
from streamtune.tuners import StreamTune, StreamTuneSettings
from streamtune.workloads import Workload, load

RESULTS = Path(__file__).parent / "results" / "extrapolation.json"
WORK = Path("build/extrapolation")
FACTORS = (1, 2, 5, 10, 20, 50, 100, 200)
# A platform and jobs of the validation part.
SEED, FIRST_JOB = 12, 5_100
TARGET = 10.0


@dataclass(frozen=True)
class Planned:
    clean: bool
    total: int
    oracle: int
    error: float


def extrapolated(
    workload: Workload, factor: float, make: Callable[[Job], StreamTune], simulator: SimulatorSettings
) -> Planned:
    """One look at a part of the rate, and the plan for the whole of it."""
    job, physics = workload.spec.job, workload.physics
    fixed = {source.id: job.initial_plan[source.id] for source in job.dataflow.sources}
    low, high = workload.rates_at(TARGET / factor), workload.rates_at(TARGET)
    seen = simulate_once(
        job, physics, find_oracle(job, physics, low, fixed=fixed).plan, low, settings=simulator, seed=SEED
    )
    tuner = make(job)
    tuner.learn(seen)
    found = tuner.first_plan(high)
    assert found is not None
    plan, oracle = Plan({**job.initial_plan, **found.degrees}), find_oracle(job, physics, high, fixed=fixed).plan
    clean = not simulate_once(job, physics, plan, high, settings=simulator, seed=SEED).has_backpressure
    error = mean(abs(math.log(plan[key] / oracle[key])) for key in found.degrees)
    return Planned(clean, plan.total, oracle.total, error)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--jobs", type=int, default=40)
    arguments.add_argument("--past", type=int, default=3_000, help="runs in the platform's history")
    chosen = arguments.parse_args()
    made = platform(SEED, chosen.past, 200)
    past = light_model(made, WORK, lambda text: print(text, flush=True))
    settings = StreamTuneSettings(use_encoder=False)
    makers: dict[str, Callable[[Job], StreamTune]] = {
        "one look": StreamTune,
        "one look and the past": lambda job: StreamTune(job, settings, model=LightModel(past, job)),
    }
    jobs = [load(f"random-{FIRST_JOB + number}") for number in range(chosen.jobs)]
    rows = []
    print("| known | factor | clean | total / oracle | error |")
    for label, make in makers.items():
        for factor in FACTORS:
            some = [extrapolated(workload, factor, make, made.simulator) for workload in jobs]
            row = {
                "known": label,
                "factor": factor,
                "clean": mean(one.clean for one in some),
                "over_oracle": sum(one.total for one in some) / sum(one.oracle for one in some),
                "error": mean(one.error for one in some),
            }
            rows.append(row)
            print(
                f"| {label} | {factor} | {row['clean']:.1%} | {row['over_oracle']:.3f} | {row['error']:.3f} |",
                flush=True,
            )
    found = {"jobs": chosen.jobs, "past_runs": chosen.past, "target": TARGET, "rows": rows}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
