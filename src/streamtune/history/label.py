"""The step ``label``: runs → labels, a narrow table beside the runs with one label per operator, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from streamtune.history.flatten import floats, list_column
from streamtune.history.graphs import FlatGraphs, graph_columns, operator_values
from streamtune.history.schema import DAY, LABELS
from streamtune.history.store import History
from streamtune.readings import LabelSettings, OperatorBatch, label_batch

_METRICS = (
    "busy_ms_per_s",
    "idle_ms_per_s",
    "backpressured_ms_per_s",
    "records_in_per_s",
    "records_out_per_s",
)
_COLUMNS = graph_columns("run_id", "engine", DAY, operators=_METRICS)


def label(history: History, settings: LabelSettings | None = None) -> int:
    """Label all runs anew; the number of runs."""
    history.labels.replace(labels_of(history.runs.read(columns=_COLUMNS), settings), "label")
    return history.labels.rows()


def labels_of(runs: DataFrame, settings: LabelSettings | None = None) -> DataFrame:
    """(run id, labels, day) of every run."""
    return runs.select(*_COLUMNS.fieldNames()).mapInArrow(
        partial(label_batches, settings=settings or LabelSettings()), LABELS
    )


def label_batches(batches: Iterator[pa.RecordBatch], settings: LabelSettings) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        flat = operator_batch(batch, settings)
        lists = list_column(label_batch(flat, settings), np.bincount(flat.run, minlength=len(batch)), pa.int8())
        yield pa.RecordBatch.from_arrays([batch.column("run_id"), lists, batch.column(DAY)], LABELS.fieldNames())


def operator_batch(batch: pa.RecordBatch, settings: LabelSettings) -> OperatorBatch:
    """What the labelling kernel works on, from a batch of the columns that ``labels_of`` selects."""
    graphs = FlatGraphs.of(batch)
    metrics = {name: floats(operator_values(batch, name)) for name in _METRICS}
    by_rates = pc.is_in(batch.column("engine"), value_set=pa.array(sorted(settings.engines_without_backpressure)))
    return OperatorBatch(
        run=graphs.run,
        is_source=graphs.is_source,
        nominal_per_s=graphs.nominal_per_s,
        edge_source=graphs.edge_source,
        edge_target=graphs.edge_target,
        without_backpressure=np.asarray(by_rates.to_numpy(zero_copy_only=False), dtype=np.bool_),
        **metrics,
    )
