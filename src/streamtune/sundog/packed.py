"""Rows of (day, key, events, sketch) as columns, and their way through Arrow and Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import read_only
from streamtune.sundog.kernels.packing import count_rows, merge_rows
from streamtune.sundog.storage import locate

BLOBS = pa.schema(
    [("bucket", pa.int32()), *((name, pa.binary()) for name in ("days", "keys", "events", "lengths", "words"))]
)
PANE = pa.schema([(name, pa.binary()) for name in ("keys", "events", "lengths", "words")])
_KINDS: dict[str, type[np.generic]] = {
    "days": np.int32, "keys": np.uint32, "events": np.int64, "lengths": np.int32, "words": np.uint32
}  # fmt: skip


@dataclass(frozen=True)
class Packed:
    """Columns of equal length, but for ``words``, which holds the sketches one behind the other."""

    days: NDArray[np.int32]
    keys: NDArray[np.uint32]
    events: NDArray[np.int64]
    lengths: NDArray[np.int32]
    words: NDArray[np.uint32]

    @classmethod
    def empty(cls) -> Packed:
        whole, number = np.empty(0, np.int32), np.empty(0, np.uint32)
        return cls(whole, number, np.empty(0, np.int64), whole, number)

    @classmethod
    def joined(cls, parts: Sequence[Packed]) -> Packed:
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.days for part in parts] or [np.empty(0, np.int32)]),
            np.concatenate([part.keys for part in parts] or [np.empty(0, np.uint32)]),
            np.concatenate([part.events for part in parts] or [np.empty(0, np.int64)]),
            np.concatenate([part.lengths for part in parts] or [np.empty(0, np.int32)]),
            np.concatenate([part.words for part in parts] or [np.empty(0, np.uint32)]),
        )

    def merged(self) -> Packed:
        """One row per day and key, sorted by both."""
        order = np.argsort((self.days.astype(np.int64) << 32) + self.keys.astype(np.int64))
        # Columns may or may not be writable; one compiled kernel serves both.
        columns = [read_only(column) for column in (self.days, self.keys, self.events, self.lengths, self.words)]
        return Packed(*merge_rows(order, *columns))

    def totals(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Keys, events and users over all days, sorted by key."""
        columns = [read_only(column) for column in (self.keys, self.events, self.lengths, self.words)]
        return count_rows(np.argsort(self.keys, kind="stable"), *columns)


def to_blobs(packed: Iterable[tuple[int, Packed]]) -> pa.RecordBatch:
    """One row per bucket that has any."""
    rows = [(bucket, part) for bucket, part in packed if len(part.days)]
    columns = [pa.array([bucket for bucket, _ in rows], pa.int32())]
    columns += [pa.array([getattr(part, name).tobytes() for _, part in rows], pa.binary()) for name in BLOBS.names[1:]]
    return pa.RecordBatch.from_arrays(columns, schema=BLOBS)


def from_blob(batch: pa.RecordBatch, row: int) -> Packed:
    """The columns of one row of ``to_blobs``."""
    return Packed(**{name: np.frombuffer(batch.column(name)[row].as_buffer(), kind) for name, kind in _KINDS.items()})


def day_tables(merged: Packed) -> tuple[list[int], list[pa.Table]]:
    """Rows that are sorted by day, as one table per day.

    A table has one row, and each of its values is a whole column: what is read is used as it lies there, and windows,
    which read a lot, need not take millions of small values apart.
    """
    days, firsts = np.unique(merged.days, return_index=True)
    lasts = np.append(firsts[1:], len(merged.days))
    word_ends = np.concatenate([[0], np.cumsum(merged.lengths, dtype=np.int64)])
    tables = []
    for first, last in zip(firsts, lasts, strict=True):
        words = merged.words[word_ends[first] : word_ends[last]]
        columns: list[NDArray[Any]] = [merged.keys[first:last], merged.events[first:last]]
        columns += [merged.lengths[first:last], words]
        tables.append(pa.Table.from_arrays(list(map(_one_value, columns)), schema=PANE))
    return [int(day) for day in days], tables


def _one_value(column: NDArray[Any]) -> pa.Array:
    offsets = pa.py_buffer(np.array([0, column.nbytes], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(np.ascontiguousarray(column))])


def read_groups(address: str, groups: Sequence[int], days: Sequence[int]) -> Packed:
    """Row groups of a pane file, each of one day."""
    system, path = locate(address)
    with pq.ParquetFile(path, filesystem=system) as file:
        table = file.read_row_groups(list(groups), use_threads=False)
    rows = [value.as_buffer().size // 4 for chunk in table["keys"].chunks for value in chunk]
    columns = {name: _flat(table[name], _KINDS[name]) for name in PANE.names}
    return Packed(days=np.repeat(np.array(days, np.int32), rows), **columns)


def _flat(column: pa.ChunkedArray, kind: type[np.generic]) -> NDArray[Any]:
    """All values of a column of bytes, one behind the other."""
    parts = []
    for chunk in column.chunks:
        _, offsets, data = chunk.buffers()
        ends = np.frombuffer(offsets, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        parts.append(np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].view(kind))
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, kind)])
