"""What a real run says of itself: its plan, its selectivities, what its sources were asked for; and who may see it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamtune.dataflow import Run
from streamtune.dataflow.hosts import Cluster, Host
from streamtune.experiments.zerotune import real_runs
from streamtune.experiments.zerotune.arena import ZeroTuneArena, ZeroTuneScale
from streamtune.experiments.zerotune.real_runs import (
    ASSUMED,
    MEASURED,
    RealRuns,
    measured_selectivities,
    nominal_rates,
    plan_was_measured,
)
from streamtune.models.costmodel.columns import LABELLED_SCHEMA, PlanColumns
from streamtune.models.costmodel.datasets import plans_of
from streamtune.models.costmodel.features import PlanEncoder
from streamtune.models.costmodel.model import CostModel
from streamtune.training.costmodel import describe_run

NODES: list[dict[str, Any]] = [
    {"id": "clicks", "type": "source", "parallelism_from": "requested"},
    {"id": "views", "type": "source", "parallelism_from": "assumed"},
    {"id": "join", "type": "window_join", "parallelism_from": "measured", "metrics": {"selectivity": 7.5}},
    {"id": "sink", "type": "sink", "parallelism_from": "measured"},
]
RECORD: dict[str, Any] = {"event_rate": 1000, "dag": {"nodes": NODES}}


def run() -> Run:
    """Two sources that were asked for 1,000 records/s each and gave 1,600 together."""
    return Run.model_validate(
        {
            "schema_version": 1,
            "run_id": "r",
            "job": "ads-q1",
            "engine": "flink",
            "observed_at": datetime(2025, 1, 1, tzinfo=UTC),
            "window_s": 120.0,
            "source_rates": {"clicks": 800.0, "views": 800.0},
            "operators": [{"id": node["id"], "type": node["type"], "parallelism": 2} for node in NODES],
            "edges": [
                {"source": "clicks", "target": "join", "partitioning": "hash"},
                {"source": "views", "target": "join", "partitioning": "hash"},
                {"source": "join", "target": "sink", "partitioning": "rebalance"},
            ],
            "latency_ms": 120.0,
            "throughput_per_s": 900.0,
        }
    )


def described() -> dict[str, Any]:
    hosts = Cluster((Host(cores=8),) * 2)
    return describe_run(run(), hosts, nominal_rates(run(), RECORD), measured_selectivities(RECORD))


def test_a_run_carries_its_measured_selectivities_and_what_each_source_was_asked_for() -> None:
    """The join gives 7.5 records per record; 800 of 1,000 records/s arrive at each source."""
    row = described()
    assert np.array_equal(row["selectivity"], [np.nan, np.nan, 7.5, np.nan], equal_nan=True)
    assert row["event_rate"] == [800, 800, 0, 0]
    assert row["nominal_rate"] == [1000, 1000, 0, 0]


def test_selectivities_that_are_almost_all_alike_keep_the_others_in_reach() -> None:
    """Most joins give 0.999999 or 1 records per record, some give 7: quartiles one millionth apart scale nothing."""
    usual = [0.999999 if number % 2 else 1.0 for number in range(40)]
    hosts = Cluster((Host(cores=8),) * 2)
    rows = [
        describe_run(run(), hosts, None, {"clicks": 1.0, "views": 1.0, "join": one, "sink": 1.0})
        for one in (*usual, 7.0, 7.0)
    ]
    columns = plans_of(pa.Table.from_pylist(rows, schema=LABELLED_SCHEMA)).columns
    encoder = PlanEncoder.fit(columns)
    scaled = encoder.transform(columns).operators[:, encoder.names.index("selectivity")]
    assert 1 < np.abs(scaled).max() < 20


@pytest.mark.parametrize("asked", [None, 0, float("inf"), "many"])
def test_without_a_rate_asked_for_what_arrived_stands_in(asked: object) -> None:
    assert nominal_rates(run(), {**RECORD, "event_rate": asked}) is None


@pytest.mark.parametrize("selectivity", [None, float("nan"), float("inf")])
def test_a_selectivity_that_is_no_number_is_unknown(selectivity: float | None) -> None:
    nodes = [{**node, "metrics": {"selectivity": selectivity}} for node in NODES]
    assert measured_selectivities({"dag": {"nodes": nodes}}) == {}


def test_a_plan_is_measured_if_all_behind_the_sources_is() -> None:
    assert plan_was_measured(RECORD)
    for told in ("assumed", "requested", "unknown"):
        changed = [{**node, "parallelism_from": told} if node["id"] == "join" else node for node in NODES]
        assert not plan_was_measured({"dag": {"nodes": changed}})


def test_measured_plans_are_told_apart() -> None:
    rows = [{**described(), "enumeration": known} for known in (MEASURED, ASSUMED, MEASURED)]
    runs = RealRuns(pa.Table.from_pylist(rows, schema=LABELLED_SCHEMA), ("ads",) * 3)
    assert runs.measured.tolist() == [0, 2]


def test_no_model_sees_the_part_it_predicts(
    plans: pa.Table, model: CostModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every run is predicted once per method; learning parts and predicted parts share no query."""
    table, learnt, predicted = plans.slice(0, 60), [], []

    class Watched:
        def __init__(self, queries: list[str]) -> None:
            learnt.append(set(queries))

        def predict(self, columns: PlanColumns) -> object:
            predicted.append(columns.plans)
            return model.predict(columns)

    monkeypatch.setattr(real_runs, "_network", lambda _arena, learning, _set: Watched(learning["query"].to_pylist()))
    monkeypatch.setattr(real_runs.FlatModel, "train", lambda _name, learning, *_rest: Watched(list(learning.queries)))
    arena = ZeroTuneArena(ZeroTuneScale.quick().replace(jobs=1), tmp_path)
    parts = [np.arange(0, 20), np.arange(20, 60)]
    found = real_runs._cross_validated(arena, table, parts, "all")
    queries = np.array(table["query"].to_pylist())
    for part, network, flat in zip(parts, learnt[::2], learnt[1::2], strict=True):
        assert network == flat == set(queries) - set(queries[part])
    assert predicted == [20, 20, 40, 40]
    expected = model.predict(plans_of(table).columns).latency_ms
    assert np.allclose(found[real_runs.BOTH][0], expected, rtol=1e-4), "the mean of two equal models is that model"
    halves = [np.median(table["latency_ms"].to_numpy()[part]) for part in reversed(parts)]
    assert np.allclose(found["constant"][0], np.repeat(halves, [20, 40])), "the median of the other part"
