"""An edit script does what it says: applied to a it gives b, and no shorter one would."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings

from similarity.graphs import sparse_dag
from strategies import typed_dags
from streamtune.dataflow import Dataflow
from streamtune.errors import StreamTuneError
from streamtune.similarity import (
    ChangeType,
    DeleteEdge,
    DeleteOperator,
    InsertEdge,
    InsertOperator,
    ReverseEdge,
    UndecidedDistanceError,
    apply_script,
    edit_distance,
    edit_script,
)


@settings(max_examples=300)
@given(typed_dags(max_size=8), typed_dags(max_size=8))
def test_the_script_leads_from_a_to_b_in_distance_operations(a: Dataflow, b: Dataflow) -> None:
    script = edit_script(a, b)
    assert len(script) == edit_distance(a, b)
    assert apply_script(a, script).canonical_form == b.canonical_form


def test_larger_dataflows_too() -> None:
    rng = random.Random(3)
    for _ in range(20):
        a, b = sparse_dag(rng, rng.randint(8, 16)), sparse_dag(rng, rng.randint(8, 16))
        script = edit_script(a, b)
        assert len(script) == edit_distance(a, b)
        assert apply_script(a, script).canonical_form == b.canonical_form


def test_every_operation_in_one_script() -> None:
    # a: 0 s → 1 f → 2 m → 3 k, and 4 x apart. b: s → j → m → k with f's edge to s turned… one of each by hand.
    a = Dataflow.from_edges(["source", "filter", "map", "sink"], [(0, 1), (1, 2), (2, 3)])
    script = (
        DeleteEdge("op2", "op3"),
        DeleteOperator("op3", "sink"),
        ReverseEdge("op0", "op1"),
        ChangeType("op2", "map", "flat_map"),
        InsertOperator("new", "join"),
        InsertEdge("op2", "new"),
    )
    b = apply_script(a, script)
    assert b.types == ("source", "filter", "flat_map", "join")
    assert [(edge.source, edge.target) for edge in b.edges] == [("op1", "op2"), ("op1", "op0"), ("op2", "new")]
    assert [str(operation) for operation in script] == [
        "delete edge 'op2' → 'op3'",
        "delete operator 'op3' (sink)",
        "reverse edge 'op0' → 'op1'",
        "change type of 'op2' from map to flat_map",
        "insert operator 'new' (join)",
        "insert edge 'op2' → 'new'",
    ]


def test_an_inserted_operator_keeps_clear_of_ids_in_use() -> None:
    a = Dataflow.from_edges(["filter"], [])
    b = Dataflow.from_edges(["map", "filter"], [])  # its op0 is new, but a has an op0
    assert edit_script(a, b) == (InsertOperator("op0'", "map"),)


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (DeleteEdge("op1", "op0"), "there is no such edge"),
        (DeleteOperator("op0", "source"), "it still has edges"),
        (DeleteOperator("op9", "source"), "there is no such operator"),
        (ChangeType("op0", "filter", "map"), "there is no such operator"),
        (InsertOperator("op0", "map"), "the id is in use"),
        (InsertEdge("op1", "op0"), "the two are connected already"),
        (InsertEdge("op1", "op9"), "it needs two operators that are there"),
        (InsertEdge("op1", "op1"), "it needs two operators that are there"),
    ],
)
def test_an_operation_that_does_not_fit_is_refused(operation: DeleteEdge, problem: str) -> None:
    flow = Dataflow.from_edges(["source", "sink"], [(0, 1)])
    with pytest.raises(StreamTuneError, match=problem):
        apply_script(flow, [operation])


def test_no_script_is_better_than_a_wrong_one() -> None:
    rng = random.Random(1)
    a, b = sparse_dag(rng, 40, 10), sparse_dag(rng, 40, 10)
    with pytest.raises(UndecidedDistanceError):
        edit_script(a, b, budget=10)
