"""The arrays that Python and the compiled kernels share.

The kernels are compiled with what stands here, and numba's cache does not know it: touch ``kernels.py`` after a change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamtune.similarity import settings

# Larger pairs are bounded at the root of the search only: its memory grows with the cube of the size.
SEARCHABLE_OPERATORS = settings.SEARCHABLE_OPERATORS

UNKNOWN = 1 << 30  # an upper bound that was not computed

_PAIR_FACTS, _NODE_FIELDS, _LEVEL_FIELDS, _SLOT_FIELDS, _SCRATCH_FIELDS = 4, 5, 5, 6, 3


class Graphs(NamedTuple):
    """Many typed digraphs in flat arrays; those of graph g start at ``node_start[g]`` and ``edge_start[g]``."""

    node_start: NDArray[np.int64]
    node_type: NDArray[np.int32]
    degree: NDArray[np.int32]  # undirected, descending within a graph
    edge_start: NDArray[np.int64]
    edge: NDArray[np.int32]  # edge × (from, to), numbered within the graph
    type_count: NDArray[np.int32]  # graph × type


class Search(NamedTuple):
    """The memory of one search, reused for all pairs of a batch; ``kernels`` names the fields."""

    pair: NDArray[np.int64]  # facts about the pair at hand
    node: NDArray[np.int32]  # field × side × node
    relation: NDArray[np.int8]  # side × node × node
    neighbour: NDArray[np.uint32]  # side × node × rank
    type_left: NDArray[np.int32]  # side × type: unmapped nodes
    level: NDArray[np.int64]  # depth × field
    slot: NDArray[np.int32]  # depth × field × node
    around: NDArray[np.int64]  # depth × side × node: types of the unmapped neighbours, as a bit set
    cost: NDArray[np.int32]  # depth × row × column
    anchored: NDArray[np.int32]  # the part of the cost that edges to anchors make
    scratch: NDArray[np.int32]  # field × node
    best: NDArray[np.int32]  # row → column of the cheapest full mapping so far


def new_search(size: int, types: int, depths: int) -> Search:
    """Memory for pairs of up to ``size`` operators and states of fewer than ``depths`` mapped ones."""
    return Search(
        pair=np.zeros(_PAIR_FACTS, np.int64),
        node=np.zeros((_NODE_FIELDS, 2, size), np.int32),
        relation=np.zeros((2, size, size), np.int8),
        neighbour=np.zeros((2, size, size), np.uint32),
        type_left=np.zeros((2, types), np.int32),
        level=np.zeros((depths, _LEVEL_FIELDS), np.int64),
        slot=np.zeros((depths, _SLOT_FIELDS, size), np.int32),
        around=np.zeros((depths, 2, size), np.int64),
        cost=np.zeros((depths, size, size), np.int32),
        anchored=np.zeros((depths, size, size), np.int32),
        scratch=np.zeros((_SCRATCH_FIELDS, size), np.int32),
        best=np.zeros(size, np.int32),
    )
