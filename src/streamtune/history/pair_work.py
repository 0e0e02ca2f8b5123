"""Distances of many pairs of shapes, in blocks that Spark spreads over its cores."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import SparkSession

from streamtune.similarity import PackedDataflows
from streamtune.similarity.distance_table import Bounds, Indices, Pairs, packed_bounds
from streamtune.similarity.similar_weights import similar_weights

# Fewer pairs than this are computed in the driver: a Spark job costs more than they do.
PAIRS_WORTH_A_JOB = 256
_BLOCKS_PER_CORE = 6
_LARGEST_BLOCK = 20_000
# Pairs of shapes that one block looks at for similar ones, most of them by their sizes alone.
_LARGEST_COUNT = 10_000_000
_COUNTS_SCHEMA = "block long, counts binary"
_BOUNDS_SCHEMA = "block long, lower binary, upper binary"


class SparkPairBounds:
    """``PairBounds`` by Spark. What is found for a pair does not depend on the block it is in."""

    def __init__(self, spark: SparkSession, packed: PackedDataflows, blocks: int | None = None) -> None:
        self._spark = spark
        self._packed = packed
        self._shared = spark.sparkContext.broadcast(packed)
        self._blocks = blocks or _BLOCKS_PER_CORE * spark.sparkContext.defaultParallelism

    def __call__(self, pairs: Pairs, limits: Indices, states: int) -> Bounds:
        if len(pairs) < PAIRS_WORTH_A_JOB:
            return packed_bounds(self._packed, pairs, limits, states)
        blocks = min(len(pairs), max(self._blocks, -(-len(pairs) // _LARGEST_BLOCK)))
        asked = self._spark.sparkContext.broadcast((pairs, limits))
        work = partial(_measure_blocks, packed=self._shared, asked=asked, blocks=blocks, states=states)
        found = self._spark.range(0, blocks, 1, blocks).mapInArrow(work, _BOUNDS_SCHEMA).collect()
        asked.destroy()
        lower, upper = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
        for row in found:
            lower[row.block :: blocks] = np.frombuffer(row.lower, np.int64)
            upper[row.block :: blocks] = np.frombuffer(row.upper, np.int64)
        return lower, upper

    def similar_weights(self, rows: Indices, columns: Indices, weights: Indices, tau: int) -> Indices:
        """``SimilarWeights`` by Spark: block n counts for every n-th row."""
        if len(rows) * len(columns) < PAIRS_WORTH_A_JOB:
            return similar_weights(self._packed, rows, columns, weights, tau)
        blocks = min(len(rows), max(self._blocks, len(rows) * len(columns) // _LARGEST_COUNT))
        asked = self._spark.sparkContext.broadcast((rows, columns, weights))
        work = partial(_count_blocks, packed=self._shared, asked=asked, blocks=blocks, tau=tau)
        # One row a block, with a number per shape in all: what the driver holds of the shapes anyway.
        found = self._spark.range(0, blocks, 1, blocks).mapInArrow(work, _COUNTS_SCHEMA).collect()
        asked.destroy()
        counts = np.empty(len(rows), np.int64)
        for row in found:
            counts[row.block :: blocks] = np.frombuffer(row.counts, np.int64)
        return counts

    def close(self) -> None:
        self._shared.destroy()


def _measure_blocks(
    batches: Iterator[pa.RecordBatch],
    packed: Broadcast[PackedDataflows],
    asked: Broadcast[tuple[Pairs, Indices]],
    blocks: int,
    states: int,
) -> Iterator[pa.RecordBatch]:
    """Block n measures every n-th pair: neighbours are alike, and the hard ones would gather in one block."""
    pairs, limits = asked.value
    for batch in batches:
        for block in batch.column("id").to_pylist():
            share = slice(block, None, blocks)
            lower, upper = packed_bounds(packed.value, pairs[share], limits[share], states)
            arrays = [pa.array([block], pa.int64()), pa.array([lower.tobytes()]), pa.array([upper.tobytes()])]
            yield pa.RecordBatch.from_arrays(arrays, ["block", "lower", "upper"])


def _count_blocks(
    batches: Iterator[pa.RecordBatch],
    packed: Broadcast[PackedDataflows],
    asked: Broadcast[tuple[Indices, Indices, Indices]],
    blocks: int,
    tau: int,
) -> Iterator[pa.RecordBatch]:
    rows, columns, weights = asked.value
    for batch in batches:
        for block in batch.column("id").to_pylist():
            counts = similar_weights(packed.value, rows[block::blocks], columns, weights, tau)
            yield pa.RecordBatch.from_arrays(
                [pa.array([block], pa.int64()), pa.array([counts.tobytes()])], ["block", "counts"]
            )
