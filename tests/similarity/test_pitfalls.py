"""Facts that are easily got wrong. Each test fails when its mistake is made; the arithmetic stands beside it."""

from __future__ import annotations

import pytest

from similarity.references import bounds_along
from streamtune.dataflow import Dataflow
from streamtune.similarity import edit_distance, edit_distance_bounds, edit_distances, pack, within


def flow(types: str, *edges: tuple[int, int]) -> Dataflow:
    """``flow("ab", (0, 1))``: an operator of type a before one of type b."""
    return Dataflow.from_edges(list(types), edges)


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        (flow("ab", (0, 1)), flow("ab", (1, 0)), 1),  # one reversal, not deletion plus insertion
        (flow("ab", (0, 1)), flow("ab"), 1),
        (flow("ab"), flow("ab", (1, 0)), 1),
        (flow("abc", (0, 1), (1, 2), (0, 2)), flow("abc", (1, 0), (2, 1), (2, 0)), 2),  # a and c swap types
    ],
)
def test_no_edge_forward_and_backward_are_mutually_at_distance_one(a: Dataflow, b: Dataflow, distance: int) -> None:
    assert edit_distance(a, b) == distance
    assert edit_distance(b, a) == distance


def test_a_reversal_repairs_an_out_edge_and_an_in_edge_at_once() -> None:
    # Anchor c, mapped to c. In a it has out-edges to both x, in b in-edges from both: two reversals.
    # |Δout| + |Δin| would be 2 + 2 = 4; the truth is max(2 + 0, 0 + 2) − min(2, 0) − min(0, 2) = 2.
    a, b = flow("cxx", (0, 1), (0, 2)), flow("cxx", (1, 0), (2, 0))
    assert bounds_along(a, b, [(0, 0)])[0][0] == 2
    assert edit_distance(a, b) == 2


def test_crossing_edges_of_different_number_and_direction() -> None:
    # Anchor c with 2 out and 1 in against 1 out and 3 in: max(3, 4) − min(2, 1) − min(1, 3) = 2, one reversal and
    # one insertion; |Δout| + |Δin| = 1 + 2 = 3 would be too much. Types: x five times against x four times, 1 more.
    a = flow("cxxx", (0, 1), (0, 2), (3, 0))
    b = flow("cxxxx", (0, 1), (2, 0), (3, 0), (4, 0))
    assert bounds_along(a, b, [(0, 0)])[0][0] == 3
    assert edit_distance(a, b) == 3


def test_the_direction_of_edges_between_unmapped_nodes_is_unknown() -> None:
    # After anchoring z, a has x → y and b has y → x. Mapping x to y and y to x costs two type changes, the straight
    # mapping one reversal; the bound may count neither: |1 − 1| = 0.
    a, b = flow("zxy", (1, 2)), flow("zxy", (2, 1))
    assert bounds_along(a, b, [(0, 0)])[0][0] == 0
    assert edit_distance(a, b) == 1


def test_the_number_of_edges_between_unmapped_nodes_counts() -> None:
    # After anchoring z, a has 3 edges and b has 1 among nodes of one type: at least |3 − 1| = 2 deletions.
    a, b = flow("zxxx", (1, 2), (2, 3), (1, 3)), flow("zxxx", (1, 2))
    assert bounds_along(a, b, [(0, 0)])[0][0] == 2
    assert edit_distance(a, b) == 2


def test_an_edge_that_leaves_the_crossing_set_is_flipped() -> None:
    # a: x → c, y → c. b: x → c, c → y. Anchor c, then x: x's out-edge was an in-edge of c. What is left of c is the
    # edge to y, in against out: max(1, 1) − 0 − 0 = 1. Without the flip, c keeps 2 in and loses an out it never had.
    a, b = flow("cxy", (1, 0), (2, 0)), flow("cxy", (1, 0), (0, 2))
    assert [label_set for label_set, _ in bounds_along(a, b, [(0, 0), (1, 1), (2, 2)])] == [1, 1, 1]
    assert edit_distance(a, b) == 1


def test_the_degree_filter_looks_at_undirected_degrees() -> None:
    # A star with all edges out against one with all edges in: four reversals. Out-degrees 4, 0, 0, 0, 0 against
    # 1, 1, 1, 1, 0 would demand ⌈(3 + 1 + 1 + 1) / 2⌉ = 3 operations, and the same again for the in-degrees: 6.
    leaves = (1, 2, 3, 4)
    out, into = flow("cxxxx", *((0, leaf) for leaf in leaves)), flow("cxxxx", *((leaf, 0) for leaf in leaves))
    assert edit_distance(out, into, limit=4) == 4
    # A path against a star with the same types and edges: undirected degrees 2, 2, 2, 1, 1 and 4, 1, 1, 1, 1.
    path = flow("xxxxx", (0, 1), (1, 2), (2, 3), (3, 4))
    star = flow("xxxxx", (0, 1), (0, 2), (0, 3), (0, 4))
    assert edit_distance(path, star) == 5  # around the centre one edge stays, one is reversed; two go and two come


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        (flow(""), flow(""), 0),
        (flow(""), flow("x"), 1),
        (flow("xyz", (0, 1), (1, 2)), flow(""), 5),  # three operators and two edges
    ],
)
def test_empty_graphs(a: Dataflow, b: Dataflow, distance: int) -> None:
    assert edit_distance(a, b) == distance
    assert edit_distance(b, a) == distance
    assert edit_distance(a, b, limit=distance) == distance
    assert within(pack((a, b)), [(0, 1)], distance).tolist() == [True]
    if distance:
        assert edit_distance(a, b, limit=distance - 1) is None
    # The search has no first row to choose in an empty graph, and would read what is not there: it is never begun.
    assert edit_distance_bounds(a, b).states == 0


def test_deleting_an_operator_costs_its_edges_too() -> None:
    # Without its centre a star of three falls apart: one operator and three edges go.
    assert edit_distance(flow("cxxx", (0, 1), (0, 2), (0, 3)), flow("xxx")) == 4


def test_a_batch_of_nothing() -> None:
    assert edit_distances(pack([]), []).tolist() == []
    assert edit_distances(pack([flow("a")]), []).tolist() == []


def test_an_order_of_types_that_no_degree_shows() -> None:
    # Two chains with the same types and the same degrees: f m f m f m against f f f m m m. Any bound that looks at
    # types and degrees alone is 0. f₁ m₁ f₂ m₂ f₃ m₃ → two type changes: m₁ to f and f₃ to m.
    a = flow("fmfmfm", *((i, i + 1) for i in range(5)))
    b = flow("fffmmm", *((i, i + 1) for i in range(5)))
    assert edit_distance(a, b) == 2
