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
_LOG_SQRT_2PI = 0.5 * float(np.log(2.0 * np.pi))
_CANCELS = -8.0
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

    def log_improvement(self, points: Vector, best: float) -> Vector:
        """Logarithm of the expected improvement: it still tells better from worse where there is next to none."""
        mean, sd = self.predict(points)
        return np.asarray(np.log(sd) + _log_h((mean - best) / sd), dtype=float)

    def log_improvement_slope(self, point: Vector, best: float) -> tuple[float, Vector]:
        """Minus the logarithm of the expected improvement at one point, and its gradient: for a minimiser."""
        from scipy.linalg import cho_solve
        from scipy.special import log_ndtr

        away = (point[None, :] - self.x) / self.lengths
        distance = np.sqrt(np.sum(away**2, axis=1))
        across = _matern(distance)
        solved = cho_solve((self.factor, True), across)
        mean = self.mean + self.scale * float(across @ self.weights)
        left = max(1.0 - float(across @ solved), 1e-12)
        sd = self.scale * left**0.5
        # d k / d x = -5/3 · (1 + √5 r) · exp(−√5 r) · Δ / l²
        slope = -5.0 / 3.0 * (1.0 + _SQRT5 * distance) * np.exp(-_SQRT5 * distance)
        slopes = slope[:, None] * away / self.lengths
        mean_slope = self.scale * (self.weights @ slopes)
        sd_slope = -self.scale * (solved @ slopes) / left**0.5
        z = (mean - best) / sd
        log_h = float(_log_h(np.array([z]))[0])
        density = float(np.exp(-0.5 * z * z - _LOG_SQRT_2PI - log_h))
        share = float(np.exp(log_ndtr(z) - log_h))
        return -(float(np.log(sd)) + log_h), -(share * mean_slope + density * sd_slope) / sd


def fit(
    x: Vector,
    y: Vector,
    counts: Vector | None = None,
    *,
    groups: Sequence[int] | None = None,
    noise_sd: float | None = None,
    typical: tuple[float, float] | None = None,
) -> Process:
    """Fit to rows ``x`` in the unit cube.

    :param counts: how many measurements each value is the mean of.
    :param groups: column → which length scale it has; columns of one group share theirs.
    :param noise_sd: what one measurement is off by, where repeated measurements have told.
    :param typical: centre of the prior of the length scales, and the longest; by default both grow with the dimensions.
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
    longest = 20.0 * np.sqrt(x.shape[1])
    if typical is not None:
        centre[:-1], longest = np.log(typical[0]), typical[1]
    widths = np.array([_LENGTH_SIGMA] * size + [_NOISE_SIGMA if noise_sd is None else 0.3])
    columns = (x[:, None, :] - x[None, :, :]) ** 2
    squares = np.stack([columns[:, :, group == one].sum(axis=2) for one in range(size)], axis=2)

    def loss(theta: Vector) -> tuple[float, Vector]:
        value, gradient = _negative_log_posterior(theta, squares, target, counts)
        offset = (theta - centre) / widths
        return value + 0.5 * float(offset @ offset), gradient + offset / widths

    limits = [(np.log(0.02), np.log(longest))] * size + [(np.log(1e-6), np.log(2.0))]
    theta = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": 60}).x
    lengths, noise = np.exp(theta[:-1])[group], float(np.exp(theta[-1]))
    factor, weights = _solve(_kernel(x, x, lengths), noise, counts, target)
    return Process(x, lengths, noise, mean, scale, factor, weights)


def left_out(process: Process, y: Vector) -> tuple[Vector, Vector]:
    """What a fitted process says of each of its own values without it, and the variance of that against the value.

    Leave-one-out predictions without fitting again (Rasmussen & Williams, Section 5.4.2, equation 5.12).
    """
    from scipy.linalg import cho_solve

    inverse = np.diag(cho_solve((process.factor, True), np.eye(len(y))))
    return y - process.scale * process.weights / inverse, process.scale**2 / inverse


def _log_h(z: Vector) -> Vector:
    """log(φ(z) + z·Φ(z)); far below 0, where the two cancel, its expansion φ(z)/z²·(1 − 3/z² + 15/z⁴)."""
    from scipy.stats import norm

    near = np.maximum(z, _CANCELS)
    far = np.minimum(z, _CANCELS)
    exact = np.log(norm.pdf(near) + near * norm.cdf(near))
    expanded = -0.5 * far**2 - _LOG_SQRT_2PI - 2.0 * np.log(-far) + np.log1p(-3.0 / far**2 + 15.0 / far**4)
    return np.where(z > _CANCELS, exact, expanded)


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
    gradient = 0.5 * np.tensordot(outer * slope, scaled, axes=2)
    return value, np.array([*gradient, 0.5 * float(np.sum(np.diag(outer) * noise / counts))])
