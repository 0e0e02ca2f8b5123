"""Similarity search and similarity centre against their definitions."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamtune.similarity.search as search_module
from similarity.graphs import renumbered, sparse_dag
from strategies import typed_dags
from streamtune.dataflow import Dataflow
from streamtune.errors import StreamTuneError
from streamtune.similarity import distinct_shapes, edit_distance, pack, similar_pairs, similarity_centre

SETS = st.lists(typed_dags(max_size=4, types=("map", "filter")), min_size=1, max_size=9)


@settings(max_examples=150)
@given(SETS, st.integers(0, 4))
def test_similar_pairs_are_definition_1(flows: list[Dataflow], tau: int) -> None:
    found = similar_pairs(flows, tau)
    shapes = [flows[position] for position in found.shapes.first]
    expected = [
        [i, j]
        for i in range(len(shapes))
        for j in range(i + 1, len(shapes))
        if edit_distance(shapes[i], shapes[j], tau) is not None
    ]
    assert found.pairs.tolist() == expected


@settings(max_examples=150)
@given(SETS)
def test_shapes_are_canonical_forms(flows: list[Dataflow]) -> None:
    shapes = distinct_shapes(pack(flows))
    forms = [flow.canonical_form for flow in flows]
    assert [forms[position] for position in shapes.first] == list(dict.fromkeys(forms))
    assert [forms[shapes.first[shape]] for shape in shapes.shape_of] == forms
    assert shapes.totals().sum() == len(flows)


@settings(max_examples=150)
@given(SETS, st.integers(0, 4), st.data())
def test_the_centre_is_definition_2(flows: list[Dataflow], tau: int, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 5), min_size=len(flows), max_size=len(flows)))
    counts = [
        sum(w for other, w in zip(flows, weights, strict=True) if edit_distance(flow, other, tau) is not None)
        for flow in flows
    ]
    centre = similarity_centre(flows, tau, weights)
    assert centre.appearances == max(counts)
    assert centre.position == counts.index(max(counts))


def test_a_weight_is_a_multiplicity() -> None:
    rng = random.Random(8)
    flows = [sparse_dag(rng, rng.randint(3, 7)) for _ in range(12)]
    weights = [rng.randint(1, 4) for _ in flows]
    repeated = [renumbered(rng, flow) for flow, weight in zip(flows, weights, strict=True) for _ in range(weight)]
    weighted, plain = similarity_centre(flows, 4, weights), similarity_centre(repeated, 4)
    assert weighted.appearances == plain.appearances
    assert flows[weighted.position].canonical_form == repeated[plain.position].canonical_form


def test_blocks_cover_every_pair_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "_PAIRS_AT_ONCE", 7)
    for count in range(9):
        blocks = list(search_module._blocks(count))
        assert all(len(block) <= max(7, count - 1) for block in blocks)
        pairs = [tuple(pair) for block in blocks for pair in block.tolist()]
        assert pairs == [(i, j) for i in range(count) for j in range(i + 1, count)]


def test_equal_fingerprints_alone_make_no_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack([Dataflow.from_edges([kind], []) for kind in ("map", "filter", "map")])
    monkeypatch.setattr(type(packed), "fingerprints", lambda self: np.zeros(len(self), np.uint64))
    assert distinct_shapes(packed).shape_of.tolist() == [0, 1, 0]


@pytest.mark.parametrize("weights", [[1], [1, -1], [1, float("nan")]])
def test_weights_that_make_no_sense_are_refused(weights: list[float]) -> None:
    flow = Dataflow.from_edges(["map"], [])
    with pytest.raises(StreamTuneError, match="weights must be 2 finite numbers"):
        similarity_centre([flow, flow], 1, weights)


def test_the_centre_of_nothing_is_refused() -> None:
    with pytest.raises(StreamTuneError, match="give at least one"):
        similarity_centre([], 1)
