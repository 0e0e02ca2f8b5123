"""The synthetic topologies of Fischer's thesis (study 2, Section 4.2): layer-by-layer graphs with Table 2's numbers.

Vertices stand in layers; edges go to later layers only. The thesis drew them with GGen and kept three graphs that met
its numbers; here a seeded search draws a graph and repairs it until vertices, edges, layers, sources and sinks are
*exactly* Table 2's: every seed is another graph of the same kind. Work per tuple is 20 units of 1 ms, or uniform in
[0, 40] with a mean of 20 ("100 % time imbalance"); vertices with a quarter of all units may be contentious: their
work is multiplied by their own number of instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamtune.dataflow import Dataflow, Edge, Operator
from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen

MEAN_UNITS = 20.0
UNIT_S = 0.001


class Shape(Frozen):
    """One row of Table 2."""

    name: str
    vertices: int
    edges: int
    layers: int
    probability: float
    sources: int
    sinks: int
    out_degree: float


TABLE_2 = {
    "small": Shape(
        name="small", vertices=10, edges=17, layers=4, probability=0.40, sources=3, sinks=3, out_degree=1.70
    ),
    "medium": Shape(
        name="medium", vertices=50, edges=88, layers=5, probability=0.08, sources=17, sinks=17, out_degree=1.76
    ),
    "large": Shape(
        name="large", vertices=100, edges=170, layers=10, probability=0.04, sources=29, sinks=27, out_degree=1.65
    ),
}


@dataclass(frozen=True)
class Topology:
    """A graph with the hidden work of its vertices; ``weights`` is what the thesis' informed strategies know."""

    name: str
    parents: tuple[tuple[int, ...], ...]
    layer: tuple[int, ...]
    units: tuple[float, ...]
    contentious: tuple[bool, ...]

    @property
    def size(self) -> int:
        return len(self.parents)

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """Base parallelism weight: 1 for a spout, the sum of the parents' for a bolt (thesis, Section 5.1)."""
        found: list[float] = []
        for parents in self.parents:
            found.append(sum(found[parent] for parent in parents) if parents else 1.0)
        return tuple(found)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        below: list[list[int]] = [[] for _ in self.parents]
        for vertex, parents in enumerate(self.parents):
            for parent in parents:
                below[parent].append(vertex)
        return tuple(tuple(some) for some in below)

    @property
    def edges(self) -> int:
        return sum(len(parents) for parents in self.parents)

    @property
    def sources(self) -> tuple[int, ...]:
        return tuple(vertex for vertex, parents in enumerate(self.parents) if not parents)

    @property
    def sinks(self) -> tuple[int, ...]:
        return tuple(vertex for vertex, some in enumerate(self.children) if not some)

    @cached_property
    def dataflow(self) -> Dataflow:
        """The bare graph, without the work: what similarity and tuners may see."""
        kinds = [
            "source" if not self.parents[v] else "sink" if not self.children[v] else "map" for v in range(self.size)
        ]
        operators = tuple(Operator(id=f"v{vertex}", type=kind) for vertex, kind in enumerate(kinds))
        edges = tuple(Edge(f"v{parent}", f"v{v}") for v, parents in enumerate(self.parents) for parent in parents)
        return Dataflow(operators, edges)


def layered(size: str, *, seed: int, imbalance: float = 0.0, contention: float = 0.0) -> Topology:
    """A topology of Table 2's row ``size``.

    :param imbalance: 0 (every vertex 20 units) to 1 (uniform in [0, 40]).
    :param contention: share of all units that lies in contentious vertices.

    >>> one = layered("small", seed=1)
    >>> one.size, one.edges, len(one.sources), len(one.sinks)
    (10, 17, 3, 3)
    """
    if size not in TABLE_2:
        raise StreamTuneError(f"no topology size {size!r}: there are {', '.join(TABLE_2)}")
    if not (0 <= imbalance <= 1 and 0 <= contention < 1):
        raise StreamTuneError(
            f"imbalance must be in [0, 1] and contention in [0, 1), got {imbalance:g}, {contention:g}"
        )
    shape = TABLE_2[size]
    for attempt in range(10_000):
        generator = np.random.default_rng([seed, shape.vertices, attempt])
        drawn = _draw(shape, generator)
        if drawn is not None:
            parents, layer = drawn
            break
    else:
        raise StreamTuneError(f"no graph with the numbers of '{size}' was found for seed {seed}: take another seed")
    units = MEAN_UNITS * (1.0 + imbalance * generator.uniform(-1.0, 1.0, shape.vertices))
    if imbalance:
        units *= MEAN_UNITS / units.mean()
    flags = _contentious(units, contention, generator)
    name = f"{size}-{seed}-imbalance{100 * imbalance:.0f}-contention{100 * contention:.0f}"
    return Topology(name, parents, layer, tuple(float(unit) for unit in units), flags)


