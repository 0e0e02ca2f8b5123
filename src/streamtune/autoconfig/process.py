"""A small Gaussian process in NumPy: for a few coordinates it answers in milliseconds and without torch.

Matérn 5/2 with a length scale per coordinate, an own noise variance, values standardised; hyper-parameters by maximum
a posteriori (Rasmussen & Williams, Gaussian Processes for Machine Learning, Section 5.4) with log-normal priors that
keep a fit with five points sane. Expected improvement over the best *mean*, since the best measurement is mostly luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from streamtune.autoconfig.space import Vector

_SQRT5 = 5.0**0.5
_JITTER = 1e-8
# Log-normal priors: length scales around 0.35·√d (a cube's diagonal grows so), noise around 10 % of the spread.
_LENGTH, _LENGTH_SIGMA = 0.35, 0.8
_NOISE, _NOISE_SIGMA = 0.01, 1.5


@cache
def _threads() -> Any:
    import scipy.linalg
    import scipy.optimize  # noqa: F401  its own linear algebra must be loaded to be limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread() -> Any:
    """A context in which linear algebra uses one thread: matrices here are small, and sums keep one order."""
    return _threads().limit(limits=1)


@dataclass(frozen=True)
class Process:
    """A fitted process."""

    x: Vector
    lengths: Vector
    noise: float
    mean: float
    scale: float
    factor: Vector
    weights: Vector

    @property
    def noise_sd(self) -> float:
        """Standard deviation of one measurement, in the values' unit."""
        return self.scale * float(np.sqrt(self.noise))

    def predict(self, points: Vector) -> tuple[Vector, Vector]:
        """Mean and standard deviation of the noise-free value at each row of ``points``."""
        from scipy.linalg import solve_triangular

        across = _kernel(points, self.x, self.lengths)
        solved = solve_triangular(self.factor, across.T, lower=True)
        variance = np.maximum(1.0 - np.sum(solved**2, axis=0), 1e-12)
        return self.mean + self.scale * (across @ self.weights), self.scale * np.sqrt(variance)

    def improvement(self, points: Vector, best: float) -> Vector:
        """Expected improvement over ``best`` (thesis, Section 3.3)."""
        from scipy.stats import norm

        mean, sd = self.predict(points)
        z = (mean - best) / sd
        return np.asarray(sd * (z * norm.cdf(z) + norm.pdf(z)), dtype=float)


def fit(
    x: Vector,
    y: Vector,
    counts: Vector | None = None,
    *,
    groups: Sequence[int] | None = None,
    noise_sd: float | None = None,
) -> Process:
    """Fit to rows ``x`` in the unit cube.

    :param counts: how many measurements each value is the mean of.
    :param groups: column → which length scale it has; columns of one group share theirs.
    :param noise_sd: what one measurement is off by, where repeated measurements have told.
    """
    from scipy.optimize import minimize

    counts = np.ones(len(y)) if counts is None else counts
    mean = float(np.average(y, weights=counts))
    scale = float(np.std(y)) or 1.0
    target = (y - mean) / scale
    group = np.arange(x.shape[1]) if groups is None else np.asarray(groups)
    size = int(group.max()) + 1
    noise_centre = _NOISE if noise_sd is None else min(1.0, max(1e-6, (noise_sd / scale) ** 2))
    centre = np.log([*(_LENGTH * np.sqrt(np.sum(group == one)) for one in range(size)), noise_centre])
    centre[:-1] += 0.5 * np.log(size)
    widths = np.array([_LENGTH_SIGMA] * size + [_NOISE_SIGMA if noise_sd is None else 0.3])
    columns = (x[:, None, :] - x[None, :, :]) ** 2
    squares = np.stack([columns[:, :, group == one].sum(axis=2) for one in range(size)], axis=2)

    def loss(theta: Vector) -> tuple[float, Vector]:
        value, gradient = _negative_log_posterior(theta, squares, target, counts)
        offset = (theta - centre) / widths
        return value + 0.5 * float(offset @ offset), gradient + offset / widths

    limits = [(np.log(0.02), np.log(20.0 * np.sqrt(x.shape[1])))] * size + [(np.log(1e-6), np.log(2.0))]
    theta = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": 60}).x
    lengths, noise = np.exp(theta[:-1])[group], float(np.exp(theta[-1]))
    factor, weights = _solve(_kernel(x, x, lengths), noise, counts, target)
    return Process(x, lengths, noise, mean, scale, factor, weights)


def _kernel(a: Vector, b: Vector, lengths: Vector) -> Vector:
    squares = np.sum(((a[:, None, :] - b[None, :, :]) / lengths) ** 2, axis=2)
    return _matern(np.sqrt(np.maximum(squares, 0.0)))


def _matern(distance: Vector) -> Vector:
    scaled = _SQRT5 * distance
    return np.asarray((1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled), dtype=float)


def _solve(kernel: Vector, noise: float, counts: Vector, target: Vector) -> tuple[Vector, Vector]:
    from scipy.linalg import cho_solve, cholesky

    factor = cholesky(kernel + np.diag(noise / counts + _JITTER), lower=True)
    return factor, cho_solve((factor, True), target)


def _negative_log_posterior(theta: Vector, squares: Vector, target: Vector, counts: Vector) -> tuple[float, Vector]:
    """Negative log marginal likelihood and its gradient in the logarithms of length scales and noise."""
    from scipy.linalg import cho_solve

    lengths, noise = np.exp(theta[:-1]), float(np.exp(theta[-1]))
    scaled = squares / lengths**2
    distance = np.sqrt(np.maximum(scaled.sum(axis=2), 1e-16))
    factor, weights = _solve(_matern(distance), noise, counts, target)
    inverse = cho_solve((factor, True), np.eye(len(target)))
    value = 0.5 * float(target @ weights) + float(np.log(np.diag(factor)).sum())
    outer = inverse - np.outer(weights, weights)
    # d k / d log l_i = 5/3 · (1 + √5 r) · exp(−√5 r) · (Δ_i / l_i)²
    slope = 5.0 / 3.0 * (1.0 + _SQRT5 * distance) * np.exp(-_SQRT5 * distance)
    gradient = [0.5 * float(np.sum(outer * slope * scaled[:, :, place])) for place in range(len(lengths))]
    return value, np.array([*gradient, 0.5 * float(np.sum(np.diag(outer) * noise / counts))])
