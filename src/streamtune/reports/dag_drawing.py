"""Where to put the boxes and wires of a dataflow: a layered drawing from left to right.

The classic four steps of Sugiyama, Tagawa and Toda (1981), sized for the few dozen operators of a streaming job: layers
by longest path, a bend in every layer that a long wire crosses, an order within the layers by barycentre sweeps, and
heights by least squares under that order. A bend takes room like a box does, and a curve stays in the gap between two
layers: no wire can run through a box.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from streamtune.errors import DataflowError

BOX_WIDTH = 172.0
BOX_HEIGHT = 104.0
LAYER_GAP = 46.0
ROW_GAP = 18.0
_BEND_HEIGHT = 6.0
_PORT_GAP = 13.0
_ARROW = 6.0
_MARGIN = 4.0
_SWEEPS = 12


@dataclass(frozen=True)
class Box:
    """One operator; x and y are its top left corner."""

    operator: str
    x: float
    y: float


@dataclass(frozen=True)
class Wire:
    """One edge: the curve and its arrow head, as SVG path data."""

    source: str
    target: str
    path: str
    arrow: str


@dataclass(frozen=True)
class Drawing:
    """A finished drawing in CSS pixels."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]


@dataclass
class _Grid:
    """Knots in layers: knot numbers below ``boxes`` are operators, the others bends of long wires."""

    boxes: int
    layers: list[list[int]]
    chains: list[list[int]]

    def links(self) -> list[tuple[int, int]]:
        return [pair for chain in self.chains for pair in pairwise(chain)]

    def half_height(self, knot: int) -> float:
        return (BOX_HEIGHT if knot < self.boxes else _BEND_HEIGHT) / 2


def draw_dag(operators: Sequence[str], edges: Sequence[tuple[str, str]]) -> Drawing:
    """Lay out a DAG; the same input always gives the same drawing.

    >>> drawing = draw_dag(["source", "map", "sink"], [("source", "map"), ("map", "sink")])
    >>> [(box.operator, box.x < 100) for box in drawing.boxes]
    [('source', True), ('map', False), ('sink', False)]
    """
    number = {operator: position for position, operator in enumerate(operators)}
    grid = _make_grid(_layer_of(operators, edges), [(number[a], number[b]) for a, b in edges])
    _untangle(grid)
    centre = _centres(grid)
    _straighten(grid, centre)
    column = {knot: layer for layer, knots in enumerate(grid.layers) for knot in knots}
    top = min((centre[knot] - grid.half_height(knot) for knot in centre), default=0.0) - _MARGIN
    bottom = max((centre[knot] + grid.half_height(knot) for knot in centre), default=0.0) + _MARGIN
    left = {knot: _MARGIN + column[knot] * (BOX_WIDTH + LAYER_GAP) for knot in centre}
    boxes = tuple(
        Box(operator, left[knot], centre[knot] - BOX_HEIGHT / 2 - top) for knot, operator in enumerate(operators)
    )
    ports = _ports(grid, {knot: y - top for knot, y in centre.items()})
    wires = tuple(
        Wire(source, target, _curve(chain, left, *ends), _arrow(left[chain[-1]], ends[-1][-1]))
        for (source, target), chain, ends in zip(edges, grid.chains, ports, strict=True)
    )
    width = 2 * _MARGIN + len(grid.layers) * (BOX_WIDTH + LAYER_GAP) - LAYER_GAP
    return Drawing(width, bottom - top, boxes, wires)


