"""Capacity curves: what metrics say, how beliefs move, and what a history teaches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.models.capacity import CapacityBelief, CapacityPrior, TypePrior
from streamtune.models.capacity.belief import curve_basis, reading_basis
from streamtune.models.capacity.prior import CurveSums, PriorError, fit_type
from streamtune.readings.capacity import read_capacity


def test_readings_by_hand() -> None:
    """Capacity is λ / u of the busiest subtask; a saturated operator's is what it takes.

    1. half busy at 100/s: 200/s.   2. mean 0.4, busiest 0.5: the busiest counts, 200/s.
    3. a bottleneck, 0.97 busy: 100/s itself.   4. called a bottleneck at 0.3: blamed for another, so 100/0.3.
    5. idle.   6. nothing measured.   7. half its time held up, busy the other half, a bottleneck: 100/0.5 = 200/s.
    """
    found = read_capacity(
        [100, 100, 100, 100, 0, math.nan, 100],
        [0.5, 0.4, 0.9, 0.3, 0.0, 0.5, 0.5],
        [math.nan, 0.5, 0.97, 0.3, 0.0, 0.5, 0.5],
        [0, 0, 0, 0, 0, 0, 0.5],
        [False, False, True, True, False, False, True],
    )
    np.testing.assert_allclose(
        np.exp(found.log_capacity), [200, 200, 100, 100 / 0.3, math.nan, math.nan, 200], rtol=1e-12
    )
    assert found.is_saturated.tolist() == [False, False, True, False, False, False, True]


def test_busy_time_cut_at_the_whole_second_is_marked() -> None:
    found = read_capacity([100.0], [1.0], [1.0], [0.0], [False])
    assert found.is_cut.tolist() == [True]


@given(st.lists(st.tuples(st.integers(1, 100), st.floats(2, 9), st.booleans()), min_size=1, max_size=8))
def test_readings_one_by_one_give_what_all_at_once_give(readings: list[tuple[int, float, bool]]) -> None:
    """Sequential conditioning against the closed form (S⁻¹ + XᵀX/σ²)⁻¹."""
    belief = TypePrior.flat().belief()
    mean, cov, sd = belief.mean.copy(), belief.covariance.copy(), belief.noise_sd
    for degree, value, saturated in readings:
        belief.see(degree, value, is_saturated=saturated)
    x = reading_basis([r[0] for r in readings], [r[2] for r in readings])
    y = np.array([r[1] for r in readings])
    expected_cov = np.linalg.inv(np.linalg.inv(cov) + x.T @ x / sd**2)
    expected = expected_cov @ (np.linalg.solve(cov, mean) + x.T @ y / sd**2)
    np.testing.assert_allclose(belief.mean, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(belief.covariance, expected_cov, rtol=1e-4, atol=1e-6)


def test_having_kept_up_is_a_lower_bound() -> None:
    """Moments of the cut Gaussian against a million draws."""
    belief = CapacityBelief(np.array([5.0, 1.0, 0.0, 0.0, 0.0]), np.diag([0.25, *[1e-9] * 4]), 0.02)
    random = np.random.default_rng(0)
    level = random.normal(5.0, 0.5, 1_000_000)
    kept = level[level + random.normal(0, 0.02, level.size) > 5.3]
    belief.see_at_least(1, 5.3)
    assert belief.mean[0] == pytest.approx(kept.mean(), abs=0.003)
    assert belief.covariance[0, 0] == pytest.approx(kept.var(), rel=0.02)


@given(st.floats(100, 1e6), st.integers(1, 60), st.floats(0.03, 0.9))
def test_a_reading_is_believed_where_it_was_made(rate: float, degree: int, busy: float) -> None:
    belief = TypePrior.flat().belief()
    belief.see(degree, math.log(rate / busy), is_saturated=True)
    capacity = math.exp(belief.log_capacity([degree])[0][0])
    assert capacity == pytest.approx(rate / busy, rel=0.02)
    assert belief.safe_probability(rate / busy * 1.3, [degree])[0] < 0.01
    assert belief.safe_probability(rate / busy / 1.3, [degree])[0] > 0.99


def test_a_saturated_reading_corrects_the_bias_of_busy_time() -> None:
    """Busy shares that are 5 % too low say 5 % too much capacity; one saturation tells."""
    belief = TypePrior.flat().belief()
    for degree in (5, 10, 20):
        belief.see(degree, math.log(1000 * degree * 1.05), is_saturated=False)
    before = math.exp(belief.log_capacity([10])[0][0])
    belief.see(12, math.log(12_000), is_saturated=True)
    after = math.exp(belief.log_capacity([10])[0][0])
    assert before > 10_200
    assert after == pytest.approx(10_000, rel=0.02)


def planted_sums(random: np.random.Generator, groups: int = 150, each: int = 25) -> CurveSums:
    level = random.normal(8.0, 1.0, groups)
    bend = random.normal(-0.3, 0.1, groups)
    group = np.repeat(np.arange(groups), each)
    degree = random.integers(1, 61, groups * each)
    saturated = random.random(groups * each) < 0.2
    weights = np.column_stack([level, np.full(groups, 0.98), bend, np.full(groups, 0.04), np.full(groups, -0.02)])
    rows = reading_basis(degree, saturated)
    values = (rows * weights[group]).sum(axis=1) + random.normal(0, 0.02, len(group))
    return CurveSums.of(group, rows, values)


def test_a_history_teaches_curve_bias_and_noise() -> None:
    """Planted: slope 0.98, bend −0.3 ± 0.1, busy time read 4 % too low, and 2 % higher for e times the instances."""
    prior = fit_type(planted_sums(np.random.default_rng(1)))
    level, slope, bend, bias, tilt = prior.mean
    assert level == pytest.approx(8.0, abs=0.3)
    assert slope == pytest.approx(0.98, abs=0.01)
    assert bend == pytest.approx(-0.3, abs=0.04)
    assert bias == pytest.approx(0.04, abs=0.01)
    assert tilt == pytest.approx(-0.02, abs=0.004)
    assert prior.noise_sd == pytest.approx(0.02, rel=0.1)
    assert math.sqrt(prior.covariance[2][2]) == pytest.approx(0.1, rel=0.3)


def test_few_operators_leave_the_prior_modest() -> None:
    few = fit_type(planted_sums(np.random.default_rng(1), groups=1))
    many = fit_type(planted_sums(np.random.default_rng(1), groups=100))
    assert few.covariance[3][3] > 3 * many.covariance[3][3]


def test_the_prior_comes_back_from_json_and_foreign_text_is_refused() -> None:
    prior = CapacityPrior(types={"map": TypePrior.flat()}, saturated_busy={"map": 0.9})
    assert CapacityPrior.from_json(prior.to_json()) == prior
    with pytest.raises(PriorError, match="not a capacity prior"):
        CapacityPrior.from_json('{"types": {"map": {}}}')


def test_a_share_close_to_nothing_says_little() -> None:
    """1 % busy is known to ± 0.2 points: a fifth of it."""
    found = read_capacity([100.0, 100.0], [0.01, 0.001], [0.01, 0.001], [0.0, 0.0], [False, False])
    assert found.resolution_sd[0] == pytest.approx(0.2)
    assert found.is_known.tolist() == [True, False]


def test_engines_differ_in_how_far_off_a_busy_share_may_be() -> None:
    """10 % busy, give or take 2 points; a saturated operator needs no busy time, so nothing is off."""
    found = read_capacity([100.0, 100.0], [0.1, 1.0], [0.1, 1.0], [0.0, 0.0], [False, True], resolution=0.02)
    assert found.resolution_sd.tolist() == pytest.approx([0.2, 0.0])


def test_a_prior_of_an_older_bundle_is_read() -> None:
    assert CapacityPrior.from_json('{"types": {}, "resolution": 0.02}') == CapacityPrior()  # as 0.1.0 wrote it


def test_a_prior_of_0_1_0_had_four_weights() -> None:
    """Its bias did not grow with parallelism; it is read as one that hardly does."""
    four = {"mean": [8.0, 1.0, 0.0, 0.02], "covariance": np.eye(4).tolist(), "noise_sd": 0.02}
    read = TypePrior.model_validate(four)
    assert read.mean == (8.0, 1.0, 0.0, 0.02, 0.0)
    assert read.covariance[4][4] < 1e-3
    assert read.covariance[1][1] == 1.0


def test_the_curve_basis_has_no_bias() -> None:
    assert (curve_basis([1, 10, 100])[:, 3:] == 0).all()
