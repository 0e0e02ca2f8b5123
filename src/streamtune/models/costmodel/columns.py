"""Plans as flat columns: what a job's operators, edges, hosts and placements look like before they become features.

R plans with N operators, E edges, H hosts and L placements in all, one plan after the other; positions in edges and
placements count within their own plan. One row of a Parquet table holds one plan, a list per column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamtune.dataflow import Job
from streamtune.dataflow.chaining import forwarded, grouping_numbers
from streamtune.dataflow.hosts import Cluster
from streamtune.errors import StreamTuneError
from streamtune.models.features import CategoryColumn, feature_columns
from streamtune.placement.slots import spread_evenly

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CATEGORIES = (
    "type",
    "partitioning",
    "tuple_type",
    "window_type",
    "window_policy",
    "join_key_class",
    "aggregate_class",
    "aggregate_key_class",
    "aggregate_function",
    "id",
)
# Selectivity is NaN where it is not known yet. Event rates are a source's, 0 elsewhere: what arrives, and what was
# asked for, which a real generator may fall short of.
OPERATOR_NUMBERS = (
    "window_length",
    "window_slide",
    "tuple_width_in",
    "tuple_width_out",
    "selectivity",
    "event_rate",
    "nominal_rate",
    "parallelism",
    "grouping",
)
HOST_NUMBERS = ("cores", "ghz", "memory_gb", "network_gbps")
_EDGES = ("edge_source", "edge_target")
_PLACEMENTS = ("placed_operator", "placed_host", "placed_instances")

PLAN_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.list_(pa.string())) for name in CATEGORIES),
        *(pa.field(name, pa.list_(pa.float64())) for name in (*OPERATOR_NUMBERS, *HOST_NUMBERS)),
        *(pa.field(name, pa.list_(pa.int64())) for name in (*_EDGES, *_PLACEMENTS)),
    ]
)
# A plan with what was measured of it, and where it comes from.
LABELLED_SCHEMA = pa.schema(
    [
        pa.field("query", pa.string()),
        pa.field("structure", pa.string()),
        pa.field("enumeration", pa.string()),
        pa.field("ranges", pa.string()),
        pa.field("latency_ms", pa.float64()),
        pa.field("throughput_per_s", pa.float64()),
        *PLAN_SCHEMA,
    ]
)


@dataclass(frozen=True)
class PlanColumns:
    """R plans, column by column."""

    categories: Mapping[str, CategoryColumn]  # of N operators
    numbers: Mapping[str, Floats]  # of N operators
    hosts: Mapping[str, Floats]  # of H hosts
    edges: Ints  # 2 × E
    placements: Ints  # 3 × L: operator, host, instances
    sizes: Ints  # R: operators of each plan
    edge_counts: Ints  # R
    host_counts: Ints  # R
    placement_counts: Ints  # R

    @property
    def plans(self) -> int:
        return len(self.sizes)

    @classmethod
    def of_plans(
        cls,
        job: Job,
        degrees: npt.ArrayLike,
        cluster: Cluster,
        *,
        rates: Mapping[str, float] | None = None,
        nominal_rates: Mapping[str, float] | None = None,
        selectivities: Mapping[str, float] | None = None,
    ) -> PlanColumns:
        """Many plans of one job on one cluster: ``degrees`` is plans × operators, in the order of the dataflow.

        Without ``nominal_rates`` what arrives is what was asked for.
        """
        flow, offered, known = job.dataflow, rates or job.source_rates, selectivities or {}
        degrees = np.atleast_2d(np.asarray(degrees, dtype=np.int64))
        plans, size = degrees.shape
        if size != len(flow.operators):
            raise StreamTuneError(f"a plan of '{job.name}' has {len(flow.operators)} degrees, but got {size}")
        placed = spread_evenly(cluster, degrees)
        where = np.nonzero(placed)
        edges = np.array(flow.edge_indices, dtype=np.int64).reshape(-1, 2).T
        static = feature_columns(flow)
        own = dict(static.numbers)
        own["selectivity"] = np.array([known.get(operator.id, np.nan) for operator in flow.operators])
        own["event_rate"] = np.array([offered.get(operator.id, 0.0) for operator in flow.operators])
        asked = nominal_rates or offered
        own["nominal_rate"] = np.array([asked.get(operator.id, 0.0) for operator in flow.operators])
        numbers = {name: np.tile(values, plans) for name, values in own.items()}
        numbers["parallelism"] = degrees.ravel().astype(np.float64)
        numbers["grouping"] = grouping_numbers(flow, degrees).ravel().astype(np.float64)
        categories = {name: _tiled(static.categories[name], plans) for name in CATEGORIES if name != "partitioning"}
        return cls(
            categories={**categories, "partitioning": _partitioning(job, degrees)},
            numbers=numbers,
            hosts={
                name: np.tile([float(getattr(host, name)) for host in cluster.hosts], plans) for name in HOST_NUMBERS
            },
            edges=np.tile(edges, plans),
            placements=np.stack([where[1], where[2], placed[where]]),
            sizes=np.full(plans, size, dtype=np.int64),
            edge_counts=np.full(plans, edges.shape[1], dtype=np.int64),
            host_counts=np.full(plans, len(cluster.hosts), dtype=np.int64),
            placement_counts=np.bincount(where[0], minlength=plans),
        )

    @classmethod
    def from_table(cls, table: pa.Table) -> PlanColumns:
        """The rows of a table that has the columns of ``PLAN_SCHEMA``."""
        return cls(
            categories={name: _category_column(table, name) for name in CATEGORIES},
            numbers={name: _flat(table, name).astype(np.float64) for name in OPERATOR_NUMBERS},
            hosts={name: _flat(table, name).astype(np.float64) for name in HOST_NUMBERS},
            edges=np.stack([_flat(table, name).astype(np.int64) for name in _EDGES]),
            placements=np.stack([_flat(table, name).astype(np.int64) for name in _PLACEMENTS]),
            sizes=_lengths(table, "type"),
            edge_counts=_lengths(table, "edge_source"),
            host_counts=_lengths(table, "cores"),
            placement_counts=_lengths(table, "placed_operator"),
        )

    def to_record(self) -> dict[str, list[Any]]:
        """A single plan as one row of such a table."""
        if self.plans != 1:
            raise StreamTuneError(f"a row holds one plan, but got {self.plans}")
        texts = {
            name: [column.values[position] if position >= 0 else None for position in column.positions]
            for name, column in self.categories.items()
        }
        numbers = {name: values.tolist() for name, values in (*self.numbers.items(), *self.hosts.items())}
        edges = dict(zip(_EDGES, self.edges.tolist(), strict=True))
        return {**texts, **numbers, **edges, **dict(zip(_PLACEMENTS, self.placements.tolist(), strict=True))}


def _partitioning(job: Job, degrees: Ints) -> CategoryColumn:
    """How records reach an operator under each plan: forward only if all its inputs are; −1 for sources."""
    flow = job.dataflow
    values = ("broadcast", "forward", "hash", "rebalance")
    is_forward = forwarded(flow, degrees)
    positions = np.full(degrees.shape, -1, dtype=np.int64)
    for edge, (_, target) in enumerate(flow.edge_indices):
        asked = flow.edges[edge].partitioning
        exchanged = values.index("rebalance" if asked == "forward" else asked)
        this = np.where(is_forward[:, edge], values.index("forward"), exchanged)
        positions[:, target] = np.where(
            (positions[:, target] < 0) | (positions[:, target] == values.index("forward")), this, positions[:, target]
        )
    return CategoryColumn(positions.ravel(), values)


def _tiled(column: CategoryColumn, times: int) -> CategoryColumn:
    return CategoryColumn(np.tile(column.positions, times), column.values)


def _category_column(table: pa.Table, name: str) -> CategoryColumn:
    coded = pa.chunked_array([table.column(name).combine_chunks().flatten()]).combine_chunks().dictionary_encode()
    positions = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    values: Sequence[str] = coded.dictionary.to_pylist()
    return CategoryColumn(positions, values)


def _flat(table: pa.Table, name: str) -> npt.NDArray[Any]:
    flat: npt.NDArray[Any] = table.column(name).combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return flat


def _lengths(table: pa.Table, name: str) -> Ints:
    lengths = table.column(name).combine_chunks().value_lengths()
    return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
