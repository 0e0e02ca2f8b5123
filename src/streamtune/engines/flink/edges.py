"""Records over every edge of a Flink job, which Flink does not count: worked out from what readers and writers count.

A reader with one input says it itself, side outputs and filters chained to the writer included. Where a reader has
several inputs, its own count and those of its writers are equations for the edges, solved by least squares without
negative rates; a writer counts a record once for every output that it goes to, and once alone for a broadcast, of which
every instance of the reader gets its copy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Dataflow

# What only one equation speaks about is settled by an even split, which must not disturb the others.
_PRIOR_WEIGHT = 0.01
_WRITER_WEIGHT = 0.3

EdgeKey = tuple[str, str]
Floats = npt.NDArray[np.float64]


def edge_rates(
    flow: Dataflow, taken: Mapping[str, float], given: Mapping[str, float], degrees: Mapping[str, int]
) -> dict[EdgeKey, float]:
    """Edge → records/s, from the rates into and out of every operator; what cannot be told is left out.

    >>> from streamtune.dataflow import Edge, Operator
    >>> fork = Dataflow(tuple(Operator(id=key, type="map") for key in "abc"), (Edge("a", "b"), Edge("a", "c")))
    >>> edge_rates(fork, {"a": 100.0, "b": 90.0, "c": 3.0}, {"a": 93.0, "b": 0.0, "c": 0.0}, dict.fromkeys("abc", 1))
    {('a', 'b'): 90.0, ('a', 'c'): 3.0}
    """
    known: dict[EdgeKey, float] = {}
    open_edges: list[EdgeKey] = []
    for edge in flow.edges:
        key = (edge.source, edge.target)
        only_reader = len(flow.successors(edge.source)) == 1
        if len(flow.predecessors(edge.target)) == 1 and math.isfinite(taken[edge.target]):
            known[key] = taken[edge.target]
        elif edge.partitioning == "broadcast" and only_reader and math.isfinite(given[edge.source]):
            known[key] = given[edge.source] * degrees[edge.target]  # every instance gets its copy
        else:
            open_edges.append(key)
    if open_edges:
        known |= _solved(flow, open_edges, known, taken, given, _copies(flow, degrees))
    keys = ((edge.source, edge.target) for edge in flow.edges)
    return {key: known[key] for key in keys if key in known}


def _copies(flow: Dataflow, degrees: Mapping[str, int]) -> dict[EdgeKey, int]:
    """Edge → how many records its reader takes for each that its writer counts."""
    return {
        (edge.source, edge.target): max(1, degrees[edge.target]) if edge.partitioning == "broadcast" else 1
        for edge in flow.edges
    }


def _solved(
    flow: Dataflow,
    open_edges: list[EdgeKey],
    known: Mapping[EdgeKey, float],
    taken: Mapping[str, float],
    given: Mapping[str, float],
    copies: Mapping[EdgeKey, int],
) -> dict[EdgeKey, float]:
    """``copies`` are the records over an edge for each that its writer counts."""
    place = {key: number for number, key in enumerate(open_edges)}
    rows: list[Floats] = []
    values: list[float] = []

    def equation(keys: list[EdgeKey], total: float, weight: float, *, as_written: bool = True) -> None:
        row = np.zeros(len(open_edges))
        for key in keys:
            row[place[key]] = weight / (copies[key] if as_written else 1)
        rows.append(row)
        values.append(weight * max(0.0, total))

    for reader in dict.fromkeys(key[1] for key in open_edges):
        keys = [(before, reader) for before in flow.predecessors(reader)]
        if math.isfinite(taken[reader]):
            rest = taken[reader] - sum(known.get(key, 0.0) for key in keys)
            equation([key for key in keys if key in place], rest, 1.0, as_written=False)
    for writer in dict.fromkeys(key[0] for key in open_edges):
        keys = [(writer, reader) for reader in flow.successors(writer)]
        if math.isfinite(given[writer]):
            rest = given[writer] - sum(known.get(key, 0.0) / copies[key] for key in keys)
            mine = [key for key in keys if key in place]
            equation(mine, rest, 1.0 if len(keys) == 1 else _WRITER_WEIGHT)
            for key in mine:
                equation([key], rest / len(mine), _PRIOR_WEIGHT)
    if not rows:
        return {}
    return dict(zip(open_edges, _least_squares(np.array(rows), np.array(values)).tolist(), strict=True))


def _least_squares(rows: Floats, values: Floats) -> Floats:
    """The solution without negative rates: what comes out negative is set to 0, and the rest solved again."""
    solution = np.zeros(rows.shape[1])
    active = np.ones(rows.shape[1], dtype=np.bool_)
    while active.any():
        found, *_ = np.linalg.lstsq(rows[:, active], values, rcond=None)
        solution[:] = 0.0
        solution[active] = found
        if (found >= 0).all():
            break
        active[solution < 0] = False
    return np.maximum(solution, 0.0)
