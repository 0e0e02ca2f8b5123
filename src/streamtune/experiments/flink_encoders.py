"""Encoders from simulation to a real Flink: bottlenecks and thresholds on real jobs that were held out.

Encoders of real runs alone, of simulated ones alone, and of simulated ones that go on with the real ones are compared
with XGBoost, fold by fold over jobs. Features are fitted on what a way trains on, never on what it is scored on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamtune.dataflow import Run
from streamtune.dataflow.features import CATEGORIES, STATIC_NUMBERS
from streamtune.experiments.bottleneck_models import Judged, LabelledRuns, boosted_judged, encoder_judged
from streamtune.experiments.flink_jobs import LIMIT, small_workload
from streamtune.experiments.flink_transfer import FOLDS, fold_of
from streamtune.labs.histories import true_needs
from streamtune.models.encoder import Trained, TrainingSettings, train
from streamtune.models.encoder.tables import graphs_of
from streamtune.models.features import NUMBERS, FeatureEncoder, OperatorColumns
from streamtune.readings import label_observation
from streamtune.readings.selectivity import selectivity

DRAWS = 400
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Described:
    """A run with its raw features, its labels, and the true need of every operator that is tuned (else NaN)."""

    run: Run
    columns: OperatorColumns
    labels: dict[str, int]
    needed: tuple[float, ...]

    @classmethod
    def of(cls, run: Run) -> Described:
        seen = run.observation
        ratios = {key: selectivity(one, math.nan) for key, one in seen.operators.items()}
        columns = OperatorColumns.of(run.dataflow, run.source_rates, ratios)
        needs = true_needs(small_workload(run.job), dict(run.source_rates))
        needed = tuple(math.nan if one.is_source else float(needs[one.id]) for one in run.dataflow.operators)
        return cls(run, columns, label_observation(run.dataflow, seen), needed)


Way = Callable[[Sequence[Described], Sequence[Described]], Judged]


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


def by_id(some: Sequence[Described]) -> list[Described]:
    return sorted(some, key=lambda one: one.run.run_id)


def labelled(some: Sequence[Described], encoder: FeatureEncoder) -> LabelledRuns:
    """Runs as the models take them: in the order of their ids, as ``graphs_of`` sorts them."""
    some, rows = by_id(some), []
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
    needed = np.array([need for one in some for need in one.needed])
    total = np.array([sum(one.run.source_rates.values()) for one in some])
    return LabelledRuns(graphs_of(pa.Table.from_pylist(rows), encoder), needed, total)


@dataclass(frozen=True)
class Side:
    """What a way trains on, with features fitted on it."""

    encoder: FeatureEncoder
    runs: LabelledRuns

    @classmethod
    def of(cls, some: Sequence[Described], encoder: FeatureEncoder | None = None) -> Side:
        chosen = encoder or fit_features(some)
        return cls(chosen, labelled(some, chosen))


def gone_on(start: Trained, runs: LabelledRuns, settings: TrainingSettings) -> Trained:
    """Training goes on from a network; the network itself where its validation jobs saw nothing better."""
    found = train(runs.graphs, settings, start=start.network.state_dict())
    return found if found.epochs else start


def ways(simulated: Side, by_simulation: Trained, many: Sequence[Described]) -> dict[str, Way]:
    """Each way takes the real runs that it may learn from and those that it is judged on."""
    settings = TrainingSettings()

    def real_only(kept: Sequence[Described], held_out: Sequence[Described]) -> Judged:
        few = Side.of(kept)
        return encoder_judged(train(few.runs.graphs, settings), labelled(held_out, few.encoder), LIMIT)

    def simulated_only(_kept: Sequence[Described], held_out: Sequence[Described]) -> Judged:
        return encoder_judged(by_simulation, labelled(held_out, simulated.encoder), LIMIT)

    def then_real(kept: Sequence[Described], held_out: Sequence[Described]) -> Judged:
        trained = gone_on(by_simulation, labelled(kept, simulated.encoder), settings)
        return encoder_judged(trained, labelled(held_out, simulated.encoder), LIMIT)

    def boosted_on(some: Sequence[Described], held_out: Sequence[Described]) -> Judged:
        side = Side.of(some)
        return boosted_judged(side.runs, labelled(held_out, side.encoder), statistics=False, limit=LIMIT)

    return {
        "encoder, real runs only": real_only,
        "encoder, simulated only": simulated_only,
        "encoder, simulated, then real": then_real,
        "XGBoost with demand, real runs only": boosted_on,
        "XGBoost with demand, simulated and real": lambda kept, held_out: boosted_on([*many, *kept], held_out),
    }


def judge_folds(real: Sequence[Described], rows: Mapping[str, Way], tell: Tell) -> dict[str, dict[str, Any]]:
    """Every way on every real job once, each by a model that has not seen the job; scored over all of them together."""
    folds = [by_id([one for one in real if fold_of(one.run.job) == fold]) for fold in range(FOLDS)]
    found: dict[str, list[Judged]] = {label: [] for label in rows}
    for number, held_out in enumerate(folds):
        tell(f"fold {number + 1} of {FOLDS}")
        kept = [one for one in real if fold_of(one.run.job) != number]
        for label, way in rows.items():
            found[label].append(way(kept, held_out))
    jobs = np.array([one.run.job for held_out in folds for one in held_out for _ in one.needed])
    return {label: summary(Judged.pooled(some), jobs) for label, some in found.items()}


def summary(judged: Judged, jobs: npt.NDArray[np.str_]) -> dict[str, Any]:
    """Scores over all held-out jobs, and between what they lie if other jobs of the kind had been held out (90 %).

    Nothing known is None, never zero.
    """
    names, of_row = np.unique(jobs, return_inverse=True)
    rows_of = [np.flatnonzero(of_row == number) for number in range(len(names))]
    rng = np.random.default_rng(22)
    drawn = []
    for _ in range(DRAWS):
        places = np.concatenate([rows_of[job] for job in rng.integers(len(names), size=len(names))])
        drawn.append(judged.rows(places).scores)
    scores = judged.scores
    return {
        "auc_pr": _known(scores.auc_pr),
        "auc_pr_between": _between([one.auc_pr for one in drawn]),
        "threshold_error": _known(scores.threshold_error),
        "threshold_error_between": _between([one.threshold_error for one in drawn]),
        "jobs": len(names),
        "labelled": scores.labelled,
        "bottlenecks": scores.bottlenecks,
    }


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _between(values: Sequence[float | None]) -> list[float] | None:
    found = [one for one in values if one is not None and not math.isnan(one)]
    return [float(np.quantile(found, share)) for share in (0.05, 0.95)] if found else None


def encoder_rows(simulated: Sequence[Described], real: Sequence[Described], tell: Tell) -> dict[str, dict[str, Any]]:
    """The whole comparison."""
    tell(f"an encoder of {len(simulated):,} simulated runs")
    side = Side.of(simulated)
    return judge_folds(real, ways(side, train(side.runs.graphs, TrainingSettings()), simulated), tell)
