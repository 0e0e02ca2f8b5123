"""A Gaussian belief about the capacity curve of one operator, updated by every reading in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

Floats = npt.NDArray[np.float64]

WEIGHTS = 5
LEVEL, SLOPE, BEND, BIAS, TILT = range(WEIGHTS)
_PER_HUNDRED = 100.0
_LOG_ROOT = 0.5 * np.log(2 * np.pi)


def curve_basis(parallelism: npt.ArrayLike) -> Floats:
    """N × 5: what the weights are multiplied with to give log capacity. The bias is not part of it.

    >>> curve_basis([1]).tolist()
    [[1.0, 0.0, 0.01, 0.0, 0.0]]
    """
    p = np.atleast_1d(np.asarray(parallelism, dtype=np.float64))
    return np.column_stack([np.ones_like(p), np.log(p), p / _PER_HUNDRED, np.zeros_like(p), np.zeros_like(p)])


def reading_basis(parallelism: npt.ArrayLike, is_saturated: npt.ArrayLike) -> Floats:
    """The same for readings: those that rest on measured busy time carry its bias, which may grow with parallelism.

    The busiest of many subtasks is a maximum of noisy shares: it reads higher the more there are.
    """
    rows = curve_basis(parallelism)
    rows[:, BIAS] = ~np.atleast_1d(np.asarray(is_saturated, dtype=np.bool_))
    rows[:, TILT] = rows[:, BIAS] * rows[:, SLOPE]
    return rows


def _row(parallelism: int, is_saturated: bool) -> Floats:
    """``reading_basis`` of one reading, for a tuner that takes in one after the other."""
    log_p = math.log(parallelism)
    by_busy = 0.0 if is_saturated else 1.0
    return np.array([1.0, log_p, parallelism / _PER_HUNDRED, by_busy, by_busy * log_p])


@dataclass
class CapacityBelief:
    r"""Bayesian linear regression of log capacity on parallelism.

    .. math::
        \log C(p) = w_0 + w_1 \log p + w_2\, p / 100, \qquad
        \log(\lambda / u) = \log C(p) + w_3 + w_4 \log p + \varepsilon

    :math:`w_1 = 1, w_2 = 0` is linear scaling; a power law, Amdahl's law with little contention and the universal
    scalability law lie in or near the span, so no one family is assumed. :math:`w_3` is the bias of
    measured busy time, :math:`w_4` how it grows.
    A saturated operator reads :math:`\log C(p)` itself. ``noise_sd`` is the error of one reading, ``misfit_sd`` what
    the curve cannot follow.
    """

    mean: Floats  # 5
    covariance: Floats  # 5 × 5
    noise_sd: float
    misfit_sd: float = 0.01

    def copy(self) -> CapacityBelief:
        return CapacityBelief(self.mean.copy(), self.covariance.copy(), self.noise_sd, self.misfit_sd)

    def drift(self, sd: float) -> None:
        """Forget a little: jobs change, and an old reading must not count forever."""
        self.covariance[LEVEL, LEVEL] += sd * sd

    def see(self, parallelism: int, log_capacity: float, *, is_saturated: bool, sd: float | None = None) -> None:
        """Condition on a reading of capacity."""
        x = _row(parallelism, is_saturated)
        spread = self.covariance @ x
        variance = float(x @ spread) + (self.noise_sd if sd is None else sd) ** 2
        gain = spread / variance
        self.mean = self.mean + gain * (log_capacity - float(x @ self.mean))
        self.covariance = self.covariance - np.outer(gain, spread)

    def distance(self, parallelism: int, log_capacity: float, *, is_saturated: bool, sd: float | None = None) -> float:
        """By how many standard deviations a reading lies below (negative: above) what is believed."""
        x = _row(parallelism, is_saturated)
        variance = float(x @ self.covariance @ x) + (self.noise_sd if sd is None else sd) ** 2 + self.misfit_sd**2
        return float((float(x @ self.mean) - log_capacity) / math.sqrt(variance))

    def see_at_least(self, parallelism: int, log_rate: float, sd: float = 0.02) -> None:
        """Condition on: this parallelism served this rate without being a bottleneck (moments of a cut Gaussian)."""
        x = _row(parallelism, True)
        spread = self.covariance @ x
        scale = float(np.sqrt(x @ spread + sd * sd))
        z = (float(x @ self.mean) - log_rate) / scale
        ratio = float(np.exp(-0.5 * z * z - _LOG_ROOT - log_ndtr(z)))
        self.mean = self.mean + spread / scale * ratio
        self.covariance = self.covariance - np.outer(spread, spread) / scale**2 * ratio * (ratio + z)

    def log_capacity(self, parallelism: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log capacity at each parallelism."""
        rows = curve_basis(parallelism)
        variance = np.einsum("ni,ij,nj->n", rows, self.covariance, rows)
        return rows @ self.mean, np.sqrt(np.maximum(variance, 0.0) + self.misfit_sd**2)

    def safe_probability(self, rate_per_s: float, parallelism: npt.ArrayLike, rate_sd: float = 0.0) -> Floats:
        """The probability that each parallelism serves this rate, whose logarithm is known to ``rate_sd``."""
        p = np.atleast_1d(np.asarray(parallelism))
        if rate_per_s <= 0:
            return np.ones(len(p))
        mean, sd = self.log_capacity(p)
        return np.asarray(ndtr((mean - np.log(rate_per_s)) / np.hypot(sd, rate_sd)))
