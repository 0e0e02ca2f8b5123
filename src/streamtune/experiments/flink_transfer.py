"""From simulation to a real Flink: what a simulated history adds to a few hundred real runs, on jobs held out.

The real runs are those of ``make flink-history``: jobs of the catalogue at the scale of one small machine. The
simulated ones are of the same kind of jobs at the same scale, none of which is among the real ones. Real jobs
are held out in four folds; every number is over jobs that no model in its row has seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streamtune.dataflow import Job, Plan, Run
from streamtune.dataflow.features import CATEGORIES, STATIC_NUMBERS
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import simulate_once
from streamtune.experiments.bottleneck_models import LabelledRuns, boosted, encoder_scores
from streamtune.experiments.engine_history import RunFile, draw_on_engine
from streamtune.experiments.flink_jobs import LIMIT, small_workload
from streamtune.labs.histories import true_needs
from streamtune.models.encoder import TrainingSettings, train
from streamtune.models.encoder.evaluation import Scores
from streamtune.models.encoder.tables import graphs_of
from streamtune.models.features import NUMBERS, FeatureEncoder, OperatorColumns
from streamtune.models.splits import bucket
from streamtune.models.transfer.fitting import fit_transfer
from streamtune.models.transfer.model import Levels, TransferModel
from streamtune.readings import label_observation
from streamtune.readings.demand import input_rates
from streamtune.readings.selectivity import selectivity
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
class Described:
    """A run with its raw features and labels, before any encoder is fitted."""

    run: Run
    columns: OperatorColumns
    labels: dict[str, int]

    @classmethod
    def of(cls, run: Run) -> Described:
        seen = run.observation
        ratios = {key: selectivity(one, math.nan) for key, one in seen.operators.items()}
        columns = OperatorColumns.of(run.dataflow, run.source_rates, ratios)
        return cls(run, columns, label_observation(run.dataflow, seen))


def fit_features(some: Sequence[Described]) -> FeatureEncoder:
    values = {name: {v for one in some for v in one.columns.categories[name].values} for name in CATEGORIES}
    ranges = {}
    for name in NUMBERS:
        found = np.concatenate(
            [one.columns.numbers[name] if name in STATIC_NUMBERS else one.columns.rates({})[name] for one in some]
        )
        found = found[np.isfinite(found)]
        if len(found):
            ranges[name] = (float(found.min()), float(found.max()))
    return FeatureEncoder.fit(values, ranges, {})


def labelled(some: Sequence[Described], encoder: FeatureEncoder) -> LabelledRuns:
    """Runs as the models take them, with the true need of every operator that is tuned."""
    some = sorted(some, key=lambda one: one.run.run_id)
    rows, needed, total = [], [], []
    for one in some:
        flow = one.run.dataflow
        edges = np.array(flow.edge_indices).reshape(-1, 2)
        rows.append(
            {
                "run_id": one.run.run_id,
                "job": one.run.job,
                "codes": encoder.codes(one.columns).ravel().tolist(),
                "numbers": encoder.numbers(one.columns).ravel().tolist(),
                "parallelism": [operator.parallelism for operator in one.run.operators],
                "labels": [one.labels[key] for key in flow.index],
                "edge_source": edges[:, 0].tolist(),
                "edge_target": edges[:, 1].tolist(),
            }
        )
        needs = true_needs(small_workload(one.run.job), dict(one.run.source_rates))
        needed += [math.nan if operator.is_source else float(needs[operator.id]) for operator in flow.operators]
        total.append(sum(one.run.source_rates.values()))
    return LabelledRuns(graphs_of(pa.Table.from_pylist(rows), encoder), np.array(needed), np.array(total))


def _encoded(
    training: LabelledRuns, testing: LabelledRuns, settings: TrainingSettings, start: dict[str, Any] | None = None
) -> Scores:
    return encoder_scores(train(training.graphs, settings, start=start), testing)


def encoder_rows(
    simulated: Sequence[Described], real: Sequence[Described], tell: Callable[[str], None]
) -> dict[str, list[Scores]]:
    """AUC-PR and threshold error of each way to train, fold by fold."""
    common = fit_features([*simulated, *real])
    settings = TrainingSettings()
    many = labelled(simulated, common)
    tell("an encoder of the simulated history")
    by_simulation = train(many.graphs, settings)
    found: dict[str, list[Scores]] = {}
    for fold in range(FOLDS):
        tell(f"fold {fold + 1} of {FOLDS}")
        kept = [one for one in real if fold_of(one.run.job) != fold]
        testing = labelled([one for one in real if fold_of(one.run.job) == fold], common)
        few = labelled(kept, common)
        both = labelled([*simulated, *kept], common)
        start = by_simulation.network.state_dict()
        rows: dict[str, Callable[[], Scores]] = {
            "encoder, real runs only": partial(_encoded, few, testing, settings),
            "encoder, simulated only": partial(encoder_scores, by_simulation, testing),
            "encoder, simulated, then real": partial(_encoded, few, testing, settings, start=start),
            "XGBoost with demand, real only": partial(boosted, few, testing, statistics=False),
            "XGBoost with demand, both": partial(boosted, both, testing, statistics=False),
        }
        for label, make in rows.items():
            found.setdefault(label, []).append(make())
    return found


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
