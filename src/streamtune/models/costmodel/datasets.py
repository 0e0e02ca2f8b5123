"""Labelled plans as Arrow tables: how they are read, split by query, and kept apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from streamtune.errors import StreamTuneError
from streamtune.models.costmodel.columns import PlanColumns
from streamtune.models.costmodel.model import LabelledPlans
from streamtune.models.costmodel.training import Labels

Part = Literal["train", "validation", "test"]

_BUCKETS = 1000


def part_of(query: str, train: float = 0.8, validation: float = 0.1) -> Part:
    """The part a query belongs to, by a hash of its name: 80 / 10 / 10 % as in the paper.

    >>> part_of("linear-0-1") == part_of("linear-0-1")
    True
    """
    bucket = int(hashlib.sha256(f"part:{query}".encode()).hexdigest()[:8], 16) % _BUCKETS
    if bucket < train * _BUCKETS:
        return "train"
    return "validation" if bucket < (train + validation) * _BUCKETS else "test"


def plans_of(table: pa.Table) -> LabelledPlans:
    """Rows as plans with labels; rows without a positive label are refused."""
    return LabelledPlans(
        PlanColumns.from_table(table),
        Labels(table.column("latency_ms").to_numpy(), table.column("throughput_per_s").to_numpy()),
        table.column("query").to_pylist(),
    )


def split(table: pa.Table, train: float = 0.8, validation: float = 0.1) -> dict[Part, pa.Table]:
    """A table in its three parts; all rows of a query are in the same one."""
    parts = np.array([part_of(query, train, validation) for query in table.column("query").to_pylist()])
    chosen: dict[Part, pa.Table] = {}
    for part in ("train", "validation", "test"):
        chosen[part] = table.filter(pa.array(parts == part))
    return chosen


def read_plans(path: Path, *, enumeration: str | None = None, columns: Iterable[str] | None = None) -> pa.Table:
    """All labelled plans below a folder, in the order of their queries, so that no file layout matters."""
    path = Path(path)
    if not path.exists():
        raise StreamTuneError(f"no labelled plans at {path}: make some with 'streamtune costmodel generate {path}'")
    wanted = None if enumeration is None else ds.field("enumeration") == enumeration
    table = ds.dataset(path, format="parquet").to_table(filter=wanted, columns=list(columns) if columns else None)
    if not table.num_rows:
        raise StreamTuneError(f"{path} has no labelled plans: make some with 'streamtune costmodel generate {path}'")
    return table.sort_by([("query", "ascending"), ("enumeration", "ascending")])
