r"""A Gaussian process over log performance: what has been sampled, and how sure that makes us elsewhere.

Inputs are log CPU and log memory. The kernel is a linear part (performance grows with a power of the resources) plus a
Matérn 5/2 part (saturation, cliffs); noise is the samples' own spread. Length scales and amplitude come from the
marginal likelihood over a small grid, so a fit is a handful of Cholesky decompositions and has no local optimum.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.sampling.samples import Provision, Sample

Floats = npt.NDArray[np.float64]
_LENGTHS = (0.15, 0.35, 0.8)
_AMPLITUDES = (0.05, 0.2, 0.6)
_NOISES = (0.01, 0.03, 0.1)


def inputs_of(provisions: Sequence[Provision] | Sequence[Sample]) -> Floats:
    """n × 2: log cores, log MiB."""
    return np.log(np.array([[one.cpu, one.memory_mb] for one in provisions], dtype=np.float64).reshape(-1, 2))


@dataclass(frozen=True)
class CurveBelief:
    """The process, conditioned on samples."""

    inputs: Floats
    centre: Floats
    level: float
    lengths: tuple[float, float]
    amplitude: float
    noise: float
    factor: Floats  # Cholesky factor of the samples' covariance
    weights: Floats

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> CurveBelief:
        """Fit to samples; those without any performance count as one record per 1,000 seconds."""
        inputs = inputs_of(samples)
        target = np.log(np.maximum([one.performance_per_s for one in samples], 1e-3))
        spreads = np.array([one.spread for one in samples])
        centre, level = inputs.mean(axis=0), float(target.mean())
        varies = [float(np.ptp(inputs[:, k])) > 1e-9 for k in range(2)]
        grid = itertools.product(
            _LENGTHS if varies[0] else _LENGTHS[:1], _LENGTHS if varies[1] else _LENGTHS[:1], _AMPLITUDES, _NOISES
        )
        best: tuple[float, CurveBelief] | None = None
        for cpu_length, memory_length, amplitude, noise in grid:
            lengths = (cpu_length, memory_length)
            covariance = _kernel(inputs - centre, inputs - centre, lengths, amplitude)
            covariance = covariance + np.diag(noise**2 + spreads**2)
            factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
            half = np.linalg.solve(factor, target - level)
            likelihood = -0.5 * float(half @ half) - float(np.log(np.diag(factor)).sum())
            if best is None or likelihood > best[0]:
                weights = np.linalg.solve(factor.T, half)
                best = (likelihood, cls(inputs, centre, level, lengths, amplitude, noise, factor, weights))
        assert best is not None
        return best[1]

    def log_performance(self, provisions: Sequence[Provision] | Sequence[Sample]) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log performance (without the noise of a measurement)."""
        mean, covariance = self._joint(inputs_of(provisions))
        return mean, np.sqrt(np.maximum(np.diag(covariance), 0.0))

    def draw(self, provisions: Sequence[Provision], count: int, seed: int) -> Floats:
        """count × provisions: curves that may be true."""
        mean, covariance = self._joint(inputs_of(provisions))
        values, vectors = np.linalg.eigh(covariance)
        normal = np.random.default_rng(seed).standard_normal((count, len(mean)))
        return np.asarray(mean + (normal * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)

    def _joint(self, at: Floats) -> tuple[Floats, Floats]:
        across = _kernel(at - self.centre, self.inputs - self.centre, self.lengths, self.amplitude)
        half = np.linalg.solve(self.factor, across.T)
        prior = _kernel(at - self.centre, at - self.centre, self.lengths, self.amplitude)
        return self.level + across @ self.weights, prior - half.T @ half


def _kernel(a: Floats, b: Floats, lengths: tuple[float, float], amplitude: float) -> Floats:
    linear = 0.5 + a @ b.T
    scaled = (a[:, None, :] - b[None, :, :]) / np.array(lengths)
    distance = np.sqrt(5.0) * np.sqrt((scaled * scaled).sum(axis=2))
    return np.asarray(linear + amplitude**2 * (1 + distance + distance**2 / 3) * np.exp(-distance))
