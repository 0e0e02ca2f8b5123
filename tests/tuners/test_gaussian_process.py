"""ContTune's Gaussian process against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.tuners.gaussian_process import JITTER, LENGTH_SCALES, GaussianProcess

sklearn_processes = pytest.importorskip("sklearn.gaussian_process")
kernels = pytest.importorskip("sklearn.gaussian_process.kernels")

histories = st.dictionaries(st.integers(1, 100), st.floats(10, 1e6), min_size=1, max_size=10)


@settings(max_examples=60)
@given(histories, st.sampled_from(LENGTH_SCALES))
def test_posterior_mean_and_likelihood_are_those_of_scikit_learn(history: dict[int, float], length: float) -> None:
    x, y = list(history), list(history.values())
    ours = GaussianProcess.fit(x, y, [length])
    column, scaled = np.array(x, dtype=float)[:, None], np.array(y) / max(y)
    theirs = sklearn_processes.GaussianProcessRegressor(kernels.RBF(length), alpha=JITTER, optimizer=None)
    theirs.fit(column, scaled)
    everywhere = np.arange(1.0, 101.0)
    # Both solve the same nearly singular system at long length scales: agreement to 1e-5 of the largest weight.
    room = 1e-5 * max(1.0, float(np.abs(ours.weights).max()) * 1e-3)
    np.testing.assert_allclose(ours.mean(everywhere) / max(y), theirs.predict(everywhere[:, None]), atol=room)
    assert ours.log_marginal_likelihood == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("contention", [0.0, 0.01, 0.05])
def test_the_grid_finds_what_scikit_learns_optimiser_finds(contention: float) -> None:
    """Abilities of an operator under contention, tried at the doublings of a cold start and near its optimum."""
    x = [1, 2, 4, 8, 16, 21, 23, 32]
    y = [100 * p / (1 + contention * (p - 1)) for p in x]
    ours = GaussianProcess.fit(x, y)
    theirs = sklearn_processes.GaussianProcessRegressor(
        kernels.RBF(1.0, (0.5, 200.0)), alpha=JITTER, n_restarts_optimizer=10, random_state=0
    )
    theirs.fit(np.array(x, dtype=float)[:, None], np.array(y) / max(y))
    assert ours.log_marginal_likelihood >= theirs.log_marginal_likelihood_value_ - 0.5
    between = np.arange(1.0, 33.0)
    np.testing.assert_allclose(ours.mean(between) / max(y), theirs.predict(between[:, None]), atol=0.02)


@given(histories)
def test_it_passes_through_what_was_seen(history: dict[int, float]) -> None:
    process = GaussianProcess.fit(list(history), list(history.values()), [0.5])
    np.testing.assert_allclose(process.mean(list(history)), list(history.values()), rtol=1e-3)


def test_one_point_says_nothing_about_smoothness() -> None:
    assert GaussianProcess.fit([32], [3200.0]).length_scale == pytest.approx(max(LENGTH_SCALES))


@pytest.mark.parametrize("contention", [0.0, 0.01, 0.05])
def test_the_climb_ends_where_a_gradient_optimiser_from_the_same_start_ends(contention: float) -> None:
    """L-BFGS-B over length scale and amplitude from 2.5, as published; what counts is the curve between the points."""
    x = [1, 2, 4, 8, 16, 21, 23, 32]
    y = [100 * p / (1 + contention * (p - 1)) for p in x]
    ours = GaussianProcess.climb(x, y)
    kernel = kernels.ConstantKernel(1.0, (1e-5, 1e5)) * kernels.RBF(2.5, (1e-5, 1e5))
    theirs = sklearn_processes.GaussianProcessRegressor(kernel, alpha=JITTER, n_restarts_optimizer=0)
    theirs.fit(np.array(x, dtype=float)[:, None], np.array(y) / max(y))
    between = np.arange(1.0, 33.0)
    np.testing.assert_allclose(ours.mean(between) / max(y), theirs.predict(between[:, None]), atol=0.03)
