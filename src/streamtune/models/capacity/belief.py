"""A Gaussian belief about the capacity curve of one operator, updated by every reading in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

Floats = npt.NDArray[np.float64]

WEIGHTS = 4
LEVEL, SLOPE, BEND, BIAS = range(WEIGHTS)
_PER_HUNDRED = 100.0


def curve_basis(parallelism: npt.ArrayLike) -> Floats:
    """N × 4: what the weights are multiplied with to give log capacity. The bias is not part of it.

    >>> curve_basis([1]).tolist()
    [[1.0, 0.0, 0.01, 0.0]]
    """
    p = np.atleast_1d(np.asarray(parallelism, dtype=np.float64))
    return np.column_stack([np.ones_like(p), np.log(p), p / _PER_HUNDRED, np.zeros_like(p)])


def reading_basis(parallelism: npt.ArrayLike, is_saturated: npt.ArrayLike) -> Floats:
    """The same for readings: those that rest on measured busy time carry its bias."""
    rows = curve_basis(parallelism)
    rows[:, BIAS] = ~np.atleast_1d(np.asarray(is_saturated, dtype=np.bool_))
    return rows


@dataclass
class CapacityBelief:
    r"""Bayesian linear regression of log capacity on parallelism.

    .. math::
        \log C(p) = w_0 + w_1 \log p + w_2\, p / 100, \qquad
        \log(\lambda / u) = \log C(p) + w_3 + \varepsilon

    :math:`w_1 = 1, w_2 = 0` is linear scaling; a power law, Amdahl's law with little contention and the universal
    scalability law lie in or near the span, so no one family is assumed. :math:`w_3` is the bias of measured busy time.
    A saturated operator reads :math:`\log C(p)` itself. ``noise_sd`` is the error of one reading, ``misfit_sd`` what
    the curve cannot follow.
    """

    mean: Floats  # 4
    covariance: Floats  # 4 × 4
    noise_sd: float
    misfit_sd: float = 0.01

    def copy(self) -> CapacityBelief:
        return CapacityBelief(self.mean.copy(), self.covariance.copy(), self.noise_sd, self.misfit_sd)

    def drift(self, sd: float) -> None:
        """Forget a little: jobs change, and an old reading must not count for ever."""
        self.covariance[LEVEL, LEVEL] += sd * sd

    def see(self, parallelism: int, log_capacity: float, *, is_saturated: bool, sd: float | None = None) -> None:
        """Condition on a reading of capacity."""
        x = reading_basis(parallelism, is_saturated)[0]
        spread = self.covariance @ x
        variance = float(x @ spread) + (self.noise_sd if sd is None else sd) ** 2
        gain = spread / variance
        self.mean = self.mean + gain * (log_capacity - float(x @ self.mean))
        self.covariance = self.covariance - np.outer(gain, spread)

    def see_at_least(self, parallelism: int, log_rate: float, sd: float = 0.02) -> None:
        """Condition on: this parallelism served this rate without being a bottleneck (moments of a cut Gaussian)."""
        x = curve_basis(parallelism)[0]
        spread = self.covariance @ x
        scale = float(np.sqrt(x @ spread + sd * sd))
        z = (float(x @ self.mean) - log_rate) / scale
        ratio = float(np.exp(norm.logpdf(z) - norm.logcdf(z)))
        self.mean = self.mean + spread / scale * ratio
        self.covariance = self.covariance - np.outer(spread, spread) / scale**2 * ratio * (ratio + z)

    def log_capacity(self, parallelism: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log capacity at each parallelism."""
        rows = curve_basis(parallelism)
        variance = np.einsum("ni,ij,nj->n", rows, self.covariance, rows)
        return rows @ self.mean, np.sqrt(np.maximum(variance, 0.0) + self.misfit_sd**2)

    def safe_probability(self, rate_per_s: float, parallelism: npt.ArrayLike) -> Floats:
        """The probability that each parallelism serves this rate."""
        p = np.atleast_1d(np.asarray(parallelism))
        if rate_per_s <= 0:
            return np.ones(len(p))
        mean, sd = self.log_capacity(p)
        return np.asarray(norm.cdf((mean - np.log(rate_per_s)) / sd))
