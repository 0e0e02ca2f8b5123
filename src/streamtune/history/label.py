"""The step ``label``: runs → labels, a narrow table beside the runs with one label per operator, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamtune.dataflow.observation import METRICS
from streamtune.dataflow.run import v1_busy_resolution, v1_reports_backpressure
from streamtune.history.flatten import Ragged, any_per_row, floats, list_column, map_as_list
from streamtune.history.graphs import FlatGraphs, graph_columns, operator_values
from streamtune.history.schema import DAY, LABELS
from streamtune.history.store import History
from streamtune.readings import LabelSettings, OperatorBatch, label_batch

# What the labelling kernel takes of an operator.
LABEL_METRICS = tuple(field.name for field in fields(OperatorBatch) if field.name in METRICS)
# How an engine is to be read; records of version 1 have its name alone.
ENGINE_COLUMNS = ("engine", "reports_backpressure", "busy_resolution", "rate_origins")
_COLUMNS = graph_columns("run_id", *ENGINE_COLUMNS, DAY, operators=LABEL_METRICS)
_SETTINGS = "labelling"


def label(history: History, settings: LabelSettings | None = None) -> int:
    """Label all runs again, and store the rule with the labels; returns the number of runs."""
    settings = settings or LabelSettings()
    labels = history.runs.map_batches(partial(label_batches, settings=settings), _COLUMNS, LABELS)
    history.labels.replace(labels, "label", properties={_SETTINGS: settings.model_dump(mode="json")})
    return history.labels.rows()


def labelling_of(history: History) -> LabelSettings:
    """The rule by which the stored labels were made; the default where an older release made them."""
    return LabelSettings.model_validate(history.labels.manifest().properties.get(_SETTINGS, {}))


def label_batches(batches: Iterator[pa.RecordBatch], settings: LabelSettings) -> Iterator[pa.RecordBatch]:
    """(run id, labels, day) of every run."""
    for batch in batches:
        flat = operator_batch(batch)
        lists = list_column(label_batch(flat, settings), np.bincount(flat.run, minlength=len(batch)), pa.int8())
        yield pa.RecordBatch.from_arrays([batch.column("run_id"), lists, batch.column(DAY)], LABELS.fieldNames())


def operator_batch(batch: pa.RecordBatch) -> OperatorBatch:
    """What the labelling kernel works on, from a batch of the columns that ``label`` reads."""
    graphs = FlatGraphs.of(batch)
    metrics = {name: floats(operator_values(batch, name)) for name in LABEL_METRICS}
    return OperatorBatch(
        run=graphs.run,
        is_source=graphs.is_source,
        nominal_per_s=graphs.nominal_per_s,
        edge_source=graphs.edge_source,
        edge_target=graphs.edge_target,
        edge_per_s=graphs.edge_per_s,
        is_guess=has_guess(batch),
        without_backpressure=~_of_engine(batch, "reports_backpressure", v1_reports_backpressure).astype(np.bool_),
        **metrics,
    )


def has_guess(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Whether a source's rate is a guess, in each run; older tables do not say, and had measurements alone."""
    if "rate_origins" not in batch.schema.names:
        return np.zeros(len(batch), dtype=np.bool_)
    origins = Ragged.of(map_as_list(batch.column("rate_origins")))
    guessed = pc.fill_null(pc.equal(pc.struct_field(origins.values, "value"), "estimated"), False)
    return any_per_row(origins.row, np.asarray(guessed.to_numpy(zero_copy_only=False), dtype=np.bool_), len(batch))


def busy_resolution(batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
    """How far off a busy share of each run may be."""
    return _of_engine(batch, "busy_resolution", v1_busy_resolution)


def _of_engine(batch: pa.RecordBatch, name: str, in_version_1: Callable[[str], float]) -> npt.NDArray[np.float64]:
    """A column that says how to read the engine of each run; where it is null, the engine's name says it."""
    given = pc.cast(batch.column(name), pa.float64())
    engines = batch.column("engine").dictionary_encode()
    by_name = np.array([float(in_version_1(engine)) for engine in engines.dictionary.to_pylist()])
    stand_in = by_name[engines.indices.to_numpy(zero_copy_only=False)] if len(batch) else np.zeros(0)
    return np.asarray(pc.coalesce(given, pa.array(stand_in)).to_numpy(zero_copy_only=False), dtype=np.float64)
