"""Plans as columns, OptiSample's arithmetic, and what the encoder says of the unknown."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Job, Window
from streamtune.dataflow.hosts import Cluster, Host
from streamtune.models.costmodel.columns import PLAN_SCHEMA, PlanColumns
from streamtune.models.costmodel.datasets import plans_of
from streamtune.models.costmodel.features import PlanEncoder
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.workloads.settings import STRUCTURES
from streamtune.workloads.zerotune import draw_query


def two_way() -> Job:
    """source (1000/s) → filter ─┐
    source (3000/s) ─────────────┴→ join → count-window aggregate (10 tuples) → sink"""
    flow = Dataflow.from_edges(
        ["source", "filter", "source", "window_join", "window_aggregate", "sink"],
        [(0, 1), (1, 3), (2, 3), (3, 4), (4, 5)],
    )
    changed = list(flow.operators)
    changed[0] = changed[0].model_copy(update={"rate": 1000.0})
    changed[2] = changed[2].model_copy(update={"rate": 3000.0})
    window = Window(type="tumbling", policy="count", length=10)
    changed[4] = changed[4].model_copy(update={"window": window})
    return Job("two-way", Dataflow(tuple(changed), flow.edges))


SCALING = {"source": 1e-3, "filter": 4e-3, "window_join": 2e-3, "window_aggregate": 5e-3, "sink": 1e-3}


def test_optisample_by_hand() -> None:
    """Rates: filter 1000, join 1000·0.5 + 3000 = 3500, aggregate 3500·1.2 = 4200, sink 4200/10 = 420.

    Times the scaling factors: 1, 4, 3, 7, 21, 0.42 → 1.
    """
    sampler = OptiSample(SCALING, {"filter": 0.5, "window_join": 1.2})
    expected = {"op0": 1, "op1": 4, "op2": 3, "op3": 7, "op4": 21, "op5": 1}
    assert sampler.degrees(two_way(), 100) == expected
    assert sampler.degrees(two_way(), 8)["op4"] == 8, "never above the cores"
    known = sampler.degrees(two_way(), 100, known={"op1": 0.1})
    assert known["op3"] == 7  # 3100 · 0.002 = 6.2
    assert known["op4"] == 19  # 3100 · 1.2 · 0.005 = 18.6


@given(st.sampled_from(STRUCTURES), st.integers(0, 500), st.floats(0.1, 10))
@settings(max_examples=40)
def test_more_load_never_means_fewer_instances(structure: str, number: int, factor: float) -> None:
    query = draw_query(structure, number)
    sampler = OptiSample(SCALING, {"filter": 0.5})
    base = sampler.degrees(query.job, 1000)
    rates = {source: rate * max(1.0, factor) for source, rate in query.job.source_rates.items()}
    more = sampler.degrees(query.job, 1000, rates=rates)
    assert all(more[key] >= base[key] for key in base)


@given(st.sampled_from(STRUCTURES), st.integers(0, 500), st.integers(0, 10**6))
@settings(max_examples=30)
def test_many_plans_at_once_are_the_plans_one_by_one(structure: str, number: int, seed: int) -> None:
    query = draw_query(structure, number)
    size = len(query.job.dataflow.operators)
    degrees = np.random.default_rng(seed).integers(1, query.largest_parallelism + 1, size=(3, size))
    together = PlanColumns.of_plans(query.job, degrees, query.cluster)
    rows = [PlanColumns.of_plans(query.job, one, query.cluster).to_record() for one in degrees]
    apart = PlanColumns.from_table(pa.Table.from_pylist(rows, schema=PLAN_SCHEMA))
    for name, values in together.numbers.items():
        assert np.array_equal(values, apart.numbers[name], equal_nan=True), name
    assert np.array_equal(together.placements, apart.placements)
    assert np.array_equal(together.edges, apart.edges)
    for name, column in together.categories.items():
        other = apart.categories[name]
        texts = [[c.values[p] if p >= 0 else None for p in c.positions] for c in (column, other)]
        assert texts[0] == texts[1], name


@given(st.sampled_from(STRUCTURES), st.integers(0, 500), st.integers(0, 10**6))
@settings(max_examples=30)
def test_every_instance_is_placed_once(structure: str, number: int, seed: int) -> None:
    query = draw_query(structure, number)
    size = len(query.job.dataflow.operators)
    degrees = np.random.default_rng(seed).integers(1, query.largest_parallelism + 1, size=size)
    operator, host, instances = PlanColumns.of_plans(query.job, degrees, query.cluster).placements
    assert np.array_equal(np.bincount(operator, weights=instances, minlength=size), degrees)
    cores = np.array([one.cores for one in query.cluster.hosts])
    assert (instances <= cores[host]).all(), "a host has no more instances of an operator than cores"


def test_grouping_and_partitioning_follow_the_plan() -> None:
    """Equal parallelism behind a single input chains; a keyed edge never does."""
    job, cluster = two_way(), Cluster((Host(cores=16),))
    columns = PlanColumns.of_plans(job, [[4, 4, 2, 4, 3, 3], [4, 2, 2, 4, 3, 1]], cluster)
    assert columns.numbers["grouping"].tolist() == [2, 2, 1, 1, 2, 2, 1, 1, 1, 1, 1, 1]
    partitioning = columns.categories["partitioning"]
    texts = [partitioning.values[p] if p >= 0 else None for p in partitioning.positions]
    assert texts[:6] == [None, "forward", None, "hash", "hash", "forward"]
    assert texts[6:] == [None, "rebalance", None, "hash", "hash", "rebalance"]


def test_a_source_that_falls_short_is_seen_and_others_are_not_told_apart_by_name(plans: pa.Table) -> None:
    """80 of 100 records/s arrive: 0.8. Where nothing else is known, what arrives is what was asked for."""
    job, cluster = two_way(), Cluster((Host(cores=16),))
    arrived, asked = dict.fromkeys(job.source_rates, 80.0), dict.fromkeys(job.source_rates, 100.0)
    short = PlanColumns.of_plans(job, [1] * 6, cluster, rates=arrived, nominal_rates=asked)
    usual = PlanColumns.of_plans(job, [1] * 6, cluster, rates=arrived)
    encoder = PlanEncoder.fit(plans_of(plans.slice(0, 50)).columns)
    place = encoder.names.index("arrived_share")
    different = encoder.transform(short).operators != encoder.transform(usual).operators
    is_source = usual.numbers["event_rate"] > 0
    assert np.array_equal(different[:, place], is_source)
    assert not np.delete(different, place, axis=1).any()
    assert "arrived share 0.8 … 0.8 (trained on 1 … 1)" in encoder.outside(short)


def test_what_was_never_seen_is_named(model: CostModel) -> None:
    query = draw_query("linear", 1)
    far = query.job.dataflow.operators[0].model_copy(update={"rate": 9e7, "tuple_type": "blob"})
    job = Job("far", Dataflow((far, *query.job.dataflow.operators[1:]), query.job.dataflow.edges))
    told = model.encoder.outside(PlanColumns.of_plans(job, [1, 1, 1, 1], query.cluster))
    assert any("event rate" in text for text in told)
    assert any("tuple type 'blob' (never seen)" in text for text in told)
    found = model.predict(PlanColumns.of_plans(job, [1, 1, 1, 1], query.cluster))
    assert np.isfinite(found.latency_ms).all()


@pytest.mark.parametrize("feature_set", ["all", "known_jobs", "operator", "parallelism_and_resource", "table_one"])
def test_feature_sets_leave_out_what_they_say(plans: pa.Table, feature_set: str) -> None:
    encoder = PlanEncoder.fit(plans_of(plans.slice(0, 50)).columns, feature_set)  # type: ignore[arg-type]
    names = set(encoder.names)
    assert ("parallelism" in names) == (feature_set != "operator")
    assert ("selectivity" in names) == (feature_set != "parallelism_and_resource")
    assert ("demand" in names) == (feature_set in ("all", "known_jobs", "operator"))
    assert any(name.startswith("id=") for name in names) == (feature_set == "known_jobs")
    graphs = encoder.transform(plans_of(plans.slice(0, 5)).columns)
    assert graphs.operators.shape[1] == encoder.width
    assert graphs.hosts.shape[1] == encoder.host_width
