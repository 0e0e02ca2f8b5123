"""Validation as Spark runs it: batches of parsed rows in, the same rows with their reasons and line numbers out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DateType, LongType, StringType, StructField, StructType

from streamtune.history import reasons
from streamtune.history.flatten import Bools, Ragged, codes_of
from streamtune.history.schema import RUN
from streamtune.history.settings import ValidationSettings
from streamtune.history.validate import check, reason_lists
from streamtune.spark.schemas import nullable

# `reasons` is null for a blank line, which is not a record but counts as a line.
CHECKED = StructType(
    [
        *nullable(RUN).fields,
        StructField("reasons", ArrayType(StringType())),
        StructField("raw", StringType()),
        StructField("raw_bytes", LongType()),
        StructField("source_file", StringType()),
        StructField("block_start", LongType()),
        StructField("line_in_block", LongType()),
        StructField("modified_on", DateType()),
    ]
)


def check_rows(batches: Iterator[pa.RecordBatch], settings: ValidationSettings) -> Iterator[pa.RecordBatch]:
    """Every row of a partition with all its reasons but duplicates, and its line within the block it came from."""
    lines = LineCounter()
    for batch in batches:
        columns = {name: batch.column(name) for name in RUN.fieldNames()}
        columns["reasons"] = _reasons(batch, settings)
        columns |= {name: batch.column(name) for name in ("raw", "raw_bytes", "source_file", "block_start")}
        columns["line_in_block"] = pa.array(lines.number(batch.column("source_file"), batch.column("block_start")))
        columns["modified_on"] = batch.column("modified_on")
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _reasons(batch: pa.RecordBatch, settings: ValidationSettings) -> pa.ListArray:
    found = _flags_of(batch.column("found"))
    nothing = np.zeros(len(batch), dtype=np.bool_)
    # What could not be parsed is null all over; further reasons would only repeat that.
    unparsed = found.get(reasons.BROKEN_JSON, nothing) | found.get(reasons.WRONG_TYPE, nothing)
    flags = {reason: flag & ~unparsed for reason, flag in check(batch, settings).items()}
    for reason, flag in found.items():
        if reason not in settings.tolerate:
            flags[reason] = flags.get(reason, nothing) | flag
    lists = reason_lists(flags, len(batch))
    blank = pc.equal(pc.utf8_trim_whitespace(batch.column("raw")), "")
    return pc.if_else(blank, pa.nulls(len(batch), lists.type), lists)


def _flags_of(lists: pa.ListArray) -> dict[str, Bools]:
    """Reason → which rows list it."""
    ragged = Ragged.of(lists)
    names = ragged.values.unique().to_pylist()
    values = ragged.values.to_numpy(zero_copy_only=False)
    return {str(name): np.bincount(ragged.row[values == name], minlength=len(lists)) > 0 for name in names}


class LineCounter:
    """Numbers lines within the block of the file they were read from: Spark reads each block in order."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int], int] = {}

    def number(self, files: pa.StringArray, blocks: pa.Int64Array) -> npt.NDArray[np.int64]:
        """Lines 0, 1, 2… of each block, continued from batch to batch."""
        (file_codes,) = codes_of(files)
        starts = blocks.to_numpy()
        change = np.flatnonzero((np.diff(file_codes) != 0) | (np.diff(starts) != 0)) + 1
        bounds = [0, *change.tolist(), len(starts)] if len(starts) else [0]
        numbers = np.arange(len(starts), dtype=np.int64)
        for first, end in pairwise(bounds):
            block = (files[first].as_py(), int(starts[first]))
            continued = self._next.get(block, 0)
            numbers[first:end] += continued - first
            self._next[block] = continued + end - first
        return numbers
