"""Nothing of the test side reaches training: not through the scaler, not through a query, not through a range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.costmodel.conftest import SMALL
from streamtune.errors import StreamTuneError
from streamtune.models.costmodel.columns import OPERATOR_NUMBERS
from streamtune.models.costmodel.datasets import part_of, plans_of, split
from streamtune.models.costmodel.features import PlanEncoder
from streamtune.models.costmodel.model import CostModel
from streamtune.workloads import cloudlab, zerotune


def test_the_scaler_is_fitted_on_training_plans_alone(plans: pa.Table, model: CostModel) -> None:
    """The model's encoder is the one of the training part; another test part, however wild, gives the same."""
    parts = split(plans)
    alone = PlanEncoder.fit(plans_of(parts["train"]).columns)
    assert model.encoder == alone
    assert PlanEncoder.fit(plans_of(plans).columns) != alone, (
        "all data must give another scaler, or this proves nothing"
    )


def test_validation_never_moves_the_scaler(plans: pa.Table) -> None:
    parts = split(plans)
    training, validation = plans_of(parts["train"].slice(0, 60)), plans_of(parts["validation"])
    wild = {**validation.columns.numbers, "tuple_width_in": validation.columns.numbers["tuple_width_in"] * 1e6}
    changed = replace(validation, columns=replace(validation.columns, numbers=wild))
    quick = SMALL.model_copy(update={"members": 1, "training": SMALL.training.model_copy(update={"epochs": 1})})
    encoders = [CostModel.train(training, held, quick).encoder for held in (validation, changed)]
    assert encoders[0] == encoders[1]


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=60))
@settings(max_examples=50)
def test_all_runs_of_a_query_are_on_one_side(queries: list[str]) -> None:
    table = pa.table({"query": queries * 2})
    parts = split(table)
    sets = [set(part.column("query").to_pylist()) for part in parts.values()]
    assert sum(part.num_rows for part in parts.values()) == table.num_rows
    assert sum(map(len, sets)) == len(set().union(*sets))
    assert all(part_of(query) == part_of(query) for query in queries)


def test_a_query_on_both_sides_is_refused(plans: pa.Table) -> None:
    both = plans_of(plans.slice(0, 20))
    with pytest.raises(StreamTuneError, match="split by query"):
        CostModel.train(both, both, SMALL)


def test_unseen_ranges_structures_and_hosts_are_absent_from_training(plans: pa.Table) -> None:
    """Of what the stored training plans really hold, not of what the settings say."""
    seen = plans_of(plans).columns
    unseen, numbers = zerotune.UNSEEN, seen.numbers
    rates = set(numbers["event_rate"][numbers["event_rate"] > 0].tolist())
    assert rates <= set(zerotune.SEEN.event_rates)
    assert not rates & set(unseen.event_rates)
    sources = np.isin(seen.categories["type"].positions, [seen.categories["type"].values.index("source")])
    assert not set(numbers["tuple_width_out"][sources].tolist()) & set(map(float, unseen.query.tuple_widths))
    count = seen.categories["window_policy"].values.index("count")
    is_count = seen.categories["window_policy"].positions == count
    assert not set(numbers["window_length"][is_count].tolist()) & set(map(float, unseen.query.window_lengths_tuples))
    is_time = np.isfinite(numbers["window_length"]) & ~is_count
    assert not set(numbers["window_length"][is_time].tolist()) & set(map(float, unseen.query.window_durations_s))
    assert not set(seen.host_counts.tolist()) & set(cloudlab.UNSEEN_WORKERS)
    machines = {(cores, ghz) for cores, ghz in zip(seen.hosts["cores"], seen.hosts["ghz"], strict=True)}
    assert not machines & {(float(cloudlab.machine(k).cores), cloudlab.machine(k).ghz) for k in cloudlab.UNSEEN_KINDS}
    assert set(plans.column("structure").to_pylist()) == set(zerotune.SEEN_STRUCTURES)


def test_the_columns_hold_no_label(plans: pa.Table) -> None:
    """What was measured of a run (latency, throughput, busy time) is not a feature of it."""
    measured = {"latency_ms", "throughput_per_s", "busy_ms_per_s", "records_in_per_s", "records_out_per_s"}
    assert not measured & set(OPERATOR_NUMBERS)
    assert not measured & set(PlanEncoder.fit(plans_of(plans.slice(0, 30)).columns).names)
