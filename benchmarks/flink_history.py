"""Collects labelled runs on a real Flink: Nexmark, PQP and random jobs, at rates this machine can run.

    python benchmarks/flink_history.py --runs 320 --lanes 6
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

import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from streamtune.dataflow import Observation, Run
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.flink import FlinkEngine
from streamtune.errors import EngineError, StreamTuneError
from streamtune.experiments.engine_history import RunFile, collect_from_command_line, draw_name, draw_on_engine
from streamtune.experiments.flink_jobs import engine_on, small_cluster, small_workload
from streamtune.labs.histories import Experiment
from streamtune.workloads import names

DATA = Path(__file__).parent / "data" / "flink" / "runs.jsonl.gz"
RANDOM_JOBS = 60
RANDOM_SHARE = 0.4
LARGEST_RANDOM_DEGREE = 14
RUNS_PER_VISIT = 4
WINDOW = MeasurementWindow(settle_s=10.0, length_s=16.0)
PATIENCE = 8


def draw_visit(visit: int, seed: int) -> list[Experiment]:
    """The runs of one visit: one job, several plans and rates."""
    rng = np.random.default_rng([seed, visit])
    workload = small_workload(draw_name(names(), RANDOM_JOBS, RANDOM_SHARE, rng))
    first = visit * RUNS_PER_VISIT
    return [
        draw_on_engine(first + position, workload, LARGEST_RANDOM_DEGREE, rng) for position in range(RUNS_PER_VISIT)
    ]


def visit_job(engine: FlinkEngine, experiments: list[Experiment], file: RunFile) -> Iterator[Run]:
    """Deploy a job once and see it under every experiment."""
    job = experiments[0].workload.spec.job
    deployment = engine.deploy(job, experiments[0].plan)
    try:
        for experiment in experiments:
            if deployment.plan != experiment.plan:
                deployment = engine.rescale(deployment, experiment.plan)
            engine.set_source_rates(deployment, experiment.rates)
            yield Run.of(file.run_id(experiment.number), job, "flink", observe(engine, deployment))
    finally:
        engine.stop(deployment)


def observe(engine: FlinkEngine, deployment: Deployment) -> Observation:
    for _ in range(PATIENCE):
        seen = engine.observe(deployment, WINDOW)
        if isinstance(seen, Observation):
            return seen
        time.sleep(seen.retry_after_s)
    raise EngineError(f"{deployment.job.name} gave no metrics: {seen.reason}")


def collect(file: RunFile, runs: int, lanes: int, deadline_s: float) -> None:
    """Add the missing runs until done or out of time."""
    known = file.known()

    def work(visit: int, url: str, folder: Path) -> None:
        missing = [one for one in draw_visit(visit, file.seed) if file.run_id(one.number) not in known]
        if not missing or time.monotonic() > deadline_s:
            return
        try:
            with engine_on(url, folder, missing[0].workload.spec) as engine:
                for record in visit_job(engine, missing, file):
                    file.add(record)
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


def truth(seed: int, number: int) -> Mapping[str, bool]:
    visit, position = divmod(number, RUNS_PER_VISIT)
    return draw_visit(visit, seed)[position].truly_short()


if __name__ == "__main__":
    collect_from_command_line(__doc__.splitlines()[0], "flink", (320, 6, DATA), collect, truth)
