"""Graphs to measure: random ones, renumbered ones, edited ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

from streamtune.dataflow import Dataflow

FEW_TYPES = ("filter", "map", "join")


def random_dag(rng: random.Random, size: int, edge_share: float, types: Sequence[str] = FEW_TYPES) -> Dataflow:
    """``size`` operators, each possible edge with probability ``edge_share``, numbered in random order."""
    pairs = [(a, b) for b in range(size) for a in range(b) if rng.random() < edge_share]
    return renumbered(rng, Dataflow.from_edges([rng.choice(types) for _ in range(size)], pairs))


def sparse_dag(rng: random.Random, size: int, extra: int = 2, types: Sequence[str] = FEW_TYPES) -> Dataflow:
    """A connected DAG as dataflows are: a tree of operators with ``extra`` more edges."""
    pairs = {(rng.randrange(max(0, node - 3), node), node) for node in range(1, size)}
    for _ in range(extra if size > 2 else 0):
        pairs.add(tuple(sorted(rng.sample(range(size), 2))))  # type: ignore[arg-type]
    return renumbered(rng, Dataflow.from_edges([rng.choice(types) for _ in range(size)], sorted(pairs)))


def renumbered(rng: random.Random, flow: Dataflow) -> Dataflow:
    """The same shape with its operators and edges in another order."""
    order = list(range(len(flow.types)))
    rng.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    edges = [(place[a], place[b]) for a, b in flow.edge_indices]
    rng.shuffle(edges)
    return Dataflow.from_edges([flow.types[old] for old in order], edges)
