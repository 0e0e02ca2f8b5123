"""One pass over a history: the sums of every operator's readings, made where the data is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from streamtune.dataflow import Run
from streamtune.dataflow.features import CATEGORIES, STATIC_NUMBERS
from streamtune.history.flatten import Ragged, floats
from streamtune.history.graphs import graph_columns, operator_values
from streamtune.history.label import ENGINE_COLUMNS, LABEL_METRICS, busy_resolution, operator_batch
from streamtune.history.schema import DAY
from streamtune.history.split import TRAIN
from streamtune.history.store import History
from streamtune.models.capacity.belief import WEIGHTS, reading_basis
from streamtune.models.transfer.past import MOST, TEXTS, PastOperators, signature
from streamtune.models.transfer.past import SCHEMA as PAST
from streamtune.models.transfer.past import SUMS as PAST_SUMS
from streamtune.readings import LabelSettings, label_batch
from streamtune.readings.capacity import read_capacity
from streamtune.readings.labels import BOTTLENECK
from streamtune.readings.selectivity import observed_selectivity
from streamtune.spark.schemas import nullable

_STATIC = (*CATEGORIES, *STATIC_NUMBERS)
_FIELDS = tuple(dict.fromkeys((*_STATIC, "parallelism", "busy_max_ms_per_s", *LABEL_METRICS)))
COLUMNS = graph_columns("run_id", "job", *ENGINE_COLUMNS, DAY, operators=_FIELDS)
SUMS = (*PAST_SUMS, "saturated", "saturated_busy")
_KEYS = (*TEXTS, "position", "trains")
_SCHEMA = ", ".join(
    [
        *(f"{name} string" for name in TEXTS),
        "position int",
        "trains boolean",
        "day string",
        *(f"{name} double" for name in (*SUMS, *MOST)),
    ]
)
# Readings whose resolution alone makes a larger error than this would only blur the curve.
_COARSEST = 0.1
_UNIT, _RECORD = "\x1f", "\x1e"


def operator_sums(history: History, engine: str, settings: LabelSettings | None = None) -> DataFrame:
    """One row per operator of each version of a job; ``trains`` tells the training part of the history."""
    split = history.features.read().select("run_id", (sql.col("split") == TRAIN).alias("trains"))
    runs = history.runs.read(columns=COLUMNS).where(sql.col("engine") == engine).join(split, "run_id")
    task = partial(_sum_batches, settings=settings or LabelSettings())
    parts = runs.select(*COLUMNS.fieldNames(), "trains").mapInArrow(task, _SCHEMA)
    return parts.groupBy(*_KEYS).agg(
        *(sql.sum(name).alias(name) for name in SUMS),
        *(sql.max(name).alias(name) for name in (*MOST, "day")),
    )


def latest(sums: DataFrame, most_jobs: int) -> DataFrame:
    """The operators of the versions that ran last."""
    versions = sums.groupBy("job", "version").agg(sql.max("day").alias("last"))
    kept = versions.orderBy(sql.desc("last"), sql.sha2(sql.col("version"), 256)).limit(most_jobs)
    return sums.join(kept.select("job", "version"), ["job", "version"], "left_semi")


def _sum_batches(batches: Iterator[pa.RecordBatch], settings: LabelSettings) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if len(batch):
            yield sum_batch(batch, settings)


def sum_batch(batch: pa.RecordBatch, settings: LabelSettings) -> pa.RecordBatch:
    """A batch by version of its jobs: as many rows as these have operators."""
    operators = Ragged.of(batch.column("operators"))
    code, first = _versions(batch, operators)
    sizes = operators.lengths[first]
    start = np.cumsum(sizes) - sizes
    position = np.arange(len(operators.row)) - (np.cumsum(operators.lengths) - operators.lengths)[operators.row]
    slot, slots = start[code[operators.row]] + position, int(sizes.sum())
    columns = _readings(batch, settings)
    made: dict[str, Any] = {
        name: np.bincount(slot, weights=columns[name], minlength=slots).astype(np.float64) for name in SUMS
    }
    for name in MOST:
        made[name] = np.zeros(slots)
        np.maximum.at(made[name], slot, columns[name])
    days = batch.column(DAY).cast(pa.string()).to_pylist()
    last = [max(days[run] for run in np.flatnonzero(code == number)) for number in range(len(first))]
    made["day"] = [day for day, size in zip(last, sizes, strict=True) for _ in range(size)]
    texts = [row for run in first for row in _described(batch, int(run))]
    for name in (*TEXTS, "position", "trains"):
        made[name] = [row[name] for row in texts]
    names = [*TEXTS, "position", "trains", "day", *SUMS, *MOST]
    kinds = [*[pa.string()] * len(TEXTS), pa.int32(), pa.bool_(), pa.string(), *[pa.float64()] * len((*SUMS, *MOST))]
    return pa.RecordBatch.from_arrays(
        [pa.array(made[name], type=kind) for name, kind in zip(names, kinds, strict=True)], names
    )


def past_of_runs(runs: Iterable[Run], settings: LabelSettings | None = None) -> PastOperators:
    """The same without Spark, for as many runs as fit one batch."""
    fields = to_arrow_schema(nullable(COLUMNS), timezone="UTC").append(pa.field("trains", pa.bool_()))
    schema = pa.schema([pa.field(DAY, pa.string()) if field.name == DAY else field for field in fields])
    rows = []
    for run in runs:
        rates = list(run.source_rates.items())
        rows.append(run.model_dump() | {DAY: f"{run.observed_at:%Y-%m-%d}", "trains": True, "source_rates": rates})
    summed = sum_batch(pa.RecordBatch.from_pylist(rows, schema=schema), settings or LabelSettings())
    return PastOperators(pa.Table.from_batches([summed]).select(PAST.names).cast(PAST))


def _versions(batch: pa.RecordBatch, operators: Ragged) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The number of each run's version of its job, and the first run of each: everything static is the same in it."""
    fields = [pc.cast(pc.struct_field(operators.values, name), pa.string()) for name in ("id", *_STATIC)]
    described = pc.binary_join_element_wise(*fields, _UNIT, null_handling="replace")
    edges = Ragged.of(batch.column("edges"))
    ends = [pc.struct_field(edges.values, name) for name in ("source", "target")]
    drawn = pc.binary_join_element_wise(*ends, _UNIT)
    parts = [batch.column("job"), _joined(described, operators.lengths), _joined(drawn, edges.lengths)]
    encoded = pc.binary_join_element_wise(*parts, _RECORD).dictionary_encode()
    code = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    _, first = np.unique(code, return_index=True)
    return code, first.astype(np.int64)


