"""The 61 workloads: complete, reproducible, true to the papers' tables, and worth tuning."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow.spec import parse_spec
from streamtune.errors import DataflowError, StreamTuneError
from streamtune.workloads import catalogue
from streamtune.workloads.workload import Workload

NAMES = catalogue.names()
WORKLOADS = [catalogue.load(name) for name in NAMES]
by_name = pytest.mark.parametrize("workload", WORKLOADS, ids=NAMES)


def test_five_nexmark_and_56_pqp_queries() -> None:
    assert Counter(workload.template for workload in WORKLOADS) == {
        "nexmark": 5,
        "pqp-linear": 8,
        "pqp-2way": 16,
        "pqp-3way": 32,
    }
    assert [workload.name for workload in WORKLOADS] == NAMES
    assert len(set(NAMES)) == 61


@by_name
def test_a_spec_survives_yaml(workload: Workload) -> None:
    assert parse_spec(yaml.safe_load(workload.spec.to_yaml())) == workload.spec


@by_name
def test_nominal_rates_are_one_unit(workload: Workload) -> None:
    assert workload.spec.job.source_rates == workload.units == workload.rates_at(1)


def test_units_are_those_of_table_two() -> None:
    units = {name: catalogue.load(name).units for name in NAMES if name.startswith("nexmark")}
    assert units == {
        "nexmark-q1": {"bids": 700_000},
        "nexmark-q2": {"bids": 900_000},
        "nexmark-q3": {"auctions": 200_000, "persons": 40_000},
        "nexmark-q5": {"bids": 80_000},
        "nexmark-q8": {"auctions": 100_000, "persons": 60_000},
    }
    pqp = {"pqp-linear": [5_000], "pqp-2way": [500] * 2, "pqp-3way": [250] * 3}
    for workload in WORKLOADS:
        if workload.template in pqp:
            assert list(workload.units.values()) == pqp[workload.template]


@by_name
def test_structures_are_those_of_the_papers(workload: Workload) -> None:
    types = Counter(workload.spec.job.dataflow.types)
    expected = {
        "nexmark-q1": {"source": 1, "map": 1, "sink": 1},
        "nexmark-q2": {"source": 1, "filter": 1, "sink": 1},
        "nexmark-q3": {"source": 2, "filter": 2, "join": 1, "sink": 1},
        "nexmark-q5": {"source": 1, "window_aggregate": 2, "window_join": 1, "sink": 1},
        "nexmark-q8": {"source": 2, "window_join": 1, "sink": 1},
        "pqp-linear": {"source": 1, "filter": 1, "window_aggregate": 1, "sink": 1},
        "pqp-2way": {"source": 2, "filter": 2, "window_join": 1, "window_aggregate": 1, "sink": 1},
        "pqp-3way": {"source": 3, "filter": 3, "window_join": 2, "window_aggregate": 1, "sink": 1},
    }
    assert types == expected.get(workload.name, expected.get(workload.template))


@given(st.sampled_from([name for name in NAMES if name.startswith("pqp")]), st.integers(0, 10**6))
def test_pqp_keeps_to_the_training_range_of_zerotune(name: str, seed: int) -> None:
    # ZeroTune, Table III, column "Training Range (Seen)".
    for operator in catalogue.load(name, seed).spec.job.dataflow.operators:
        assert operator.tuple_type in {"string", "double", "int"}
        if operator.is_source:
            assert operator.tuple_width_out in {1, 2, 3, 4, 5}
        window = operator.window
        if window is None:
            continue
        lengths = {0.25, 0.5, 1.0, 2.0, 3.0} if window.policy == "time" else {5, 10, 25, 50, 75, 100}
        assert window.length in lengths
        if window.slide is not None and window.policy == "time":
            assert round(window.slide / window.length, 6) in {0.3, 0.4, 0.5, 0.6, 0.7}
        elif window.slide is not None:
            # Slides in tuples are whole, so they may be half a tuple off: 0.3 · 5 = 1.5 becomes 2.
            assert any(abs(window.slide - ratio * window.length) <= 0.5 + 1e-9 for ratio in (0.3, 0.4, 0.5, 0.6, 0.7))
            assert window.slide == int(window.slide)


@given(st.sampled_from(NAMES), st.integers(0, 10**6))
def test_the_seed_alone_decides(name: str, seed: int) -> None:
    assert catalogue.load(name, seed) == catalogue.load(name, seed)
    assert catalogue.load(name, seed) != catalogue.load(name, seed + 1)


@given(st.sampled_from(NAMES), st.integers(0, 10**6))
def test_every_operator_can_be_served_at_the_peak_and_sources_are_half_idle(name: str, seed: int) -> None:
    workload = catalogue.load(name, seed)
    assert all(need is not None for need in workload.needs_at(10).values())
    for source in workload.spec.job.dataflow.sources:
        assert source.parallelism is not None
        capacity = workload.physics[source.id].capacity_per_s(source.parallelism)
        assert workload.rates_at(10)[source.id] <= 0.5 * capacity


def test_optima_at_the_peak_spread_from_2_to_60() -> None:
    optima = np.array(
        [
            workload.needs_at(10)[operator.id]
            for workload in WORKLOADS
            for operator in workload.spec.job.dataflow.operators
            if operator.type not in ("source", "sink")
        ],
        dtype=float,
    )
    ones = float(np.mean(optima == 1))
    edges = [1, 2, 3, 5, 10, 20, 30, 40, 50, 60, 101]
    counts, _ = np.histogram(optima, bins=edges)
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        print(f"optimum {low:3d} … {high - 1:3d}: {count}")
    print(f"{len(optima)} operators, at 1: {ones:.1%}, median {np.median(optima):g}, largest {optima.max():g}")
    assert ones < 0.15
    assert 35 <= optima.max() <= 70
    # No decade of the range is empty, and operators worth tuning are no rarity.
    assert all(np.any((optima > low) & (optima <= low + 10)) for low in range(0, 40, 10))
    assert float(np.mean(optima >= 10)) > 0.15


def test_sinks_are_light() -> None:
    for workload in WORKLOADS:
        sink = workload.spec.job.dataflow.operators[-1]
        assert sink.type == "sink"
        assert (workload.needs_at(10)[sink.id] or 100) <= 5


def test_what_follows_the_windows_of_q5_and_q8_is_light() -> None:
    for name, window in (("nexmark-q5", "bids_per_auction"), ("nexmark-q8", "new_sellers")):
        assert catalogue.load(name).physics[window].selectivity < 0.1


def test_needs_say_when_no_parallelism_suffices() -> None:
    assert catalogue.load("nexmark-q1").needs_at(100)["to_euro"] is None


@pytest.mark.parametrize("multiple", [-1.0, float("nan"), float("inf")])
def test_a_multiple_must_be_a_rate(multiple: float) -> None:
    with pytest.raises(DataflowError, match="multiple of the rate unit"):
        WORKLOADS[0].rates_at(multiple)


def test_an_unknown_name_says_what_is_close() -> None:
    with pytest.raises(StreamTuneError, match=r"no job or workload 'nexmark-q4': did you mean 'nexmark-q\d'"):
        catalogue.load("nexmark-q4")
    with pytest.raises(StreamTuneError, match="streamtune workloads list"):
        catalogue.load("pqp-linear-08")


def test_random_jobs_are_known_by_name() -> None:
    assert catalogue.load("random-17").template == "random"
