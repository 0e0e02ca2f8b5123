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

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from streamtune.dataflow import Run
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.timely import TimelyEngine, TimelySettings
from streamtune.experiments.engine_history import RunFile, collect_from_command_line, draw_name, draw_on_engine
from streamtune.labs.histories import Experiment
from streamtune.workloads import timely

DATA = Path(__file__).parent / "data" / "timely" / "runs.jsonl.gz"
RANDOM_JOBS = 40
RANDOM_SHARE = 0.5
LARGEST_RANDOM_DEGREE = 10
WINDOW = MeasurementWindow(settle_s=4.0, length_s=10.1)


def draw(number: int, seed: int) -> Experiment:
    rng = np.random.default_rng([seed, number])
    workload = timely.load(draw_name(timely.names(), RANDOM_JOBS, RANDOM_SHARE, rng))
    return draw_on_engine(number, workload, LARGEST_RANDOM_DEGREE, rng)


def run(experiment: Experiment, run_id: str) -> Run:
    """Deploy, observe once, stop."""
    job = experiment.workload.spec.job
    with TimelyEngine.of(experiment.workload.spec, settings=TimelySettings(seed=experiment.number)) as engine:
        deployment = engine.deploy(job, experiment.plan)
        engine.set_source_rates(deployment, experiment.rates)
        return Run.of(run_id, job, "timely", engine.observe(deployment, WINDOW))


def collect(file: RunFile, runs: int, lanes: int, deadline_s: float) -> None:
    """Add the missing runs, in order, until done or out of time."""
    known = file.known()

    def work(number: int) -> None:
        if time.monotonic() < deadline_s:
            file.add(run(draw(number, file.seed), file.run_id(number)))

    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(work, [number for number in range(runs) if file.run_id(number) not in known]))


def truth(seed: int, number: int) -> Mapping[str, bool]:
    return draw(number, seed).truly_short()


if __name__ == "__main__":
    collect_from_command_line(__doc__.splitlines()[0], "timely", (240, 3, DATA), collect, truth)
