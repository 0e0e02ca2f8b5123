"""Laws of the physics model: features inform, the residual hides the rest, and everything scales up to 100."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Aggregate, Join, Operator, Window
from streamtune.dataflow.operator import KNOWN_TYPES
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.workloads import catalogue, physics_model, random_job
from streamtune.workloads.physics_model import (
    draw_physics,
    expected_selectivity,
    expected_service_us,
    generator,
    significant,
)
from streamtune.workloads.workload import Workload

random_workloads = st.builds(random_job, st.integers(min_value=0, max_value=10**9))


def filter_of(tuple_type: str, width: float) -> Operator:
    return Operator(id="f", type="filter", tuple_type=tuple_type, tuple_width_in=width, tuple_width_out=width)


def window_aggregate(window: Window, function: str = "max", key_class: str = "int") -> Operator:
    aggregate = Aggregate(function=function, value_class="int", key_class=key_class)
    return Operator(
        id="w", type="window_aggregate", window=window, aggregate=aggregate, tuple_width_in=3, tuple_type="int"
    )


def window_join(window: Window) -> Operator:
    return Operator(
        id="j", type="window_join", window=window, join=Join(key_class="int"), tuple_width_in=3, tuple_type="int"
    )


def pairs(workload: Workload) -> Iterator[tuple[Operator, OperatorPhysics]]:
    for operator in workload.spec.job.dataflow.operators:
        yield operator, workload.physics[operator.id]


def test_service_time_follows_the_documented_formula() -> None:
    # 1.9 (window_aggregate) · 205 (string) · (6/3)^0.2 · (4 s)^0.25 · (4/2)^0.8 · 1.15 (avg) · 1.025 (class double)
    # · 1.15 (key string) = 389.5 · 1.1487 · 1.4142 · 1.7411 · 1.15 · 1.025 · 1.15 = 1493.4
    operator = Operator(
        id="w",
        type="window_aggregate",
        window=Window(type="sliding", length=4.0, slide=2.0),
        aggregate=Aggregate(function="avg", value_class="double", key_class="string"),
        tuple_width_in=6,
        tuple_type="string",
    )
    assert expected_service_us(operator) == pytest.approx(1493.4, rel=1e-4)


@pytest.mark.parametrize("kind", KNOWN_TYPES)
def test_the_documented_base_costs_are_the_ones_in_use(kind: str) -> None:
    row = next(line for line in (physics_model.__doc__ or "").splitlines() if line.startswith(f"{kind} "))
    plain = Operator(id="o", type=kind, tuple_type="row", tuple_width_in=3)
    assert expected_service_us(plain) == float(row.split()[1])


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        (filter_of("row", 3), filter_of("int", 3)),
        (filter_of("int", 3), filter_of("string", 3)),
        (filter_of("int", 1), filter_of("int", 5)),
        (filter_of("int", 3), window_join(Window(type="tumbling", length=1.0))),
        (window_join(Window(type="tumbling", length=1.0)), window_join(Window(type="tumbling", length=3.0))),
        (
            window_aggregate(Window(type="tumbling", length=2.0)),
            window_aggregate(Window(type="sliding", length=2.0, slide=0.6)),
        ),
        (
            window_aggregate(Window(type="tumbling", length=2.0), "min"),
            window_aggregate(Window(type="tumbling", length=2.0), "avg"),
        ),
        (
            window_aggregate(Window(type="tumbling", length=2.0), key_class="int"),
            window_aggregate(Window(type="tumbling", length=2.0), key_class="string"),
        ),
    ],
)
def test_more_to_do_costs_more(cheap: Operator, dear: Operator) -> None:
    assert expected_service_us(cheap) < expected_service_us(dear)


def test_a_tumbling_count_window_of_ten_lets_one_in_ten_out() -> None:
    operator = window_aggregate(Window(type="tumbling", policy="count", length=10.0))
    assert expected_selectivity(operator) == pytest.approx(0.1)
    assert draw_physics(operator, generator(1)).selectivity == pytest.approx(0.1)


def test_features_explain_the_cost_up_to_a_residual_of_about_a_third() -> None:
    residuals: list[float] = []
    expected: list[float] = []
    for seed in range(400):
        for operator, physics in pairs(random_job(seed)):
            expected.append(math.log(expected_service_us(operator)))
            residuals.append(math.log(physics.service_us) - expected[-1])
    spread = float(np.std(residuals))
    explained = float(np.corrcoef(expected, np.add(expected, residuals))[0, 1])
    # A normal with σ = 0.3, cut at ±2σ, has 0.3 · 0.88 = 0.264.
    print(f"residual σ {spread:.3f} over {len(residuals)} operators, correlation features–cost {explained:.3f}")
    assert 0.25 <= spread <= 0.35
    assert abs(float(np.mean(residuals))) < 0.02
    assert explained > 0.9


def test_the_residual_does_not_follow_from_the_operators_before_it() -> None:
    residuals = [
        [math.log(physics.service_us / expected_service_us(operator)) for operator, physics in pairs(random_job(seed))]
        for seed in range(400)
    ]
    neighbours = np.array([pair for job in residuals for pair in itertools.pairwise(job)])
    assert abs(float(np.corrcoef(neighbours.T)[0, 1])) < 0.05


@given(random_workloads)
def test_physics_stays_inside_its_bounds(workload: Workload) -> None:
    for operator, physics in pairs(workload):
        assert_in_bounds(operator, physics)


def test_the_catalogue_stays_inside_the_bounds_too() -> None:
    for name in catalogue.names():
        for operator, physics in pairs(catalogue.load(name)):
            assert_in_bounds(operator, physics)


def assert_in_bounds(operator: Operator, physics: OperatorPhysics) -> None:
    assert physics.service_us > 0
    assert 0 < physics.selectivity <= 2.5
    assert 0.001 <= physics.contention <= 0.01
    assert 0 < physics.coherency <= 5e-5
    assert math.sqrt((1 - physics.contention) / physics.coherency) > 100
    capacities = [physics.capacity_per_s(parallelism) for parallelism in range(1, 101)]
    assert all(more > less for less, more in itertools.pairwise(capacities))
    assert 0.1 <= physics.cv <= 0.4
    assert 0 <= physics.skew <= 0.10
    assert physics.skew == 0 or operator.is_keyed
    assert physics.fire_share <= 0.2
    if operator.window is None:
        assert physics.fire_share == 0
    elif operator.window.policy == "time":
        assert physics.fire_share * operator.window.period <= 0.8


def test_skew_is_small_at_the_median() -> None:
    skews = [p.skew for seed in range(300) for operator, p in pairs(random_job(seed)) if operator.is_keyed]
    assert 0.015 <= float(np.median(skews)) <= 0.04


@given(st.sampled_from(KNOWN_TYPES), st.integers(0, 2**32), st.floats(0, 1e6), st.integers(1, 100))
def test_neither_name_nor_rate_nor_parallelism_enters(kind: str, seed: int, rate: float, parallelism: int) -> None:
    plain = Operator(id="a", type=kind, tuple_width_in=4, tuple_type="double")
    named = plain.model_copy(update={"id": "another", "rate": rate, "parallelism": parallelism})
    assert draw_physics(plain, generator(seed)) == draw_physics(named, generator(seed))


@given(st.integers(0, 2**32), st.floats(0.001, 1))
def test_a_fixed_selectivity_changes_nothing_else(seed: int, selectivity: float) -> None:
    operator = filter_of("row", 7)
    drawn = draw_physics(operator, generator(seed))
    fixed = draw_physics(operator, generator(seed), selectivity=selectivity)
    assert fixed == drawn.model_copy(update={"selectivity": significant(selectivity)})
