"""Planted clusters: families of dataflows, each a base and random edits of it."""

from __future__ import annotations

import numpy as np

from streamtune.dataflow import Dataflow

_TYPES = ("map", "filter", "flat_map", "aggregate", "window_aggregate", "window_join")
_EDITS = 2


def planted(seed: int, families: int, members: int) -> tuple[list[Dataflow], list[int]]:
    """Distinct shapes and the family of each; bases differ in size by four operators, members by two edits at most."""
    random = np.random.default_rng([7, seed])
    flows: dict[str, Dataflow] = {}
    truth: dict[str, int] = {}
    for family in range(families):
        base = _base(random, 4 + 4 * family)
        found = 0
        while found < members:
            flow = base if found == 0 else _edited(base, random)
            if flow.canonical_form not in flows:
                flows[flow.canonical_form], truth[flow.canonical_form] = flow, family
                found += 1
    return list(flows.values()), list(truth.values())


def _base(random: np.random.Generator, size: int) -> Dataflow:
    types = ["source", *random.choice(_TYPES, size - 2), "sink"]
    edges = {(int(random.integers(max(0, node - 3), node)), node) for node in range(1, size)}
    return Dataflow.from_edges([str(kind) for kind in types], sorted(edges))


def _edited(base: Dataflow, random: np.random.Generator) -> Dataflow:
    """One or two type changes or new edges."""
    types, edges = list(base.types), set(base.edge_indices)
    for _ in range(int(random.integers(1, _EDITS + 1))):
        if random.random() < 0.5:
            types[int(random.integers(1, len(types) - 1))] = str(random.choice(_TYPES))
        else:
            # Bases are numbered in topological order, so that an edge upwards closes no cycle; none leaves the sink.
            a, b = sorted(int(node) for node in random.choice(len(types), 2, replace=False))
            edges.add((a, b))
    return Dataflow.from_edges(types, sorted(edges))
