"""Kernels over a graph alone: its connected pieces, and merging of parallel edges."""

from __future__ import annotations

import numpy as np

from streamtune.placement.compilation import kernel
from streamtune.placement.graph import Floats, Ints


@kernel
def connected_pieces(indptr: Ints, indices: Ints) -> Ints:
    """The number of each vertex's connected piece, in order of the first vertex."""
    n = indptr.size - 1
    piece = np.full(n, -1, np.int64)
    stack = np.empty(n, np.int64)
    count = 0
    for start in range(n):
        if piece[start] >= 0:
            continue
        piece[start] = count
        stack[0] = start
        top = 1
        while top > 0:
            top -= 1
            v = stack[top]
            for at in range(indptr[v], indptr[v + 1]):
                u = indices[at]
                if piece[u] < 0:
                    piece[u] = count
                    stack[top] = u
                    top += 1
        count += 1
    return piece


@kernel
def merge_rows(indptr: Ints, columns: Ints, weights: Floats) -> tuple[Ints, Ints, Floats]:
    """Compressed rows in which every column is there once, its weights added up."""
    n = indptr.size - 1
    out_ptr = np.zeros(n + 1, np.int64)
    out_col = np.empty(columns.size, np.int64)
    out_w = np.empty(columns.size, np.float64)
    place = np.full(n, -1, np.int64)
    at = 0
    for v in range(n):
        start = at
        for j in range(indptr[v], indptr[v + 1]):
            u = columns[j]
            if place[u] >= start:
                out_w[place[u]] += weights[j]
            else:
                place[u] = at
                out_col[at] = u
                out_w[at] = weights[j]
                at += 1
        out_ptr[v + 1] = at
    return out_ptr, out_col[:at].copy(), out_w[:at].copy()
