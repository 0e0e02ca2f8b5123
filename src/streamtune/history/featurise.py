"""The step ``featurise``: runs → compact features, with an encoder that is fitted on the training part alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sql

from streamtune.dataflow.features import CATEGORIES, STATIC_NUMBERS
from streamtune.history.errors import HistoryError
from streamtune.history.flatten import Bools, floats, list_column
from streamtune.history.graphs import FlatGraphs, graph_columns, operator_values
from streamtune.history.schema import DAY, FEATURES
from streamtune.history.settings import FeaturiseSettings
from streamtune.history.split import TRAIN, split_of
from streamtune.history.store import History
from streamtune.models.features import NUMBERS, CategoryColumn, FeatureEncoder, OperatorColumns
from streamtune.readings.selectivity import observed_selectivity
from streamtune.spark.files import Files
from streamtune.spark.tables import Table

_FIELDS = (*CATEGORIES, *STATIC_NUMBERS, "records_in_per_s", "records_out_per_s")
_SUMMARY = "feature string, value string, low double, high double, total double, count double"
_SELECTIVITY = "selectivity"
_COLUMNS = graph_columns("run_id", "job", DAY, operators=(*_FIELDS, "parallelism"))
_FIT_COLUMNS = graph_columns("job", operators=_FIELDS)

_ENCODER = "encoder"


def encoder_path(history: History) -> str:
    """A copy of the encoder to look at; ``encoder_of`` gives the one that belongs to the stored features."""
    return f"{history.location}/encoder.json"


def encoder_of(history: History) -> FeatureEncoder:
    """The encoder by which the stored features were made; an older release kept it in a file alone."""
    kept = history.features.manifest().properties.get(_ENCODER)
    return FeatureEncoder.from_json(kept or Files(history.spark).read_text(encoder_path(history)))


def featurise(history: History, settings: FeaturiseSettings | None = None) -> FeatureEncoder:
    """Fit the encoder on the training part, apply it to all runs, and save both in one atomic step."""
    settings = settings or FeaturiseSettings()
    encoder = fit(history.runs, settings.test_share)
    work = partial(_encode, encoder=encoder, test_share=settings.test_share)
    features = history.runs.map_batches(work, _COLUMNS, FEATURES)
    history.features.replace(features, "featurise", properties={_ENCODER: encoder.to_json()})
    files = Files(history.spark)
    files.delete(encoder_path(history))
    files.create_text(encoder_path(history), encoder.to_json())
    return encoder


def fit(runs: Table, test_share: float = 0.0) -> FeatureEncoder:
    """All values of each category, the range of each number, and the mean selectivity of each operator type.

    Of the jobs for training alone. Every batch is reduced to a handful of rows where it is; Spark merges those.
    """
    partial_sums = runs.map_batches(partial(_summarise, test_share=test_share), _FIT_COLUMNS, _SUMMARY)
    merged = partial_sums.groupBy("feature", "value").agg(
        sql.min("low").alias("low"),
        sql.max("high").alias("high"),
        (sql.sum("total") / sql.sum("count")).alias("mean"),
    )
    rows = merged.collect()
    if not rows:
        raise HistoryError("no job is in the training part: add jobs to the history, or lower the test share")
    values = {name: [row.value for row in rows if row.feature == name] for name in CATEGORIES}
    ranges = {row.feature: (row.low, row.high) for row in rows if row.feature in NUMBERS}
    # Rounded, because the order in which Spark adds up must not show in the encoder.
    usual = {row.value: float(f"{math.exp(row.mean):.6g}") for row in rows if row.feature == _SELECTIVITY}
    return FeatureEncoder.fit(values, ranges, usual)


def _parts(batch: pa.RecordBatch, test_share: float) -> pa.DictionaryArray:
    """The part, training or test, that each run's job belongs to."""
    jobs = batch.column("job").dictionary_encode()
    parts = [split_of(job, test_share) for job in jobs.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(jobs.indices, pa.array(parts, pa.string()))


def _summarise(batches: Iterator[pa.RecordBatch], test_share: float) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        parts = _parts(batch, test_share)
        is_training = np.array([part == TRAIN for part in parts.dictionary.to_pylist()], dtype=np.bool_)
        graphs = FlatGraphs.of(batch)
        training = is_training[parts.indices.to_numpy()][graphs.run] if len(batch) else np.zeros(0, np.bool_)
        rows = _summary_rows(operator_columns(batch, graphs), training)
        names = ("feature", "value", "low", "high", "total", "count")
        kinds = (pa.string(), pa.string(), *[pa.float64()] * 4)
        arrays = [pa.array([row.get(name) for row in rows], type=kind) for name, kind in zip(names, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, list(names))


def _summary_rows(columns: OperatorColumns, training: Bools) -> list[dict[str, str | float]]:
    """What a batch knows of its training operators: values, ranges, sums of log selectivities by type."""
    rows: list[dict[str, str | float]] = []
    for name in CATEGORIES:
        column = columns.categories[name]
        counts = np.bincount(column.positions[training] + 1, minlength=len(column.values) + 1)[1:]
        rows += [{"feature": name, "value": column.values[place]} for place in np.flatnonzero(counts).tolist()]
    for name, numbers in {**columns.numbers, **columns.rates({})}.items():
        given = numbers[training & ~np.isnan(numbers)]
        if len(given):
            rows.append({"feature": name, "low": float(given.min()), "high": float(given.max())})
    seen = training & (columns.selectivity > 0)  # false for NaN
    types = columns.categories["type"]
    kind, logs, width = types.positions[seen], np.log(columns.selectivity[seen]), len(types.values)
    totals, counts = np.bincount(kind, logs, width), np.bincount(kind, minlength=width)
    return rows + [
        {"feature": _SELECTIVITY, "value": name, "total": float(total), "count": float(count)}
        for name, total, count in zip(types.values, totals, counts, strict=True)
        if count
    ]


def _encode(batches: Iterator[pa.RecordBatch], encoder: FeatureEncoder, test_share: float) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        graphs = FlatGraphs.of(batch)
        columns = operator_columns(batch, graphs)
        edges = np.bincount(graphs.edge_run, minlength=len(batch))
        before = graphs.starts[graphs.edge_run]
        made = {
            "split": _parts(batch, test_share).dictionary_decode(),
            "parallelism": list_column(
                operator_values(batch, "parallelism").to_numpy(zero_copy_only=False), graphs.sizes, pa.int32()
            ),
            "codes": list_column(encoder.codes(columns).ravel(), graphs.sizes * len(CATEGORIES), pa.int16()),
            "numbers": list_column(encoder.numbers(columns).ravel(), graphs.sizes * len(NUMBERS), pa.float32()),
            "edge_source": list_column((graphs.edge_source - before).astype(np.int32), edges, pa.int32()),
            "edge_target": list_column((graphs.edge_target - before).astype(np.int32), edges, pa.int32()),
        }
        columns_out = {**{name: batch.column(name) for name in ("run_id", "job", DAY)}, **made}
        names = FEATURES.fieldNames()
        yield pa.RecordBatch.from_arrays([columns_out[name] for name in names], names)


def operator_columns(batch: pa.RecordBatch, graphs: FlatGraphs) -> OperatorColumns:
    """The raw features of all operators in a batch."""
    categories = {}
    for name in CATEGORIES:
        encoded = operator_values(batch, name).dictionary_encode()
        positions = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        categories[name] = CategoryColumn(positions.astype(np.int64), encoded.dictionary.to_pylist())
    return OperatorColumns(
        categories=categories,
        numbers={name: floats(operator_values(batch, name)) for name in STATIC_NUMBERS},
        offered=np.where(graphs.is_source, np.nan_to_num(graphs.nominal_per_s, nan=0.0), 0.0),
        selectivity=observed_selectivity(
            floats(operator_values(batch, "records_in_per_s")), floats(operator_values(batch, "records_out_per_s"))
        ),
        edge_source=graphs.edge_source,
        edge_target=graphs.edge_target,
        edge_ratio=observed_selectivity(
            floats(operator_values(batch, "records_in_per_s"))[graphs.edge_source], graphs.edge_per_s
        ),
    )
