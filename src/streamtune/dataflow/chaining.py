"""What a plan makes of the edges: which are forwarded, and which operators run chained in one thread."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamtune.dataflow.graph import Dataflow

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def forwarded(flow: Dataflow, degrees: npt.ArrayLike) -> Bools:
    """Which edges need no exchange: plans × edges (or just edges for a single plan).

    ``degrees`` has one column per operator. An edge that is not forced to another partitioning is forwarded where both
    ends have the same parallelism, and rebalanced elsewhere: what Flink does where a job leaves partitioning open.
    """
    degrees = np.asarray(degrees, dtype=np.int64)
    source, target = _ends(flow)
    free = np.array([edge.partitioning in ("forward", "rebalance") for edge in flow.edges], dtype=np.bool_)
    same: Bools = (degrees[..., source] == degrees[..., target]) & free
    return same


def chained(flow: Dataflow, degrees: npt.ArrayLike) -> Bools:
    """Which edges are inside a chain: forwarded, and the reader has no other input (Flink's rule)."""
    _, target = _ends(flow)
    inputs = np.bincount(target, minlength=len(flow.operators))
    inside: Bools = forwarded(flow, degrees) & (inputs[target] == 1)
    return inside


def chain_heads(flow: Dataflow, degrees: npt.ArrayLike) -> Ints:
    """For every operator (last axis) the position of the operator that heads its chain; itself where it is alone.

    >>> flow = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> chain_heads(flow, [[4, 4, 1], [2, 2, 2]]).tolist()
    [[0, 0, 2], [0, 0, 0]]
    """
    return heads_of(flow, chained(flow, degrees))


def heads_of(flow: Dataflow, inside: Bools) -> Ints:
    """``chain_heads`` where it is known which edges are inside a chain (plans × edges, or just edges)."""
    shape = (*inside.shape[:-1], len(flow.operators))
    heads = np.broadcast_to(np.arange(len(flow.operators)), shape).copy()
    by_target = {target: position for position, (_, target) in enumerate(flow.edge_indices)}
    for key in flow.order:
        v = flow.index[key]
        if v in by_target:
            edge = by_target[v]
            before = flow.edge_indices[edge][0]
            heads[..., v] = np.where(inside[..., edge], heads[..., before], v)
    return heads


def grouping_numbers(flow: Dataflow, degrees: npt.ArrayLike) -> Ints:
    """How many operators run in the thread of each operator (last axis): ZeroTune's grouping number.

    >>> flow = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> grouping_numbers(flow, [4, 4, 1]).tolist()
    [2, 2, 1]
    """
    heads = chain_heads(flow, degrees)
    flat = heads.reshape(-1, heads.shape[-1])
    sizes: Ints = (flat[:, :, None] == flat[:, None, :]).sum(axis=2).reshape(heads.shape)
    return sizes


def _ends(flow: Dataflow) -> tuple[Ints, Ints]:
    pairs = np.array(flow.edge_indices, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
