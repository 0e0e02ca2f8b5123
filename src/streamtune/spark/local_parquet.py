"""Local Parquet files, read by Spark's Python tasks themselves.

Spark's own scan hands nested columns to Python row by row and value by value, which costs more than all that our
kernels do with them. Where the files lie on a disk that Python can open, a task opens them itself and gets whole
columns: the same rows, in batches of the same size, whatever the sizes of the files are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from streamtune.spark.errors import StorageError

Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches], Batches]

BATCH_ROWS = 20_000
# What one task reads: many small files, or a piece of a large one.
TASK_BYTES = 32 << 20
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# Names that Parquet puts between a list or a map and what is in it.
_STRUCTURAL = frozenset({"list", "element", "array", "bag", "array_element", "key_value", "map"})


@dataclass(frozen=True, slots=True)
class LocalFile:
    """One file, or every n-th row group of it, and the values of the partition columns that its path spells out."""

    path: str
    size_bytes: int
    partition: tuple[tuple[str, str | None], ...] = ()
    piece: int = 0
    pieces: int = 1

    def split(self, most_bytes: int) -> list[LocalFile]:
        """Pieces of at most so many bytes, if its row groups are even."""
        pieces = max(1, -(-self.size_bytes // most_bytes))
        return [replace(self, size_bytes=self.size_bytes // pieces, piece=n, pieces=pieces) for n in range(pieces)]


def files_below(folder: str) -> list[LocalFile]:
    """All data files of one part, those of its partitions too, in the order of their paths."""
    found = []
    waiting: list[tuple[str, tuple[tuple[str, str | None], ...]]] = [(folder, ())]
    while waiting:
        place, partition = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name.startswith(("_", ".")):  # as Spark does
                    continue
                if entry.is_dir():
                    key, equals, value = entry.name.partition("=")
                    named = ((key, None if value == _NO_VALUE else unquote(value)),) if equals else ()
                    waiting.append((entry.path, (*partition, *named)))
                else:
                    found.append(LocalFile(entry.path, entry.stat().st_size, partition))
    return sorted(found, key=lambda file: file.path)


def tasks_of(files: Sequence[LocalFile], task_bytes: int = TASK_BYTES) -> list[list[LocalFile]]:
    """Files, or pieces of them, in groups of about ``task_bytes``.

    >>> [len(task) for task in tasks_of([LocalFile("a", 1), LocalFile("b", 2), LocalFile("c", 3)], task_bytes=3)]
    [2, 1]
    """
    tasks: list[list[LocalFile]] = []
    room = 0
    for piece in (piece for file in files for piece in file.split(task_bytes)):
        if not tasks or piece.size_bytes > room:
            tasks.append([])
            room = task_bytes
        tasks[-1].append(piece)
        room -= piece.size_bytes
    return tasks


def read_task(files: Sequence[LocalFile], columns: pa.Schema) -> Batches:
    """The rows of some files in batches of ``BATCH_ROWS``; small files are put together."""
    kept: list[pa.RecordBatch] = []
    rows = 0
    for file in files:
        for batch in _read_file(file, columns):
            if rows + len(batch) > BATCH_ROWS:
                yield from _together(kept)
                kept, rows = [], 0
            kept.append(batch)
            rows += len(batch)
    yield from _together(kept)


def _together(batches: list[pa.RecordBatch]) -> Batches:
    if len(batches) > 1:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()
    else:
        yield from batches


def _read_file(file: LocalFile, columns: pa.Schema) -> Batches:
    try:
        with pq.ParquetFile(file.path, page_checksum_verification=True) as opened:
            wanted = [path for path in _leaves(opened) if _is_wanted(path, columns)]
            # Where no column that was asked for is there, the number of rows has to come from another one.
            chosen = wanted or _leaves(opened)[:1]
            groups = list(range(file.piece, opened.num_row_groups, file.pieces))
            for batch in opened.iter_batches(BATCH_ROWS, row_groups=groups, columns=chosen, use_threads=False):
                yield _conformed(batch, columns, dict(file.partition))
    except (OSError, pa.ArrowException) as error:
        first = str(error).partition("\n")[0]
        raise StorageError(f"{file.path} cannot be read: {first}. Restore it from a copy") from error


def _leaves(opened: pq.ParquetFile) -> list[str]:
    return [opened.schema.column(index).path for index in range(len(opened.schema))]


def _is_wanted(path: str, columns: pa.Schema) -> bool:
    """Whether a leaf of the file is a column, or a field of a nested one, that was asked for."""
    top, *inner = path.split(".")
    if top not in columns.names:
        return False
    kind: Any = columns.field(top).type
    for name in inner:
        if pa.types.is_list(kind):
            kind = kind.value_type
        if pa.types.is_struct(kind) and name not in _STRUCTURAL:
            if kind.get_field_index(name) < 0:
                return False
            kind = kind.field(name).type
    return True


def _conformed(batch: pa.RecordBatch, columns: pa.Schema, partition: dict[str, str | None]) -> pa.RecordBatch:
    """The columns that were asked for: from the file, from its path, or null where an older release wrote neither."""
    arrays = []
    for field in columns:
        if field.name in partition:
            arrays.append(pa.repeat(pa.scalar(partition[field.name]).cast(field.type), len(batch)))
        elif field.name in batch.schema.names:
            arrays.append(_fitted(batch.column(field.name), field.type))
        else:
            arrays.append(pa.nulls(len(batch), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _fitted(values: Any, kind: Any) -> Any:
    """An array of this type: fields in its order, null where the file has none."""
    if values.type == kind:
        return values
    if pa.types.is_list(kind) and pa.types.is_list(values.type):
        inner = _fitted(values.values, kind.value_type)
        mask = values.is_null() if values.null_count else None
        return pa.ListArray.from_arrays(values.offsets, inner, type=kind, mask=mask)
    if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
        given = {values.type.field(index).name: index for index in range(values.type.num_fields)}
        children = [
            _fitted(values.field(given[field.name]), field.type)
            if field.name in given
            else pa.nulls(len(values), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())
    if pa.types.is_map(kind) and pa.types.is_map(values.type):
        mask = values.is_null() if values.null_count else None
        keys, items = _fitted(values.keys, kind.key_type), _fitted(values.items, kind.item_type)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=kind, mask=mask)
    return values.cast(kind)
