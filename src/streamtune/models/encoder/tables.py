"""Featurised, labelled runs as Arrow tables: what pre-training reads and what a bundle keeps as warm-up data."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from streamtune.dataflow.features import CATEGORIES
from streamtune.models.encoder.graphs import GraphSet
from streamtune.models.features import NUMBERS, FeatureEncoder
from streamtune.models.splits import rank

# The columns of history's tables `features` and `labels` that a GraphSet is made of.
COLUMNS = ("run_id", "job", "codes", "numbers", "parallelism", "labels", "edge_source", "edge_target")


def graphs_of(table: pa.Table, encoder: FeatureEncoder) -> GraphSet:
    """The runs of a table with the columns ``COLUMNS``, in the order of their run ids.

    The order makes the result independent of how Spark cut and shuffled the rows.
    """
    table = table.sort_by("run_id")
    codes = _flat(table, "codes").reshape(-1, len(CATEGORIES))
    numbers = _flat(table, "numbers").reshape(-1, len(NUMBERS))
    return GraphSet.of(
        encoder.dense(codes.astype(np.int16), numbers.astype(np.float32)),
        _flat(table, "parallelism"),
        _flat(table, "labels"),
        _lengths(table, "parallelism"),
        _flat(table, "edge_source"),
        _flat(table, "edge_target"),
        _lengths(table, "edge_source"),
        table.column("job").to_pylist(),
    )


def sample_runs(table: pa.Table, runs: int, seed: int) -> pa.Table:
    """At most ``runs`` runs, chosen by a hash of their ids: the same ones however the rows are ordered."""
    if table.num_rows <= runs:
        return table.sort_by("run_id")
    ids = table.column("run_id").to_pylist()
    ranks = [rank(f"{seed}:{run_id}") for run_id in ids]
    chosen = sorted(range(len(ids)), key=ranks.__getitem__)[:runs]
    return table.take(pa.array(sorted(chosen))).sort_by("run_id")


def to_parquet(table: pa.Table) -> bytes:
    """The columns ``COLUMNS`` as a Parquet file in memory."""
    buffer = io.BytesIO()
    pq.write_table(table.select(list(COLUMNS)), buffer, compression="zstd")
    return buffer.getvalue()


def _flat(table: pa.Table, name: str) -> npt.NDArray[Any]:
    values = table.column(name).combine_chunks()
    flat: npt.NDArray[Any] = values.flatten().to_numpy(zero_copy_only=False)
    return flat


def _lengths(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    lengths = table.column(name).combine_chunks().value_lengths()
    return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
