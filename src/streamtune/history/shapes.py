"""The distinct dataflow shapes of a history: which there are, and how many runs have each.

A canonical form is too expensive to be computed for every run, and it need not be: runs of one job have the same types
in the same order and the same edges. Spark groups runs by that *structure* first, and only distinct structures are
brought into canonical form.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streamtune.dataflow import Dataflow
from streamtune.history.flatten import list_column
from streamtune.history.graphs import FlatGraphs, graph_columns, operator_values
from streamtune.history.store import History

CANONICAL_FORM = "canonical_form"
RUNS = "runs"
_STRUCTURE = ("types", "edge_source", "edge_target")
_STRUCTURE_SCHEMA = "run_id string, types array<string>, edge_source array<int>, edge_target array<int>"
_FORM_SCHEMA = (
    f"types array<string>, edge_source array<int>, edge_target array<int>, {CANONICAL_FORM} string, {RUNS} long"
)


def shape_counts(history: History) -> dict[str, int]:
    """Canonical form → runs. Only distinct shapes reach the driver."""
    counts = _with_forms(structures(history)).groupBy(CANONICAL_FORM).agg(sql.sum(RUNS).alias(RUNS))
    return {row[CANONICAL_FORM]: int(row[RUNS]) for row in counts.collect()}


def run_forms(history: History) -> DataFrame:
    """(run id, canonical form) of every run."""
    found = structures(history)
    forms = _with_forms(found).drop(RUNS)
    return found.join(sql.broadcast(forms), list(_STRUCTURE)).select("run_id", CANONICAL_FORM)


def structures(history: History) -> DataFrame:
    """Per run: the types of its operators in their order, and its edges as pairs of positions."""
    columns = graph_columns("run_id", operators=("type",))
    return history.runs.map_batches(_structures, columns, _STRUCTURE_SCHEMA)


def dataflow_of(form: str) -> Dataflow:
    """The dataflow that a canonical form spells out.

    >>> flow = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> dataflow_of(flow.canonical_form).canonical_form == flow.canonical_form
    True
    """
    named, _, wired = form.partition("|")
    pairs = [edge.split(">") for edge in wired.split(";") if edge]
    return Dataflow.from_edges([kind for kind in named.split(",") if kind], [(int(a), int(b)) for a, b in pairs])


def _with_forms(found: DataFrame) -> DataFrame:
    """Distinct structures with their canonical form and the number of runs."""
    counted = found.groupBy(*_STRUCTURE).agg(sql.count("*").alias(RUNS))
    return counted.mapInArrow(_forms, _FORM_SCHEMA)


def _structures(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        graphs = FlatGraphs.of(batch)
        edges = np.bincount(graphs.edge_run, minlength=len(batch))
        first = graphs.starts[graphs.edge_run]
        types = operator_values(batch, "type")
        offsets = pa.array(np.concatenate(([0], np.cumsum(graphs.sizes))).astype(np.int32))
        arrays = [
            batch.column("run_id"),
            pa.ListArray.from_arrays(offsets, types),
            list_column((graphs.edge_source - first).astype(np.int32), edges, pa.int32()),
            list_column((graphs.edge_target - first).astype(np.int32), edges, pa.int32()),
        ]
        yield pa.RecordBatch.from_arrays(arrays, ["run_id", *_STRUCTURE])


def _forms(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        types, sources, targets = (batch.column(name).to_pylist() for name in _STRUCTURE)
        forms = [
            Dataflow.from_edges(kinds, zip(tails, heads, strict=True)).canonical_form
            for kinds, tails, heads in zip(types, sources, targets, strict=True)
        ]
        columns = [*(batch.column(name) for name in _STRUCTURE), pa.array(forms, pa.string()), batch.column(RUNS)]
        yield pa.RecordBatch.from_arrays(columns, [*_STRUCTURE, CANONICAL_FORM, RUNS])
