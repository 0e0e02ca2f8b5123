"""Drawings of dataflows: boxes never overlap, wires run from left to right and never through a box."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.errors import DataflowError
from streamtune.reports.dag_drawing import BOX_HEIGHT, BOX_WIDTH, Box, Drawing, Wire, draw_dag

Edges = list[tuple[str, str]]


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[str], Edges]:
    """Up to 20 operators; any pair (i, j) with i < j may be an edge, so diamonds and long wires are common."""
    count = draw(st.integers(1, 20))
    names = [f"op{number}" for number in range(count)]
    pairs = [(a, b) for b in range(count) for a in range(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=30)) if pairs else []
    return draw(st.permutations(names)), [(names[a], names[b]) for a, b in chosen]


def points(wire: Wire) -> Iterator[tuple[float, float]]:
    """The wire's path, sampled densely."""
    x0, y0 = 0.0, 0.0
    for kind, text in re.findall(r"([MLC])([^MLC]+)", wire.path):
        numbers = [float(number) for number in text.split()]
        if kind == "M":
            x0, y0 = numbers
        elif kind == "L":
            x1, y1 = numbers
            yield from ((x0 + (x1 - x0) * t / 20, y0 + (y1 - y0) * t / 20) for t in range(21))
            x0, y0 = x1, y1
        else:
            xa, ya, xb, yb, x1, y1 = numbers
            for step in range(21):
                t = step / 20
                a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
                yield a * x0 + b * xa + c * xb + d * x1, a * y0 + b * ya + c * yb + d * y1
            x0, y0 = x1, y1


def is_inside(box: Box, x: float, y: float) -> bool:
    slack = 0.2  # paths are written with one decimal
    return box.x + slack < x < box.x + BOX_WIDTH - slack and box.y + slack < y < box.y + BOX_HEIGHT - slack


def check(drawing: Drawing, operators: list[str], edges: Edges) -> None:
    at = {box.operator: box for box in drawing.boxes}
    assert list(at) == operators
    for box in drawing.boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + BOX_WIDTH <= drawing.width
        assert box.y + BOX_HEIGHT <= drawing.height
    for one in drawing.boxes:
        for other in drawing.boxes:
            apart = abs(one.x - other.x) >= BOX_WIDTH or abs(one.y - other.y) >= BOX_HEIGHT
            assert one is other or apart, f"{one} overlaps {other}"
    assert [(wire.source, wire.target) for wire in drawing.wires] == edges
    for wire in drawing.wires:
        path = list(points(wire))
        assert path[0][0] == pytest.approx(at[wire.source].x + BOX_WIDTH, abs=0.1)
        assert path[-1][0] == pytest.approx(at[wire.target].x, abs=0.1)
        assert all(x1 >= x0 - 1e-6 for (x0, _), (x1, _) in pairwise(path))
        for x, y in path:
            assert -0.1 <= y <= drawing.height + 0.1
            crossed = [box.operator for box in drawing.boxes if is_inside(box, x, y)]
            assert crossed == [], f"{wire.source} → {wire.target} runs through {crossed}"


@settings(deadline=None, max_examples=150)
@given(dags())
def test_no_box_overlaps_and_no_wire_runs_through_a_box(dag: tuple[list[str], Edges]) -> None:
    operators, edges = dag
    check(draw_dag(operators, edges), operators, edges)


def test_a_chain_is_one_straight_row() -> None:
    names = ["a", "b", "c", "d"]
    drawing = draw_dag(names, [("a", "b"), ("b", "c"), ("c", "d")])
    assert len({box.y for box in drawing.boxes}) == 1
    assert [box.x for box in drawing.boxes] == sorted({box.x for box in drawing.boxes})


def test_a_diamond_is_symmetric_and_free_of_crossings() -> None:
    drawing = draw_dag(["a", "up", "down", "b"], [("a", "up"), ("a", "down"), ("up", "b"), ("down", "b")])
    at = {box.operator: box for box in drawing.boxes}
    assert at["a"].y == pytest.approx(at["b"].y)
    assert at["up"].y + at["down"].y == pytest.approx(2 * at["a"].y)
    assert at["up"].x == at["down"].x


def test_wires_are_untangled_where_the_order_given_crosses() -> None:
    # a → y and b → x cross as listed; swapping one side removes the crossing.
    drawing = draw_dag(["a", "b", "x", "y"], [("a", "y"), ("b", "x")])
    at = {box.operator: box for box in drawing.boxes}
    assert (at["a"].y < at["b"].y) == (at["y"].y < at["x"].y)


def test_a_late_source_stands_next_to_its_reader() -> None:
    drawing = draw_dag(["a", "b", "c", "late"], [("a", "b"), ("b", "c"), ("late", "c")])
    at = {box.operator: box for box in drawing.boxes}
    assert at["late"].x == at["b"].x


def test_a_long_wire_is_level_between_its_ends() -> None:
    names = [f"n{number}" for number in range(6)]
    edges = [*pairwise(names), ("n0", "n5")]
    long_wire = draw_dag(names, edges).wires[-1]
    levels = {round(y, 6) for x, y in points(long_wire) if 2 * BOX_WIDTH < x < 4 * BOX_WIDTH}
    assert len(levels) == 1


def test_a_cycle_is_refused() -> None:
    with pytest.raises(DataflowError, match="cycle"):
        draw_dag(["a", "b"], [("a", "b"), ("b", "a")])
