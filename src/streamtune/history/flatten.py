"""From Arrow's nested columns to the flat NumPy arrays that the kernels work on. No Spark in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Indices = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ragged:
    """A column of lists: all values in one array, and for each value the row it came from."""

    values: Any  # a flat Arrow array
    row: Indices
    lengths: Indices

    @classmethod
    def of(cls, column: Any) -> Ragged:
        """Null lists count as empty."""
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(pc.list_flatten(column), np.repeat(np.arange(len(column)), lengths), lengths)


def map_as_list(column: Any) -> Any:
    """A map column is a list of (key, value) pairs; Arrow's list functions want to be told."""
    entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
    return column.cast(pa.list_(entry))


def floats(values: Any) -> Floats:
    """Numbers as float64, NaN where null."""
    return np.asarray(pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False))


def nulls(values: Any) -> Bools:
    return np.asarray(pc.is_null(values).to_numpy(zero_copy_only=False))


def any_per_row(row: Indices, flags: Bools, rows: int) -> Bools:
    """For each row: is any of its flags set?"""
    result = np.zeros(rows, dtype=np.bool_)
    result[row[flags]] = True
    return result


def codes_of(*columns: Any) -> list[Indices]:
    """Text columns as numbers that are equal exactly where the texts are; −1 for null. All share one numbering."""
    # Large strings: the texts of one batch may be more than the 2 GiB that 32-bit offsets can address.
    joined = pa.concat_arrays([pc.cast(column, pa.large_string()) for column in columns])
    codes = pc.fill_null(joined.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.split(codes, np.cumsum([len(column) for column in columns])[:-1])


@dataclass(frozen=True, slots=True)
class IdIndex:
    """Finds operators by (row, id)."""

    sorted_keys: Indices
    order: Indices
    width: int

    @classmethod
    def of(cls, row: Indices, code: Indices, width: int) -> IdIndex:
        keys = row * width + code
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], order, width)

    def find(self, row: Indices, code: Indices) -> Indices:
        """Positions of the operators, −1 where there is none; of several with the same id, the first."""
        if not len(self.order):
            return np.full(len(row), -1, dtype=np.int64)
        keys = row * self.width + code
        place = np.minimum(np.searchsorted(self.sorted_keys, keys), len(self.order) - 1)
        found = (self.sorted_keys[place] == keys) & (code >= 0)
        return np.where(found, self.order[place], -1)

    def repeated(self) -> Bools:
        """For each operator: has an earlier one in its row the same id?"""
        result = np.zeros(len(self.order), dtype=np.bool_)
        result[self.order[1:]] = self.sorted_keys[1:] == self.sorted_keys[:-1]
        return result


def list_column(values: npt.NDArray[Any], lengths: Indices, kind: Any) -> Any:
    """The reverse of ``Ragged``: a list column from flat values and the length of each list."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values, type=kind))
