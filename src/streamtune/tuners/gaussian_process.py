"""A Gaussian process over one variable, small enough to read: what ContTune's conservative step needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

JITTER = 1e-8
# Where ContTune's optimiser starts, and the steps of ours, which go to 1e-5 and 1e5 at most.
START, STEP, FURTHEST = 2.5, 1.05, 217
FLAT = 1e-9
# Length scales tried, in instances: from "neighbours say nothing" to "the whole range is one smooth curve".
LENGTH_SCALES: tuple[float, ...] = tuple(float(scale) for scale in np.geomspace(0.5, 200.0, 40))


@dataclass(frozen=True)
class GaussianProcess:
    """Zero-mean process with kernel k(x, x') = exp(−(x − x')² / 2ℓ²), no noise term, jitter 1e-8 on the diagonal.

    y is divided by its largest absolute value before the fit and not centred: the prior mean stays 0, so where
    nothing was seen the process promises nothing. ℓ maximises the log marginal likelihood

        −½ yᵀK⁻¹y − ½ log|K| − n/2 · log 2π

    over ``LENGTH_SCALES``, the objective of scikit-learn's optimiser on a grid. A tie goes to the larger ℓ: a single
    point says nothing about ℓ, and the smooth answer is the one that does not pretend that only that point is safe.

    >>> process = GaussianProcess.fit([1, 2, 4, 8], [100, 199, 396, 784])
    >>> round(float(process.mean([4])[0]))
    396
    """

    x: Floats
    scale: float
    length_scale: float
    weights: Floats
    log_marginal_likelihood: float

    @classmethod
    def fit(
        cls, x: Sequence[float], y: Sequence[float], length_scales: Sequence[float] = LENGTH_SCALES
    ) -> GaussianProcess:
        """At least one point, all x distinct."""
        places, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        scale = float(np.abs(values).max()) or 1.0
        best: GaussianProcess | None = None
        for length_scale in length_scales:
            fitted = cls._fit_one(places, values / scale, scale, length_scale)
            if best is None or fitted.log_marginal_likelihood >= best.log_marginal_likelihood:
                best = fitted
        if best is None:
            raise ValueError("no length scale to try")
        return best

    @classmethod
    def climb(cls, x: Sequence[float], y: Sequence[float]) -> GaussianProcess:
        """ℓ as ContTune's published procedure finds it: the local maximum of the likelihood uphill from ℓ = 2.5.

        The amplitude σ_f of the kernel is optimised with it; for every ℓ its best value is known in closed form,
        σ_f² = yᵀR⁻¹y / n, and it does not change the posterior mean. Where the likelihood is flat, as it is with a
        single point, ℓ stays where it starts.

        >>> GaussianProcess.climb([8], [800.0]).length_scale
        2.5
        """
        places, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        scale = float(np.abs(values).max()) or 1.0
        fits: dict[int, GaussianProcess] = {}

        def at(place: int) -> GaussianProcess:
            if place not in fits:
                fits[place] = cls._fit_one(places, values / scale, scale, START * STEP**place)
            return fits[place]

        def height(place: int) -> float:
            return at(place)._profile_likelihood(values / scale)

        here = 0
        for direction in (1, -1):
            while abs(here + direction) <= FURTHEST and height(here + direction) > height(here) + FLAT:
                here += direction
        return at(here)

    def _profile_likelihood(self, y: Floats) -> float:
        """The log marginal likelihood at the best amplitude, up to a constant."""
        lower = np.linalg.cholesky(_kernel(self.x, self.x, self.length_scale) + JITTER * np.eye(len(self.x)))
        amplitude = float(y @ self.weights) / len(y)
        if amplitude <= 0:
            return -math.inf
        return -0.5 * len(y) * math.log(amplitude) - float(np.log(np.diag(lower)).sum())

    @classmethod
    def _fit_one(cls, x: Floats, y: Floats, scale: float, length_scale: float) -> GaussianProcess:
        lower = np.linalg.cholesky(_kernel(x, x, length_scale) + JITTER * np.eye(len(x)))
        weights = np.linalg.solve(lower.T, np.linalg.solve(lower, y))
        likelihood = -0.5 * y @ weights - np.log(np.diag(lower)).sum() - 0.5 * len(x) * math.log(2 * math.pi)
        return cls(x, scale, length_scale, weights, float(likelihood))

    def mean(self, x: Sequence[float] | Floats) -> Floats:
        """The posterior mean, in the unit of y."""
        result: Floats = self.scale * (
            _kernel(np.asarray(x, dtype=np.float64), self.x, self.length_scale) @ self.weights
        )
        return result


def _kernel(a: Floats, b: Floats, length_scale: float) -> Floats:
    kernel: Floats = np.exp(-0.5 * ((a[:, None] - b[None, :]) / length_scale) ** 2)
    return kernel
