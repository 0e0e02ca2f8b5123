"""The dataflow graphs of a batch of stored runs, flat. No Spark but the selection of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streamtune.history.flatten import Bools, Floats, IdIndex, Indices, Ragged, codes_of, floats

_GRAPH = {
    "op_id": "operators.id",
    "edge_source": "edges.source",
    "edge_target": "edges.target",
}


def select_graphs(runs: DataFrame, *columns: str, operators: tuple[str, ...] = ()) -> DataFrame:
    """What ``FlatGraphs`` needs, further columns as they are, and fields of operators as one list each.

    Lists of single fields instead of lists of structs: Spark then reads only these from Parquet.
    """
    graph = [sql.col(path).alias(name) for name, path in _GRAPH.items()]
    rates: list[Column] = [
        sql.map_keys("source_rates").alias("rate_id"),
        sql.map_values("source_rates").alias("rate_per_s"),
    ]
    fields = [sql.col(f"operators.{name}").alias(name) for name in operators]
    return runs.select(*columns, *graph, *rates, *fields)


@dataclass(frozen=True, slots=True)
class FlatGraphs:
    """N operators and E edges of R runs, one after the other; edges are pairs of positions among the N."""

    run: Indices  # N
    sizes: Indices  # R: operators per run
    is_source: Bools  # N
    nominal_per_s: Floats  # N: offered rate of a source, NaN for all others
    edge_source: Indices  # E
    edge_target: Indices  # E
    edge_run: Indices  # E

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> FlatGraphs:
        ids = Ragged.of(batch.column("op_id"))
        sources, targets = Ragged.of(batch.column("edge_source")), Ragged.of(batch.column("edge_target"))
        rates, amounts = Ragged.of(batch.column("rate_id")), Ragged.of(batch.column("rate_per_s"))
        id_code, source_code, target_code, rate_code = codes_of(
            ids.values, sources.values, targets.values, rates.values
        )
        width = len(id_code) + 2 * len(source_code) + len(rate_code) + 1
        index = IdIndex.of(ids.row, id_code, width)
        # In a valid run the sources are exactly the operators with a rate: their types need not be read.
        rated = index.find(rates.row, rate_code)
        nominal = np.full(len(id_code), np.nan)
        nominal[rated] = floats(amounts.values)
        is_source = np.zeros(len(id_code), dtype=np.bool_)
        is_source[rated] = True
        return cls(
            run=ids.row,
            sizes=ids.lengths,
            is_source=is_source,
            nominal_per_s=nominal,
            edge_source=index.find(sources.row, source_code),
            edge_target=index.find(targets.row, target_code),
            edge_run=sources.row,
        )

    @property
    def starts(self) -> Indices:
        """Position of each run's first operator."""
        return np.cumsum(self.sizes) - self.sizes


def operator_values(batch: pa.RecordBatch, name: str) -> Any:
    """One field of all operators, flat."""
    return pc.list_flatten(batch.column(name))
