"""Capacity curves by operator type from a history: sums per operator where the data is, then one task per type."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streamtune.history.flatten import floats
from streamtune.history.graphs import graph_columns, operator_values
from streamtune.history.label import ENGINE_COLUMNS, LABEL_METRICS, busy_resolution, operator_batch
from streamtune.history.schema import DAY
from streamtune.history.split import TRAIN
from streamtune.history.store import History
from streamtune.models.capacity import CapacityPrior, TypePrior
from streamtune.models.capacity.belief import WEIGHTS, reading_basis
from streamtune.models.capacity.prior import CurveSums, fit_type
from streamtune.readings import LabelSettings, label_batch
from streamtune.readings.capacity import read_capacity
from streamtune.readings.labels import BOTTLENECK

_FIELDS = ("type", "parallelism", "busy_max_ms_per_s", *LABEL_METRICS)
_COLUMNS = graph_columns("run_id", "job", *ENGINE_COLUMNS, DAY, operators=_FIELDS)
_KEYS = ("type", "job", "operator")
_XX = [f"xx{i}{j}" for i in range(WEIGHTS) for j in range(i, WEIGHTS)]
_XY = [f"xy{i}" for i in range(WEIGHTS)]
_SUMS = (*_XX, *_XY, "yy", "count", "saturated", "saturated_busy")
_SUM_SCHEMA = ", ".join([*(f"{key} string" for key in _KEYS), *(f"{name} double" for name in _SUMS)])
# Readings whose resolution alone makes a larger error than this would only blur the curve.
_COARSEST = 0.1
# A type that was observed saturated less often than this keeps busy time as reported.
_LEAST_SATURATED = 5


def capacity_prior(history: History, engine: str, settings: LabelSettings | None = None) -> CapacityPrior:
    """The prior of each operator type in the training part of a history."""
    training = history.features.read().where(sql.col("split") == TRAIN).select("run_id")
    runs = history.runs.read(columns=_COLUMNS).where(sql.col("engine") == engine).join(training, "run_id", "left_semi")
    sums = operator_sums(runs, settings or LabelSettings())
    fitted = sums.groupBy("type").applyInArrow(_fit, "type string, prior string, busy double")
    rows = sorted(fitted.toLocalIterator(), key=lambda row: str(row["type"]))
    return CapacityPrior(
        types={row["type"]: TypePrior.model_validate_json(row["prior"]) for row in rows if row["prior"]},
        saturated_busy={row["type"]: row["busy"] for row in rows if row["busy"] is not None},
    )


def operator_sums(runs: DataFrame, settings: LabelSettings) -> DataFrame:
    """One row per operator of a job: sums over all its readings."""
    task = partial(_sum_batches, settings=settings)
    parts = runs.select(*_COLUMNS.fieldNames()).mapInArrow(task, _SUM_SCHEMA)
    return parts.groupBy(*_KEYS).agg(*(sql.sum(name).alias(name) for name in _SUMS))


def _sum_batches(batches: Iterator[pa.RecordBatch], settings: LabelSettings) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        metrics = operator_batch(batch)
        resolution = busy_resolution(batch)[metrics.run]
        keys = pa.table(
            {
                "type": operator_values(batch, "type"),
                "job": pc.take(batch.column("job"), pa.array(metrics.run)),
                "operator": operator_values(batch, "id"),
            }
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            total = metrics.busy_ms_per_s + metrics.idle_ms_per_s + metrics.backpressured_ms_per_s
            busy = metrics.busy_ms_per_s / total
            blocked = metrics.backpressured_ms_per_s / total
        is_bottleneck = label_batch(metrics, settings) == BOTTLENECK
        busiest = floats(operator_values(batch, "busy_max_ms_per_s")) / 1000
        readings = read_capacity(metrics.records_in_per_s, busy, busiest, blocked, is_bottleneck, resolution)
        rows = reading_basis(floats(operator_values(batch, "parallelism")), readings.is_saturated)
        fine = readings.resolution_sd <= _COARSEST
        usable = readings.is_known & fine & ~readings.is_cut & ~metrics.is_source
        values = np.where(usable, readings.log_capacity, 0.0)
        rows = np.where(usable[:, None], rows, 0.0)
        saturated = is_bottleneck & np.isfinite(busy) & (busy > 0)
        columns = {f"xx{i}{j}": rows[:, i] * rows[:, j] for i in range(WEIGHTS) for j in range(i, WEIGHTS)}
        columns |= {f"xy{i}": rows[:, i] * values for i in range(WEIGHTS)}
        columns |= {"yy": values * values, "count": usable.astype(float), "saturated": saturated.astype(float)}
        columns["saturated_busy"] = np.where(saturated, busy, 0.0)
        for name, column in columns.items():
            keys = keys.append_column(name, pa.array(column))
        summed = keys.group_by(list(_KEYS)).aggregate([(name, "sum") for name in _SUMS])
        yield from summed.rename_columns([*_KEYS, *_SUMS]).combine_chunks().to_batches()


def _fit(operators: pa.Table) -> pa.Table:
    """One operator type: all its operators, in an order that does not depend on Spark's."""
    operators = operators.sort_by([("job", "ascending"), ("operator", "ascending")])

    def column(name: str) -> npt.NDArray[np.float64]:
        return np.asarray(operators.column(name).to_numpy(), dtype=np.float64)

    xx = np.empty((operators.num_rows, WEIGHTS, WEIGHTS))
    for i in range(WEIGHTS):
        for j in range(i, WEIGHTS):
            xx[:, i, j] = xx[:, j, i] = column(f"xx{i}{j}")
    sums = CurveSums(xx, np.stack([column(name) for name in _XY], axis=1), column("yy"), column("count"))
    prior = fit_type(sums.where(sums.count > 0)).model_dump_json() if (sums.count > 0).any() else None
    saturated = float(column("saturated").sum())
    busy = float(f"{column('saturated_busy').sum() / saturated:.8g}") if saturated >= _LEAST_SATURATED else None
    return pa.table(
        {
            "type": pa.array([operators.column("type")[0].as_py()], pa.string()),
            "prior": pa.array([prior], pa.string()),
            "busy": pa.array([busy], pa.float64()),
        }
    )