def _layer_of(operators: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[int]:
    """Longest path from a source; an operator that reads nothing moves right, next to its first reader."""
    inputs: dict[str, list[str]] = {operator: [] for operator in operators}
    readers: dict[str, list[str]] = {operator: [] for operator in operators}
    for source, target in edges:
        inputs[target].append(source)
        readers[source].append(target)
    try:
        order = list(TopologicalSorter(inputs).static_order())
    except CycleError as error:
        raise DataflowError(f"cannot draw a dataflow with the cycle {' → '.join(error.args[1])}") from error
    layer: dict[str, int] = {}
    for operator in order:
        layer[operator] = max((layer[before] + 1 for before in inputs[operator]), default=0)
    for operator in operators:
        if not inputs[operator] and readers[operator]:
            layer[operator] = min(layer[after] for after in readers[operator]) - 1
    return [layer[operator] for operator in operators]


def _make_grid(layer_of: Sequence[int], edges: Sequence[tuple[int, int]]) -> _Grid:
    layers: list[list[int]] = [[] for _ in range(max(layer_of, default=-1) + 1)]
    for knot, layer in enumerate(layer_of):
        layers[layer].append(knot)
    chains, next_bend = [], len(layer_of)
    for source, target in edges:
        chain = [source]
        for layer in range(layer_of[source] + 1, layer_of[target]):
            layers[layer].append(next_bend)
            chain.append(next_bend)
            next_bend += 1
        chains.append([*chain, target])
    return _Grid(len(layer_of), layers, chains)


def _untangle(grid: _Grid) -> None:
    """Sweep to and fro, ordering each layer by the mean position of its neighbours; keep the fewest crossings."""
    before, after = _neighbours(grid)
    best, fewest = [list(layer) for layer in grid.layers], _crossings(grid)
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        forward = sweep % 2 == 0
        neighbours = before if forward else after
        for layer in grid.layers if forward else reversed(grid.layers):
            position = {knot: place for other in grid.layers for place, knot in enumerate(other)}
            layer.sort(key=_mean_of(neighbours, position))
        crossings = _crossings(grid)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in grid.layers], crossings
    grid.layers = best


def _neighbours(grid: _Grid) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    before: dict[int, list[int]] = {knot: [] for layer in grid.layers for knot in layer}
    after: dict[int, list[int]] = {knot: [] for knot in before}
    for source, target in grid.links():
        before[target].append(source)
        after[source].append(target)
    return before, after


def _mean_of(neighbours: dict[int, list[int]], value: dict[int, int]) -> Callable[[int], float]:
    """The mean of the neighbours' values; a knot without neighbours stays where it is."""

    def mean(knot: int) -> float:
        near = neighbours[knot]
        return sum(value[other] for other in near) / len(near) if near else value[knot]

    return mean


def _crossings(grid: _Grid) -> int:
    layer_of = {knot: layer for layer, knots in enumerate(grid.layers) for knot in knots}
    place = {knot: position for knots in grid.layers for position, knot in enumerate(knots)}
    gaps: dict[int, list[tuple[int, int]]] = {}
    for source, target in grid.links():
        gaps.setdefault(layer_of[source], []).append((place[source], place[target]))
    return sum(
        (a - c) * (b - d) < 0
        for links in gaps.values()
        for index, (a, b) in enumerate(links)
        for c, d in links[index + 1 :]
    )


def _centres(grid: _Grid) -> dict[int, float]:
    """Heights that keep wires straight: each layer in turn moves towards its neighbours as far as the order allows."""
    before, after = _neighbours(grid)
    centre: dict[int, float] = {}
    for layer in grid.layers:
        centre.update(zip(layer, _spaced(grid, layer, [0.0] * len(layer)), strict=True))
    both = {knot: before[knot] + after[knot] for knot in centre}
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = both if sweep >= _SWEEPS - 2 else before if forward else after
        for layer in grid.layers if forward else reversed(grid.layers):
            wanted = [_mean([centre[other] for other in neighbours[knot]] or [centre[knot]]) for knot in layer]
            centre.update(zip(layer, _spaced(grid, layer, wanted), strict=True))
    return centre


def _spaced(grid: _Grid, layer: Sequence[int], wanted: Sequence[float]) -> list[float]:
    """The centres nearest to the wanted ones (least squares) in this order and without overlap.

    With the room that each knot needs subtracted, "in order without overlap" is "non-decreasing", and the nearest
    non-decreasing sequence is isotonic regression: pool neighbours that violate the order.
    """
    offsets, offset = [], 0.0
    for position, knot in enumerate(layer):
        if position:
            offset += grid.half_height(layer[position - 1]) + ROW_GAP + grid.half_height(knot)
        offsets.append(offset)
    pools: list[list[float]] = []
    for target, room in zip(wanted, offsets, strict=True):
        pools.append([target - room])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            violating = pools.pop()
            pools[-1] += violating
    levels = [level for pool in pools for level in [_mean(pool)] * len(pool)]
    return [level + room for level, room in zip(levels, offsets, strict=True)]


