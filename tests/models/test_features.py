"""The feature encoder: what was seen, what was not, and the way through JSON."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Aggregate, Dataflow, Edge, Operator, Window
from streamtune.models.features import (
    CATEGORIES,
    NUMBERS,
    STATIC_NUMBERS,
    CategoryColumn,
    FeatureEncoder,
    FeatureError,
    OperatorColumns,
)
from streamtune.readings.demand import demanded_rates
from streamtune.readings.selectivity import observed_selectivity
from streamtune.workloads import random_job

FLOW = Dataflow(
    (
        Operator(id="bids", type="source", rate=1000.0, tuple_width_out=5),
        Operator(
            id="hot",
            type="window_aggregate",
            window=Window(type="sliding", length=10.0, slide=2.0),
            aggregate=Aggregate(function="count", value_class="long"),
            tuple_width_in=5,
        ),
        Operator(id="out", type="sink"),
    ),
    (Edge("bids", "hot", "hash"), Edge("hot", "out")),
)
ENCODER = FeatureEncoder.fit(
    {
        "type": ["source", "window_aggregate", "sink"],
        "window_type": ["sliding", "tumbling"],
        "window_policy": ["time"],
        "aggregate_function": ["count"],
        "aggregate_class": ["long"],
    },
    {"source_rate": (0.0, 9999.0), "tuple_width_in": (0.0, 9.0), "window_length": (0.0, 99.0)},
)


def column(name: str) -> int:
    return ENCODER.names.index(name)


def test_numbers_worked_out_by_hand() -> None:
    features = ENCODER.encode(FLOW, {"bids": 999.0})
    hot = features[1]
    assert features.shape == (3, ENCODER.width)
    assert hot[column("source_rate")] == pytest.approx(0.75)  # log(1 + 999) / log(1 + 9999) = 3 / 4
    assert hot[column("window_length")] == pytest.approx(np.log(11) / np.log(100))
    assert hot[column("type=window_aggregate")] == 1
    assert hot[column("window_type=sliding")] == 1
    assert hot[column("window_type=tumbling")] == 0
    assert features[0, column("source_rate")] == 0, "the rate belongs to the operators behind a source"
    assert features[2, column("window_type=sliding") : column("window_type=unknown") + 1].tolist() == [0, 0, 0]


def test_an_unseen_value_has_a_slot_of_its_own() -> None:
    flow = Dataflow.from_edges(["source", "quantum_map"], [(0, 1)])
    features = ENCODER.encode(flow, {"op0": 1.0})
    assert features[1, column("type=unknown")] == 1
    assert features[1, : column("type=unknown")].sum() == 0


def test_rates_above_the_fitted_range_still_look_higher() -> None:
    place = column("source_rate")
    at_the_top, above = (ENCODER.encode(FLOW, {"bids": rate})[1, place] for rate in (9999.0, 99999.0))
    assert at_the_top == pytest.approx(1.0)
    assert above > at_the_top


def test_a_number_that_never_varied_does_not_divide_by_zero() -> None:
    encoder = FeatureEncoder.fit({"type": ["map"]}, {"tuple_width_in": (5.0, 5.0)})
    assert np.isfinite(encoder.encode(FLOW, {"bids": 1.0})).all()


def test_json_keeps_it_unchanged(tmp_path: Path) -> None:
    ENCODER.save(tmp_path / "encoder.json")
    loaded = FeatureEncoder.load(tmp_path / "encoder.json")
    assert loaded == ENCODER
    assert np.array_equal(loaded.encode(FLOW, {"bids": 5.0}), ENCODER.encode(FLOW, {"bids": 5.0}))


def test_bad_encoders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FeatureError, match="not a feature encoder"):
        FeatureEncoder.from_json("{}")
    with pytest.raises(FeatureError, match="version 99"):
        FeatureEncoder.from_json(ENCODER.model_copy(update={"version": 99}).to_json())
    with pytest.raises(FeatureError, match="cannot be read"):
        FeatureEncoder.load(tmp_path / "none.json")
    with pytest.raises(FeatureError, match="'parallelism' is not a feature"):
        FeatureEncoder.fit({}, {"parallelism": (1, 60)})


@given(st.lists(st.sampled_from(["map", "filter", "new", None]), min_size=1), st.data())
def test_compact_and_dense_forms_agree(types: list[str | None], data: st.DataObject) -> None:
    """Each block of a dense row has one 1 where the operator has the category, and none where it has not."""
    size = len(types)
    encoder = FeatureEncoder.fit({"type": ["map", "filter"]}, {"source_rate": (0, 10)})
    numbers = st.lists(st.floats(0, 1e9), min_size=size, max_size=size)
    columns = OperatorColumns(
        categories={name: CategoryColumn.of(types if name == "type" else [None] * size) for name in CATEGORIES},
        numbers={name: np.array(data.draw(numbers)) for name in STATIC_NUMBERS},
        offered=np.array(data.draw(numbers)),
        selectivity=np.full(size, np.nan),
        edge_source=np.zeros(0, dtype=np.int64),
        edge_target=np.zeros(0, dtype=np.int64),
    )
    dense = encoder.transform(columns)
    block = dense[:, :3]
    assert block.sum(axis=1).tolist() == [0.0 if kind is None else 1.0 for kind in types]
    assert dense[:, -len(NUMBERS) :] == pytest.approx(encoder.numbers(columns))


def test_demand_goes_through_what_was_seen_and_what_is_usual() -> None:
    """bids 999/s; hot was seen to keep one of ten, so out must take 99.9/s. Unseen, an aggregate usually keeps half."""
    encoder = FeatureEncoder.fit({}, {"demand": (0.0, 9999.0)}, {"window_aggregate": 0.5})
    place = encoder.names.index("demand")
    seen = encoder.encode(FLOW, {"bids": 999.0}, {"hot": 0.1})[:, place]
    assert seen == pytest.approx(np.log1p([999.0, 999.0, 99.9]) / np.log(10_000))
    usual = encoder.encode(FLOW, {"bids": 999.0})[:, place]
    assert usual == pytest.approx(np.log1p([999.0, 999.0, 499.5]) / np.log(10_000))


@given(st.integers(0, 500), st.floats(1, 10))
def test_demand_is_what_the_job_must_sustain(seed: int, multiple: float) -> None:
    """The vectorised propagation agrees with the one that walks a dataflow in topological order."""
    workload = random_job(seed)
    flow = workload.spec.job.dataflow
    edges = np.array(flow.edge_indices).reshape(-1, 2)
    rates = workload.rates_at(multiple)
    offered = np.array([rates.get(key, 0.0) for key in flow.index])
    selectivity = np.array([workload.physics[key].selectivity for key in flow.index])
    expected = workload.input_rates_at(multiple)
    found = demanded_rates(offered, selectivity, edges[:, 0], edges[:, 1])
    assert found == pytest.approx([expected[key] for key in flow.index])


def test_selectivity_is_unknown_without_records() -> None:
    assert np.isnan(observed_selectivity([0.0, np.nan, 5.0], [0.0, 1.0, np.nan])).all()
