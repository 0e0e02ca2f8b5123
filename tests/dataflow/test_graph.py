"""Laws of the dataflow model."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import typed_dags
from streamtune.dataflow import Dataflow, Edge, Operator
from streamtune.errors import DataflowError


def renumbered(flow: Dataflow, order: list[int], edge_order: list[int]) -> Dataflow:
    """The same DAG with its nodes at other positions and its edges in another sequence."""
    position = {old: new for new, old in enumerate(order)}
    types = [flow.types[old] for old in order]
    edges = [flow.edge_indices[index] for index in edge_order]
    return Dataflow.from_edges(types, [(position[a], position[b]) for a, b in edges])


def as_networkx(flow: Dataflow) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from((node, {"type": kind}) for node, kind in enumerate(flow.types))
    graph.add_edges_from(flow.edge_indices)
    return graph


def isomorphic(a: Dataflow, b: Dataflow) -> bool:
    return nx.is_isomorphic(as_networkx(a), as_networkx(b), node_match=lambda x, y: x["type"] == y["type"])


@given(typed_dags(), st.data())
def test_canonical_form_does_not_depend_on_numbering(flow: Dataflow, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(flow.types))))
    edges = data.draw(st.permutations(range(len(flow.edges))))
    assert renumbered(flow, order, edges).canonical_form == flow.canonical_form


@settings(max_examples=400)
@given(typed_dags(max_size=6, types=("map", "sink")), typed_dags(max_size=6, types=("map", "sink")))
def test_canonical_form_is_equal_exactly_for_isomorphic_dags(a: Dataflow, b: Dataflow) -> None:
    """GED > 0 exactly if not isomorphic, and networkx decides isomorphism by another algorithm (VF2)."""
    assert (a.canonical_form == b.canonical_form) == isomorphic(a, b)


@given(typed_dags(max_size=7), st.data())
def test_one_edit_changes_the_canonical_form(flow: Dataflow, data: st.DataObject) -> None:
    """A type change is at edit distance 1, so the forms must differ."""
    if not flow.types:
        return
    node = data.draw(st.integers(0, len(flow.types) - 1))
    types = list(flow.types)
    types[node] = "changed"
    assert Dataflow.from_edges(types, flow.edge_indices).canonical_form != flow.canonical_form


@pytest.mark.parametrize("branches", [3, 8, 20])
def test_canonical_form_survives_symmetry(branches: int) -> None:
    """Identical parallel branches have branches! automorphisms: a search without pruning would not end."""
    types = ["source", *["filter", "map"] * branches, "sink"]
    edges = []
    for branch in range(branches):
        first = 1 + 2 * branch
        edges += [(0, first), (first, first + 1), (first + 1, len(types) - 1)]
    flow = Dataflow.from_edges(types, edges)
    order = list(reversed(range(len(types))))
    assert renumbered(flow, order, list(range(len(edges)))).canonical_form == flow.canonical_form


def test_canonical_form_tells_regular_graphs_apart() -> None:
    """Colour refinement alone cannot tell one cycle of six from two of three; the search must."""
    one = [(0, 3), (1, 3), (1, 4), (2, 4), (2, 5), (0, 5)]  # a 6-cycle, sources 0-2, targets 3-5
    two = [(0, 3), (1, 4), (2, 5), (0, 4), (1, 5), (2, 3)]  # also a 6-cycle
    split = [(0, 4), (0, 5), (1, 4), (1, 5), (2, 6), (2, 7), (3, 6), (3, 7)]  # two 4-cycles
    whole = [(0, 4), (1, 4), (1, 5), (2, 5), (2, 6), (3, 6), (3, 7), (0, 7)]  # one 8-cycle
    six = ["map"] * 6
    eight = ["map"] * 8
    assert Dataflow.from_edges(six, one).canonical_form == Dataflow.from_edges(six, two).canonical_form
    assert Dataflow.from_edges(eight, split).canonical_form != Dataflow.from_edges(eight, whole).canonical_form


@given(typed_dags())
def test_order_is_topological(flow: Dataflow) -> None:
    position = {key: index for index, key in enumerate(flow.order)}
    assert len(position) == len(flow.operators)
    assert all(position[edge.source] < position[edge.target] for edge in flow.edges)


@given(typed_dags())
def test_neighbours_mirror_the_edges(flow: Dataflow) -> None:
    pairs = {(edge.source, edge.target) for edge in flow.edges}
    assert {(a, b) for a in flow.index for b in flow.successors(a)} == pairs
    assert {(a, b) for b in flow.index for a in flow.predecessors(b)} == pairs


def test_an_empty_dataflow_is_one() -> None:
    assert Dataflow.from_edges([], []).order == ()


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 1), (1, 0)], "cycle through op0, op1"),
        ([(0, 0)], "its own input"),
        ([(0, 1), (0, 1)], "listed twice"),
        ([(0, 5)], "points outside"),
    ],
)
def test_what_is_no_dag_is_refused(edges: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(DataflowError, match=message):
        Dataflow.from_edges(["map", "map"], edges)


def test_unknown_operator_is_named() -> None:
    flow = Dataflow((Operator(id="a", type="map"),), ())
    with pytest.raises(DataflowError, match="no operator 'b': the operators are a"):
        flow.operator("b")
    with pytest.raises(DataflowError, match="unknown input 'b'"):
        Dataflow(flow.operators, (Edge("b", "a"),))
