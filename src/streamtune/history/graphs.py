"""The dataflow graphs of a batch of stored runs, flat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, StructField, StructType

from streamtune.history.flatten import Bools, Floats, IdIndex, Indices, Ragged, codes_of, floats, map_as_list
from streamtune.history.schema import EDGE, OPERATOR, STORED_RUN


def graph_columns(*columns: str, operators: tuple[str, ...] = ()) -> StructType:
    """The part of a stored run that ``FlatGraphs`` needs, further columns, and further fields of operators.

    ``Table.read`` reads no more than this from Parquet. Operators stay lists of structs: to take them apart field by
    field in Spark costs more than twice as much as to hand them over whole.
    """
    fields = {field.name: field for field in STORED_RUN.fields}
    operator = StructType([field for field in OPERATOR.fields if field.name in ("id", *operators)])
    edge = StructType([field for field in EDGE.fields if field.name in ("source", "target", "records_per_s")])
    return StructType(
        [
            *(fields[name] for name in columns),
            fields["source_rates"],
            StructField("operators", ArrayType(operator, containsNull=False), nullable=False),
            StructField("edges", ArrayType(edge, containsNull=False), nullable=False),
        ]
    )


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
    edge_per_s: Floats  # E: records over the edge, NaN where nobody counted them

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> FlatGraphs:
        operators, edges = Ragged.of(batch.column("operators")), Ragged.of(batch.column("edges"))
        rates = Ragged.of(map_as_list(batch.column("source_rates")))
        id_code, source_code, target_code, rate_code = codes_of(
            pc.struct_field(operators.values, "id"),
            pc.struct_field(edges.values, "source"),
            pc.struct_field(edges.values, "target"),
            pc.struct_field(rates.values, "key"),
        )
        width = len(id_code) + 2 * len(source_code) + len(rate_code) + 1
        index = IdIndex.of(operators.row, id_code, width)
        # In a valid run the sources are exactly the operators with a rate: their types need not be read.
        rated = index.find(rates.row, rate_code)
        nominal = np.full(len(id_code), np.nan)
        nominal[rated] = floats(pc.struct_field(rates.values, "value"))
        is_source = np.zeros(len(id_code), dtype=np.bool_)
        is_source[rated] = True
        return cls(
            run=operators.row,
            sizes=operators.lengths,
            is_source=is_source,
            nominal_per_s=nominal,
            edge_source=index.find(edges.row, source_code),
            edge_target=index.find(edges.row, target_code),
            edge_run=edges.row,
            edge_per_s=_edge_rates(edges.values),
        )

    @property
    def starts(self) -> Indices:
        """Position of each run's first operator."""
        return np.cumsum(self.sizes) - self.sizes


def _edge_rates(edges: Any) -> Floats:
    """Batches that were made without the column have no rates of edges."""
    names = [field.name for field in edges.type]
    if "records_per_s" not in names:
        return np.full(len(edges), np.nan)
    return floats(pc.struct_field(edges, "records_per_s"))


def operator_values(batch: pa.RecordBatch, name: str) -> Any:
    """One field of all operators, flat."""
    return pc.struct_field(pc.list_flatten(batch.column("operators")), name)
