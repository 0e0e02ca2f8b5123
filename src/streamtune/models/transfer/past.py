"""The past operators that a bundle keeps: the sums of their readings, one row per operator of a job's version."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from streamtune.dataflow import Dataflow, Edge
from streamtune.dataflow.features import CATEGORIES, OperatorFeatures
from streamtune.models.capacity.belief import WEIGHTS
from streamtune.models.capacity.prior import CurveSums
from streamtune.models.transfer.design import Features

Floats = npt.NDArray[np.float64]

XX = tuple(f"xx{i}{j}" for i in range(WEIGHTS) for j in range(i, WEIGHTS))
XY = tuple(f"xy{i}" for i in range(WEIGHTS))
# Sums over the readings of an operator: of its curve, and of the logarithm of its selectivity.
SUMS = (*XX, *XY, "yy", "count", "ratio", "ratio_sq", "ratio_count", "runs")
# The most that was seen: how far the past reaches.
MOST = ("most_rate", "most_parallelism")
TEXTS = ("job", "version", "operator", "type", "signature", "described")
# The day a version ran last; bundles of earlier releases do not say.
LAST = "day"
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in TEXTS),
        ("position", pa.int32()),
        ("trains", pa.bool_()),
        (LAST, pa.string()),
        *((name, pa.float64()) for name in (*SUMS, *MOST)),
    ]
)


def signature(features: Features) -> str:
    """What two operators share when they do the same thing; widths and rates may differ.

    >>> signature({"type": "filter", "tuple_width_in": 3.0}) == signature({"type": "filter", "tuple_width_in": 9.0})
    True
    """
    named = [*CATEGORIES, "window_length", "window_slide"]
    return "|".join("" if features.get(name) is None else f"{features[name]}" for name in named)


@dataclass(frozen=True)
class PastJob:
    """One version of a past job: its operators in their order, as rows of the table."""

    number: int
    name: str
    version: str
    rows: tuple[int, ...]
    dataflow: Dataflow


class PastOperators:
    """All kept past operators, column by column. Jobs are taken apart when they are first asked for."""

    def __init__(self, table: pa.Table) -> None:
        order = [("job", "ascending"), ("version", "ascending"), ("position", "ascending")]
        if LAST not in table.column_names:
            table = table.append_column(LAST, pa.nulls(len(table), pa.string()))
        self.table = table.select(SCHEMA.names).sort_by(order).combine_chunks()
        self.names: list[str] = self.table.column("job").to_pylist()
        self.versions: list[str] = self.table.column("version").to_pylist()
        self.types: list[str] = self.table.column("type").to_pylist()
        self.ids: list[str] = self.table.column("operator").to_pylist()
        self.signatures: list[str] = self.table.column("signature").to_pylist()
        self.days: list[str] = [day or "" for day in self.table.column(LAST).to_pylist()]
        self._described = self.table.column("described")
        self.trains = np.asarray(self.table.column("trains").to_numpy(zero_copy_only=False), dtype=np.bool_)
        self._jobs: dict[int, PastJob] = {}

    @classmethod
    def empty(cls) -> PastOperators:
        return cls(SCHEMA.empty_table())

    def __len__(self) -> int:
        return len(self.names)

    def column(self, name: str) -> Floats:
        return np.asarray(self.table.column(name).to_numpy(zero_copy_only=False), dtype=np.float64)

    def described(self, row: int) -> dict[str, Any]:
        """Table I of a row, and what it reads."""
        found: dict[str, Any] = json.loads(self._described[row].as_py())
        return found

    def features(self, row: int) -> Features:
        found: Mapping[str, str | float | None] = self.described(row)["features"]
        return found

    @cached_property
    def sums(self) -> CurveSums:
        size = len(self)
        xx = np.empty((size, WEIGHTS, WEIGHTS))
        for name in XX:
            i, j = int(name[2]), int(name[3])
            xx[:, i, j] = xx[:, j, i] = self.column(name)
        xy = np.stack([self.column(name) for name in XY], axis=1) if size else np.empty((0, WEIGHTS))
        return CurveSums(xx, xy, self.column("yy"), self.column("count"))

    @cached_property
    def log_selectivity(self) -> tuple[Floats, Floats]:
        """Mean of each operator's log selectivity and the variance of that mean; NaN where it was never seen."""
        count = self.column("ratio_count")
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.column("ratio") / count
            spread = np.maximum(self.column("ratio_sq") / count - mean**2, 1e-6) / count
        return np.where(count > 0, mean, np.nan), np.where(count > 0, spread, np.nan)

    @cached_property
    def most(self) -> dict[str, Floats]:
        return {name: self.column(name) for name in MOST}

    @cached_property
    def job_rows(self) -> list[tuple[int, ...]]:
        """The rows of each version of each job."""
        found: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row, place in enumerate(zip(self.names, self.versions, strict=True)):
            found[place].append(row)
        return [tuple(rows) for rows in found.values()]

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """The numbers of the versions of each job."""
        found: dict[str, list[int]] = defaultdict(list)
        for number, rows in enumerate(self.job_rows):
            found[self.names[rows[0]]].append(number)
        return dict(found)

    @cached_property
    def _shared(self) -> tuple[dict[str, float], dict[str, npt.NDArray[np.int64]]]:
        """By signature: the bits it is worth where two jobs share it, and the numbers of the jobs that have it."""
        texts, code = np.unique(np.array(self.signatures), return_inverse=True)
        number = np.repeat(np.arange(len(self.job_rows)), [len(rows) for rows in self.job_rows])
        pairs = np.unique(np.stack([code, number]), axis=1)
        often = np.bincount(pairs[0], minlength=len(texts))
        kinds, kind = np.unique([text.split("|", 1)[0] for text in texts], return_inverse=True)
        of_kind = np.bincount(kind, weights=often, minlength=len(kinds))
        bits = -np.log2(often / of_kind[kind])
        ends = np.cumsum(often)
        jobs = np.split(pairs[1], ends[:-1]) if len(texts) else []
        return (
            dict(zip(texts.tolist(), bits.tolist(), strict=True)),
            dict(zip(texts.tolist(), jobs, strict=True)),
        )

    @property
    def rarity(self) -> dict[str, float]:
        """Bits that a shared signature is worth: how unlikely two operators of a type share it by chance."""
        return self._shared[0]

    @property
    def holders(self) -> dict[str, npt.NDArray[np.int64]]:
        """Signature → the numbers of the jobs that have it."""
        return self._shared[1]

    def job(self, number: int) -> PastJob:
        if number not in self._jobs:
            rows = self.job_rows[number]
            told = [self.described(row) for row in rows]
            operators = tuple(OperatorFeatures(**one["features"]).to_operator() for one in told)
            edges = tuple(
                Edge(source, self.ids[row]) for row, one in zip(rows, told, strict=True) for source in one["inputs"]
            )
            first = rows[0]
            flow = Dataflow(operators, edges)
            self._jobs[number] = PastJob(number, self.names[first], self.versions[first], rows, flow)
        return self._jobs[number]

    def to_parquet(self) -> bytes:
        buffer = BytesIO()
        pq.write_table(self.table, buffer, compression="zstd")
        return buffer.getvalue()

    @classmethod
    def from_parquet(cls, content: bytes) -> PastOperators:
        return cls(pq.read_table(BytesIO(content)))


def past_rows(rows: Sequence[Mapping[str, Any]]) -> PastOperators:
    """From rows as Python values."""
    return PastOperators(pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA))
