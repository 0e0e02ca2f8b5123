"""``pack``: many dataflows in flat arrays, the form the kernels read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from streamtune.dataflow import Dataflow
from streamtune.similarity.layout import Graphs

_ROUNDS = 4
_OUT, _IN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(frozen=True)
class PackedDataflows:
    """Typed DAGs ready for the kernels: pack once, then ask for as many pairs as you like."""

    graphs: Graphs
    types: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.graphs.edge_start) - 1

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Operators per dataflow."""
        return np.diff(self.graphs.node_start)

    @cached_property
    def largest(self) -> int:
        """Operators of the largest dataflow."""
        return int(self.sizes.max(initial=0))

    def fingerprints(self) -> NDArray[np.uint64]:
        """One number per dataflow, equal for isomorphic ones and rarely for others.

        Four rounds of colour refinement (Weisfeiler and Leman): every node mixes the colours of its successors and
        predecessors into its own; the sum over the nodes forgets their order.
        """
        graphs = self.graphs
        offset = np.repeat(graphs.node_start[:-1], np.diff(graphs.edge_start))
        tail, head = offset + graphs.edge[:, 0], offset + graphs.edge[:, 1]
        colour = _mix(graphs.node_type.astype(np.uint64))
        for _ in range(_ROUNDS):
            after, before = np.zeros_like(colour), np.zeros_like(colour)
            np.add.at(after, tail, colour[head])
            np.add.at(before, head, colour[tail])
            colour = _mix(colour + _mix(after * _OUT) + _mix(before * _IN))
        total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(colour, dtype=np.uint64)))
        return total[graphs.node_start[1:]] - total[graphs.node_start[:-1]]


def pack(dataflows: Iterable[Dataflow]) -> PackedDataflows:
    """Put dataflows into flat arrays; their order is their number.

    >>> flow = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> packed = pack([flow, flow])
    >>> len(packed), packed.sizes.tolist()
    (2, [3, 3])
    """
    flows = list(dataflows)
    return pack_structures([flow.types for flow in flows], [flow.edge_indices for flow in flows])


def pack_structures(types: Sequence[Sequence[str]], edges: Sequence[Sequence[tuple[int, int]]]) -> PackedDataflows:
    """``pack`` for bare structures: the types of each graph's nodes, and its edges as pairs of positions."""
    names = list(chain.from_iterable(types))
    known = sorted(set(names))
    codes = {name: code for code, name in enumerate(known)}
    node_type = np.fromiter(map(codes.__getitem__, names), np.int32, len(names))
    sizes = np.fromiter(map(len, types), np.int64, len(types))
    edge_counts = np.fromiter(map(len, edges), np.int64, len(edges))
    ends = np.fromiter(chain.from_iterable(chain.from_iterable(edges)), np.int32, 2 * int(edge_counts.sum()))
    edge = ends.reshape(-1, 2)
    node_start, edge_start = _starts(sizes), _starts(edge_counts)
    graph = np.repeat(np.arange(len(sizes)), sizes)
    degree = np.bincount((np.repeat(node_start[:-1], edge_counts)[:, None] + edge).ravel(), minlength=len(names))
    descending = np.lexsort((-degree, graph))
    counts = np.bincount(graph * len(known) + node_type, minlength=len(sizes) * len(known))
    return PackedDataflows(
        Graphs(
            node_start=node_start,
            node_type=node_type,
            degree=degree[descending].astype(np.int32),
            edge_start=edge_start,
            edge=edge,
            type_count=counts.reshape(len(sizes), len(known)).astype(np.int32),
        ),
        tuple(known),
    )


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every input bit stirs every output bit."""
    word = (word + _OUT).astype(np.uint64)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
