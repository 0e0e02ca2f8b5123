"""A small model bundle, made without Spark from runs of the simulator."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from streamtune.dataflow import Job, Run
from streamtune.labs.histories import Experiment, draw, observe
from streamtune.labs.settings import GenerateSettings
from streamtune.models.bundle import Centre, MemberFiles, write_bundle
from streamtune.models.capacity import CapacityPrior
from streamtune.models.capacity.belief import reading_basis
from streamtune.models.capacity.prior import CurveSums, fit_type
from streamtune.models.encoder import NetworkSettings, TrainingSettings
from streamtune.models.encoder.pretraining import fit_encoder
from streamtune.models.features import CATEGORIES, NUMBERS, STATIC_NUMBERS, FeatureEncoder, OperatorColumns
from streamtune.models.transfer.fitting import fit_transfer
from streamtune.models.transfer.model import TransferModel
from streamtune.models.transfer.settings import PastSettings
from streamtune.readings import label_observation
from streamtune.readings.capacity import read_capacity
from streamtune.training.sums import past_of_runs

RUNS = 240
GENERATION = GenerateSettings(runs=RUNS, settle_s=60, window_s=30, random_jobs=20)
TRAINING = TrainingSettings(network=NetworkSettings(width=8, iterations=1), epochs=6, batch_runs=32)


def write_small_model(path: Path) -> None:
    experiments = [draw(number, GENERATION) for number in range(RUNS)]
    columns, rows = [], []
    readings: dict[str, list[tuple[str, int, float, bool]]] = defaultdict(list)
    for experiment in experiments:
        job = experiment.workload.spec.job
        seen = observe(experiment, GENERATION)
        labels = label_observation(job.dataflow, seen)
        selectivities = {
            key: m.records_out_per_s / m.records_in_per_s for key, m in seen.operators.items() if m.records_in_per_s > 0
        }
        columns.append(OperatorColumns.of(job.dataflow, seen.source_rates, selectivities))
        rows.append((experiment, job, labels))
        for operator in job.dataflow.operators:
            m = seen.operators[operator.id]
            found = read_capacity(
                [m.records_in_per_s],
                [m.busy_share],
                [(m.busy_max_ms_per_s or 0) / 1000],
                [m.backpressured_share],
                [labels[operator.id] == 1],
            )
            if found.is_known[0] and not operator.is_source:
                place = f"{job.name}/{operator.id}"
                readings[operator.type].append(
                    (place, m.parallelism, float(found.log_capacity[0]), bool(found.is_saturated[0]))
                )
    features = _fit_features(columns)
    table = pa.Table.from_pylist([_row(*row, one, features) for row, one in zip(rows, columns, strict=True)])
    half = table.slice(0, RUNS // 2)
    files = [
        fit_encoder("global", table, half, features, TRAINING, warmup_runs=60),
        fit_encoder("cluster-0", table, half, features, TRAINING, warmup_runs=60),
    ]
    centre = Centre.of(experiments[0].workload.spec.job.dataflow)
    files[1] = MemberFiles(files[1].member, files[1].weights, files[1].warmup, centre)
    write_bundle(
        path,
        features,
        files,
        engine="simulator",
        transfer=_transfer(experiments),
        data={"runs": RUNS, "jobs": len({row[1].name for row in rows})},
        settings={},
        capacity=CapacityPrior(
            types={kind: _fit_curve(found) for kind, found in readings.items()}, saturated_busy={"filter": 0.97}
        ),
    )


def _transfer(experiments: list[Experiment]) -> TransferModel:
    """The past operators of these runs, by the code that Spark's tasks run."""
    past = past_of_runs(
        Run.of(f"{one.number}", one.workload.spec.job, "simulator", observe(one, GENERATION)) for one in experiments
    )
    return TransferModel(fit_transfer(past, settings=PastSettings(kin_sample=20)), past)


def _fit_curve(found: list[tuple[str, int, float, bool]]):  # type: ignore[no-untyped-def]
    places = {place: number for number, place in enumerate(dict.fromkeys(row[0] for row in found))}
    basis = reading_basis([row[1] for row in found], [row[3] for row in found])
    return fit_type(CurveSums.of([places[row[0]] for row in found], basis, np.array([row[2] for row in found])))


def _fit_features(columns: list[OperatorColumns]) -> FeatureEncoder:
    values = {name: {v for one in columns for v in one.categories[name].values} for name in CATEGORIES}
    ranges = {}
    for name in NUMBERS:
        found = np.concatenate(
            [one.numbers[name] if name in STATIC_NUMBERS else one.rates({})[name] for one in columns]
        )
        found = found[np.isfinite(found)]
        ranges[name] = (float(found.min()), float(found.max()))
    return FeatureEncoder.fit(values, ranges, {"filter": 0.45, "window_aggregate": 0.1})


def _row(
    experiment: Experiment, job: Job, labels: dict[str, int], columns: OperatorColumns, features: FeatureEncoder
) -> dict[str, object]:
    edges = np.array(job.dataflow.edge_indices).reshape(-1, 2)
    return {
        "run_id": f"run-{experiment.number:04d}",
        "job": job.name,
        "codes": features.codes(columns).ravel().tolist(),
        "numbers": features.numbers(columns).ravel().tolist(),
        "parallelism": [experiment.plan[key] for key in job.dataflow.index],
        "labels": [labels[key] for key in job.dataflow.index],
        "edge_source": edges[:, 0].tolist(),
        "edge_target": edges[:, 1].tolist(),
    }
