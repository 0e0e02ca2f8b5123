"""How much weight lies within τ of a shape, without looking at most of the pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from streamtune.similarity.distance import measure_pairs
from streamtune.similarity.distance_table import PROOF_STATES
from streamtune.similarity.packed import PackedDataflows

Indices = NDArray[np.int64]

_PAIRS_AT_ONCE = 1 << 19


def similar_weights(
    packed: PackedDataflows, rows: Indices, columns: Indices, weights: Indices, tau: int, states: int = PROOF_STATES
) -> Indices:
    """For each shape in ``rows`` the sum of ``weights`` over those ``columns`` that are within ``tau`` edits of it.

    Shapes lie in cells of equal numbers of operators and edges. |Δ operators| + |Δ edges| is a lower bound of the
    distance, so a shape meets only the cells within ``tau`` of its own; the compiled filters and the search see the
    rest. Memory does not grow with the number of pairs. A pair that ``states`` cannot settle counts as not similar.

    >>> from streamtune.dataflow import Dataflow
    >>> from streamtune.similarity import pack
    >>> chains = pack(Dataflow.from_edges(["map"] * n, [(i, i + 1) for i in range(n - 1)]) for n in (1, 2, 3, 9))
    >>> similar_weights(chains, np.arange(4), np.arange(4), np.array([1, 10, 100, 1000]), tau=2).tolist()
    [11, 111, 110, 1000]
    """
    operators, edges = packed.sizes, np.diff(packed.graphs.edge_start)
    found = np.zeros(len(rows), np.int64)
    for row_positions, column_positions in _cells(operators, edges, rows, columns, tau):
        for part in np.array_split(row_positions, -(-len(row_positions) * len(column_positions) // _PAIRS_AT_ONCE)):
            pairs = np.empty((len(part), len(column_positions), 2), np.int64)
            pairs[:, :, 0] = rows[part][:, None]
            pairs[:, :, 1] = columns[column_positions][None, :]
            upper = measure_pairs(packed, pairs.reshape(-1, 2), limit=tau, verify=True, budget=states).upper
            found[part] = (upper <= tau).reshape(len(part), -1) @ weights[column_positions]
    return found


def pairs_met(packed: PackedDataflows, rows: Indices, columns: Indices, tau: int) -> int:
    """How many pairs ``similar_weights`` looks at: those of cells within ``tau`` of each other.

    >>> from streamtune.dataflow import Dataflow
    >>> from streamtune.similarity import pack
    >>> chains = pack(Dataflow.from_edges(["map"] * n, [(i, i + 1) for i in range(n - 1)]) for n in (1, 2, 3, 9))
    >>> pairs_met(chains, np.arange(4), np.arange(4), tau=2)
    8
    """
    cells = _cells(packed.sizes, np.diff(packed.graphs.edge_start), rows, columns, tau)
    return sum(len(of_rows) * len(of_columns) for of_rows, of_columns in cells)


def _cells(
    operators: Indices, edges: Indices, rows: Indices, columns: Indices, tau: int
) -> Iterator[tuple[Indices, Indices]]:
    """Positions of the rows of each cell, and of all columns that are near enough to it."""
    keys, cell = np.unique(np.column_stack((operators[rows], edges[rows])), axis=0, return_inverse=True)
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(len(keys) + 1))
    for number, (size, wires) in enumerate(keys):
        near = np.abs(operators[columns] - size) + np.abs(edges[columns] - wires) <= tau
        if near.any():
            yield order[starts[number] : starts[number + 1]], np.flatnonzero(near)