def _joined(values: Any, lengths: npt.NDArray[np.int64]) -> Any:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), values.cast(pa.string())), _RECORD)


def _described(batch: pa.RecordBatch, run: int) -> list[dict[str, Any]]:
    """The operators of one run as they are kept: names, Table I and inputs."""
    operators, edges = batch.column("operators")[run].as_py(), batch.column("edges")[run].as_py()
    job, trains = batch.column("job")[run].as_py(), batch.column("trains")[run].as_py()
    rows: list[dict[str, Any]] = [
        {
            "features": {name: one[name] for name in ("id", *_STATIC)},
            "inputs": [edge["source"] for edge in edges if edge["target"] == one["id"]],
        }
        for one in operators
    ]
    version = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]
    return [
        {
            "job": job,
            "version": version,
            "operator": row["features"]["id"],
            "type": row["features"]["type"],
            "signature": signature(row["features"]),
            "described": json.dumps(row, sort_keys=True),
            "position": position,
            "trains": bool(trains),
        }
        for position, row in enumerate(rows)
    ]


def _readings(batch: pa.RecordBatch, settings: LabelSettings) -> dict[str, npt.NDArray[np.float64]]:
    """What every operator of every run adds to its sums."""
    metrics = operator_batch(batch)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = metrics.busy_ms_per_s + metrics.idle_ms_per_s + metrics.backpressured_ms_per_s
        busy, blocked = metrics.busy_ms_per_s / total, metrics.backpressured_ms_per_s / total
    is_bottleneck = label_batch(metrics, settings) == BOTTLENECK
    busiest = floats(operator_values(batch, "busy_max_ms_per_s")) / 1000
    resolution = busy_resolution(batch)[metrics.run]
    readings = read_capacity(metrics.records_in_per_s, busy, busiest, blocked, is_bottleneck, resolution)
    parallelism = floats(operator_values(batch, "parallelism"))
    rows = reading_basis(parallelism, readings.is_saturated)
    fine = readings.resolution_sd <= _COARSEST
    usable = readings.is_known & fine & ~readings.is_cut & ~metrics.is_source
    values, rows = np.where(usable, readings.log_capacity, 0.0), np.where(usable[:, None], rows, 0.0)
    saturated = is_bottleneck & np.isfinite(busy) & (busy > 0)
    ratio = observed_selectivity(metrics.records_in_per_s, metrics.records_out_per_s)
    seen = ratio > 0  # false for NaN
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(seen, np.log(ratio), 0.0)
    columns = {f"xx{i}{j}": rows[:, i] * rows[:, j] for i in range(WEIGHTS) for j in range(i, WEIGHTS)}
    columns |= {f"xy{i}": rows[:, i] * values for i in range(WEIGHTS)}
    columns |= {"yy": values * values, "count": usable.astype(float), "saturated": saturated.astype(float)}
    columns |= {"ratio": ratio, "ratio_sq": ratio**2, "ratio_count": seen.astype(float), "runs": np.ones(len(seen))}
    columns["saturated_busy"] = np.where(saturated, busy, 0.0)
    columns["most_rate"] = np.nan_to_num(metrics.records_in_per_s)
    columns["most_parallelism"] = parallelism
    return columns
