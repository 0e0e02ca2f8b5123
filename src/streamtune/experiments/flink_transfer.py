"""From simulation to a real Flink: what a simulated history adds to a few hundred real runs, on jobs held out.

The real runs are those of ``make flink-history``: jobs of the catalogue at the scale of one small machine. The
simulated ones are of the same kind of jobs at the same scale, none of which is among the real ones. Real jobs
are held out in four folds; every number is over jobs that no model in its row has seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamtune.dataflow import Job, Plan, Run
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import simulate_once
from streamtune.experiments.engine_history import RunFile, draw_on_engine
from streamtune.experiments.flink_jobs import LIMIT, small_workload
from streamtune.labs.histories import true_needs
from streamtune.models.splits import bucket
from streamtune.models.transfer.fitting import fit_transfer
from streamtune.models.transfer.model import Levels, TransferModel
from streamtune.readings.demand import input_rates
from streamtune.training.sums import past_of_runs
from streamtune.tuners.streamtune.estimator import Situation
from streamtune.tuners.streamtune.foresight import foresee
from streamtune.tuners.streamtune.posterior import PosteriorEstimator
from streamtune.tuners.streamtune.settings import StreamTuneSettings
from streamtune.workloads import Workload, names

FOLDS = 4


def real_runs(path: Path) -> list[Run]:
    return list(RunFile(path, "flink", 0).read())


def simulated_runs(count: int, seen: set[str], seed: int = 0) -> list[Run]:
    """Runs of jobs that are not among the real ones, at the scale of the real machine."""
    jobs = [name for name in names() if name not in seen] + [f"random-{n}" for n in range(100, 260)]
    found = []
    for number in range(count):
        rng = np.random.default_rng([seed, 31, number])
        workload = small_workload(jobs[int(rng.integers(len(jobs)))])
        drawn = draw_on_engine(number, workload, LIMIT, rng)
        observed = simulate_once(
            workload.spec.job,
            workload.physics,
            drawn.plan,
            drawn.rates,
            window=MeasurementWindow(60.0, 60.0),
            seed=number,
        )
        found.append(Run.of(f"simulated-{number:06d}", workload.spec.job, "simulator", observed))
    return found


def fold_of(job: str) -> int:
    return bucket(f"real:{job}", FOLDS)


@dataclass(frozen=True)
class FirstPlan:
    """A first plan of a held-out job, by what its operators truly need."""

    job: str
    clean: bool
    total: int
    needed: int
    log_errors: tuple[float, ...]


def model_of(history: Sequence[Run]) -> TransferModel:
    """What a history's past operators teach."""
    past = past_of_runs(history)
    return TransferModel(fit_transfer(past), past)


def first_plans(
    model: TransferModel, jobs: Sequence[str], multiples: Sequence[float], certainty: float | None = None
) -> list[FirstPlan]:
    """First plans of jobs that the model's history does not hold."""
    return [_first_plan(model, small_workload(name), multiple, certainty) for name in jobs for multiple in multiples]


def plan_by(model: TransferModel, job: Job, rates: Mapping[str, float], certainty: float | None = None) -> Plan:
    """The first plan of a job by what a history taught."""
    prior = model.prior(job, "global", Levels())
    settings = StreamTuneSettings()
    estimator = PosteriorEstimator(job, settings, None, prior)
    usual = {key: math.exp(one.log_selectivity) for key, one in prior.items()}
    demand = input_rates(job.dataflow, usual, rates)
    chosen = foresee(job, estimator, Situation(rates, demand, {}), prior, certainty or settings.first_certainty)
    return Plan({**job.initial_plan, **chosen.degrees})


def _first_plan(model: TransferModel, workload: Workload, multiple: float, certainty: float | None) -> FirstPlan:
    job, rates = workload.spec.job, workload.rates_at(multiple)
    plan, needs = plan_by(model, job, rates, certainty), true_needs(workload, rates)
    inner = [operator.id for operator in job.dataflow.operators if not operator.is_source]
    errors = [math.log(plan[key] / needs[key]) for key in inner if needs[key] > 1]
    return FirstPlan(
        job.name,
        all(plan[key] >= needs[key] for key in inner),
        sum(plan[key] for key in inner),
        sum(needs[key] for key in inner),
        tuple(errors),
    )
