"""Slow, independent ways to the edit distance, and kernels that look inside the fast one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from streamtune.dataflow import Dataflow
from streamtune.similarity.kernels import (
    anchor,
    assignment_bound,
    inherit,
    label_set_bound,
    open_pair,
)
from streamtune.similarity.layout import Graphs, Search, new_search
from streamtune.similarity.packed import pack

ENDLESS = 1 << 20


def relation_of(flow: Dataflow) -> NDArray[np.int8]:
    """0 without an edge, 1 for i → j, 2 for j → i; one more row and column for "deleted"."""
    relation = np.zeros((len(flow.types) + 1, len(flow.types) + 1), np.int8)
    for tail, head in flow.edge_indices:
        relation[tail, head], relation[head, tail] = 1, 2
    return relation


@cache
def partial_mappings(rows: int, columns: int) -> NDArray[np.int64]:
    """All ways to send each of ``rows`` to a column of its own or to nowhere (= ``columns``)."""
    mappings: list[list[int]] = [[]]
    for _ in range(rows):
        mappings = [
            [*mapping, column]
            for mapping in mappings
            for column in range(columns + 1)
            if column == columns or column not in mapping
        ]
    return np.array(mappings, np.int64).reshape(len(mappings), rows)


def mapping_costs(a: Dataflow, b: Dataflow, mappings: NDArray[np.int64]) -> NDArray[np.int64]:
    """What each partial mapping costs, straight from the definition."""
    columns = len(b.types)
    here, there = relation_of(a), relation_of(b)
    mapped = (mappings < columns).sum(axis=1)
    cost = (len(a.types) - mapped) + (columns - mapped)
    codes = {kind: code for code, kind in enumerate({*a.types, *b.types})}
    there_types = np.array([codes[kind] for kind in b.types] + [-1])
    for row, kind in enumerate(a.types):
        cost += (mappings[:, row] < columns) & (there_types[mappings[:, row]] != codes[kind])
    met = np.zeros(len(mappings), np.int64)
    for row in range(len(a.types)):
        for other in range(row):
            found = there[mappings[:, row], mappings[:, other]]
            cost += found != here[row, other]
            met += found != 0
    return cost + len(b.edge_indices) - met  # edges of b with an inserted end


def brute_force(a: Dataflow, b: Dataflow) -> int:
    """The least cost over all partial mappings."""
    return int(mapping_costs(a, b, partial_mappings(len(a.types), len(b.types))).min())


def integer_program(a: Dataflow, b: Dataflow) -> int:
    """The distance by integer programming: HiGHS chooses the mapping x and the edges y it preserves or reverses.

    An edge that is preserved saves its deletion and its insertion; one that is reversed saves one of the two.
    """
    rows, columns = len(a.types), len(b.types)
    node = {(i, k): i * columns + k for i in range(rows) for k in range(columns)}
    saved = [-2.0 + (a.types[i] != b.types[k]) for i, k in node]
    constraints: list[tuple[dict[int, float], float]] = []
    constraints += [({node[i, k]: 1.0 for k in range(columns)}, 1.0) for i in range(rows)]
    constraints += [({node[i, k]: 1.0 for i in range(rows)}, 1.0) for k in range(columns)]
    for tail, head in a.edge_indices:
        at_tail: dict[int, dict[int, float]] = {k: {} for k in range(columns)}
        at_head: dict[int, dict[int, float]] = {k: {} for k in range(columns)}
        for other_tail, other_head in b.edge_indices:
            for gain, first, last in ((2.0, other_tail, other_head), (1.0, other_head, other_tail)):
                at_tail[first][len(saved)] = 1.0
                at_head[last][len(saved)] = 1.0
                saved.append(-gain)
        for k in range(columns):
            constraints.append(({**at_tail[k], node[tail, k]: -1.0}, 0.0))
            constraints.append(({**at_head[k], node[head, k]: -1.0}, 0.0))
    total = rows + columns + len(a.edges) + len(b.edges)
    if not saved:
        return total
    entries = [(index, column, value) for index, (row, _) in enumerate(constraints) for column, value in row.items()]
    index, column, value = zip(*entries, strict=True)
    matrix = coo_array((value, (index, column)), shape=(len(constraints), len(saved))).tocsr()
    limits = LinearConstraint(matrix, -np.inf, np.array([bound for _, bound in constraints]))
    solved = milp(np.array(saved), constraints=limits, bounds=Bounds(0, 1), integrality=np.ones(len(saved)))
    assert solved.success, solved.message
    return round(total + solved.fun)


@numba.njit  # type: ignore[untyped-decorator]
def _replay(
    graphs: Graphs, search: Search, rows: NDArray[np.int64], columns: NDArray[np.int64], result: NDArray[np.int64]
) -> None:
    open_pair(graphs, search, 0, 1)
    assignment_bound(search, 0, ENDLESS)
    for depth in range(len(rows)):
        anchor(search, depth, rows[depth], columns[depth])
        inherit(search, depth + 1, rows[depth], columns[depth], ENDLESS)
        result[depth, 0] = label_set_bound(search, depth + 1)
        result[depth, 1] = assignment_bound(search, depth + 1, ENDLESS)


def bounds_along(a: Dataflow, b: Dataflow, steps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(label-set bound, assignment bound) after each step (row, column) of a search; ``a`` is not the larger one."""
    assert 0 < len(a.types) <= len(b.types)
    packed = pack((a, b))
    size = len(b.types)
    search = new_search(size, len(packed.types), size + 1)
    result = np.zeros((len(steps), 2), np.int64)
    rows, columns = (np.array([step[side] for step in steps], np.int64) for side in (0, 1))
    _replay(packed.graphs, search, rows, columns, result)
    return [(int(label_set), int(assignment)) for label_set, assignment in result]
