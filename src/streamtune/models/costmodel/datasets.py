"""Labelled plans as Arrow tables: split by query, and kept apart."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from streamtune.models.costmodel.columns import PlanColumns
from streamtune.models.costmodel.model import LabelledPlans
from streamtune.models.costmodel.training import Labels
from streamtune.models.splits import bucket

Part = Literal["train", "validation", "test"]

_BUCKETS = 1000


def part_of(query: str, train: float = 0.8, validation: float = 0.1) -> Part:
    """The part a query belongs to, by a hash of its name: 80 / 10 / 10 % as in the paper.

    >>> part_of("linear-0-1") == part_of("linear-0-1")
    True
    """
    number = bucket(f"part:{query}", _BUCKETS)
    if number < train * _BUCKETS:
        return "train"
    return "validation" if number < (train + validation) * _BUCKETS else "test"


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