def _straighten(grid: _Grid, centre: dict[int, float]) -> None:
    """Put the bends of every long wire on as few levels as the free room between their neighbours allows."""
    for chain in grid.chains:
        run: list[int] = []
        low, high = -math.inf, math.inf
        for bend in chain[1:-1]:
            bend_low, bend_high = _free_room(grid, centre, bend)
            if run and max(low, bend_low) > min(high, bend_high):
                _level(run, chain, centre, low, high)
                run, low, high = [], -math.inf, math.inf
            run.append(bend)
            low, high = max(low, bend_low), min(high, bend_high)
        if run:
            _level(run, chain, centre, low, high)


def _free_room(grid: _Grid, centre: dict[int, float], bend: int) -> tuple[float, float]:
    layer = next(layer for layer in grid.layers if bend in layer)
    place = layer.index(bend)
    half = grid.half_height(bend) + ROW_GAP
    above, below = layer[:place][-1:], layer[place + 1 :][:1]
    return (
        max((centre[knot] + grid.half_height(knot) + half for knot in above), default=-math.inf),
        min((centre[knot] - grid.half_height(knot) - half for knot in below), default=math.inf),
    )


def _level(run: Sequence[int], chain: Sequence[int], centre: dict[int, float], low: float, high: float) -> None:
    """One height for a run of bends: that of the wire's near end if the run touches one, else their mean."""
    if run[0] == chain[1]:
        wanted = centre[chain[0]]
    elif run[-1] == chain[-2]:
        wanted = centre[chain[-1]]
    else:
        wanted = _mean([centre[bend] for bend in run])
    level = min(max(wanted, low), high)
    centre.update(dict.fromkeys(run, level))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _ports(grid: _Grid, centre: dict[int, float]) -> list[tuple[list[float], list[float]]]:
    """For every chain the heights at which it leaves and enters its knots, fanned out where several wires meet."""
    leaving: dict[int, list[tuple[float, int]]] = {}
    entering: dict[int, list[tuple[float, int]]] = {}
    for index, chain in enumerate(grid.chains):
        leaving.setdefault(chain[0], []).append((centre[chain[1]], index))
        entering.setdefault(chain[-1], []).append((centre[chain[-2]], index))
    start = {index: y for knot, wires in leaving.items() for index, y in _fan(centre[knot], wires)}
    end = {index: y for knot, wires in entering.items() for index, y in _fan(centre[knot], wires)}
    ports = []
    for index, chain in enumerate(grid.chains):
        bends = [centre[knot] for knot in chain[1:-1]]
        ports.append(([start[index], *bends], [*bends, end[index]]))
    return ports


def _fan(centre: float, wires: list[tuple[float, int]]) -> list[tuple[int, float]]:
    gap = min(_PORT_GAP, 0.8 * BOX_HEIGHT / len(wires))
    first = centre - gap * (len(wires) - 1) / 2
    return [(index, first + gap * place) for place, (_, index) in enumerate(sorted(wires))]


def _curve(chain: Sequence[int], left: dict[int, float], leave: Sequence[float], enter: Sequence[float]) -> str:
    """Level across a layer, an S-curve in the gap between two: its control points lie in the gap, so the curve does."""
    parts = [f"M{left[chain[0]] + BOX_WIDTH:.1f} {leave[0]:.1f}"]
    for step, (y_from, y_to) in enumerate(zip(leave, enter, strict=True)):
        x_from, x_to = left[chain[step]] + BOX_WIDTH, left[chain[step + 1]]
        middle = (x_from + x_to) / 2
        if step:
            parts.append(f"L{x_from:.1f} {y_from:.1f}")
        parts.append(f"C{middle:.1f} {y_from:.1f} {middle:.1f} {y_to:.1f} {x_to:.1f} {y_to:.1f}")
    return "".join(parts)


def _arrow(x: float, y: float) -> str:
    return f"M{x - _ARROW:.1f} {y - _ARROW / 2:.1f}L{x:.1f} {y:.1f}L{x - _ARROW:.1f} {y + _ARROW / 2:.1f}Z"