def _draw(shape: Shape, generator: np.random.Generator) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]] | None:
    """One graph: sources and sinks are chosen first, then edges until their number is right; None if it fails."""
    layer = np.sort(
        np.concatenate([np.arange(shape.layers), generator.integers(0, shape.layers, shape.vertices - shape.layers)])
    )
    first, last = np.flatnonzero(layer == 0), np.flatnonzero(layer == shape.layers - 1)
    if len(first) > shape.sources or len(last) > shape.sinks:
        return None
    middle = np.flatnonzero((layer > 0) & (layer < shape.layers - 1))
    sources = {int(v) for v in first} | _early(middle, shape.sources - len(first), layer, generator)
    free = np.array([vertex for vertex in middle if vertex not in sources])
    if len(sources) < shape.sources or len(free) < shape.sinks - len(last):
        return None
    sinks = {int(v) for v in last} | _early(free, shape.sinks - len(last), -layer, generator)
    if len(sinks) < shape.sinks or sources & sinks:
        return None
    return _connect(shape, layer, sources, sinks, generator)


def _early(vertices: NDArray[Any], count: int, layer: NDArray[Any], generator: np.random.Generator) -> set[int]:
    """``count`` of the vertices, likelier the earlier their layer: a random graph's sources lie near its top."""
    if count <= 0 or len(vertices) < count:
        return set()
    weight = np.exp(-(layer[vertices] - layer[vertices].min()).astype(float))
    chosen = generator.choice(vertices, size=count, replace=False, p=weight / weight.sum())
    return {int(vertex) for vertex in chosen}


def _connect(
    shape: Shape,
    layer: NDArray[Any],
    sources: set[int],
    sinks: set[int],
    generator: np.random.Generator,
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]] | None:
    pairs = [
        (a, b)
        for a in range(shape.vertices)
        for b in range(a + 1, shape.vertices)
        if layer[a] < layer[b] and a not in sinks and b not in sources
    ]
    edges: set[tuple[int, int]] = set()
    for vertex in generator.permutation(shape.vertices):  # everybody who needs an input or an output gets one
        if vertex not in sources and not any(b == vertex for _, b in edges):
            into = [pair for pair in pairs if pair[1] == vertex]
            if not into:
                return None
            edges.add(into[int(generator.integers(len(into)))])
        if vertex not in sinks and not any(a == vertex for a, _ in edges):
            out = [pair for pair in pairs if pair[0] == vertex]
            if not out:
                return None
            edges.add(out[int(generator.integers(len(out)))])
    rest = [pair for pair in pairs if pair not in edges]
    missing = shape.edges - len(edges)
    if missing < 0 or missing > len(rest):
        return None
    edges |= {rest[place] for place in generator.choice(len(rest), size=missing, replace=False)}
    parents = tuple(tuple(sorted(int(a) for a, b in edges if b == vertex)) for vertex in range(shape.vertices))
    return parents, tuple(int(one) for one in layer)


def _contentious(units: NDArray[Any], share: float, generator: np.random.Generator) -> tuple[bool, ...]:
    """Vertices flagged at random until their units are the share of all (at least it, by less than one vertex)."""
    flags = [False] * len(units)
    wanted = share * float(units.sum())
    for vertex in generator.permutation(len(units)):
        if wanted <= 1e-9:
            break
        flags[int(vertex)] = True
        wanted -= float(units[vertex])
    return tuple(flags)
