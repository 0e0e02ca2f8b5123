"""Which configuration is the best, when every measurement lies a little.

The largest of many noisy measurements is mostly luck: at 7 % noise it overstates itself by a tenth. Configurations are
therefore compared by their mean over all measurements, pulled towards what the others got by as much as the noise
explains (empirical Bayes, James–Stein): one lucky run does not beat five good ones. The noise is estimated from
repeated measurements; where nothing was measured twice, the plain best is returned. Among near equals the one that was
measured more often wins: from every estimate a part of its standard error is taken off.

A throughput's noise grows with the throughput, so that repeats of different configurations are pooled relative to their
means. Where values come near 0 or lie on both sides of it, that says nothing: they are pooled as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.space import Configuration, Value, key_of
from streamtune.autoconfig.trial import Trial

_FEWEST_DEGREES = 3
CAUTION = 0.7
"""Standard errors that are taken off an estimate."""
_AWAY_FROM_ZERO = 1.0 / 3.0
"""Relative noise above which a value is no longer told apart from 0."""


@dataclass(frozen=True)
class Candidate:
    """One configuration with all its measurements, from one or several trials."""

    number: int
    knobs: Configuration
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def spread(self) -> float | None:
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Noise:
    """Standard deviation of one measurement: a share of the value where ``relative``, else in the values' unit."""

    sd: float
    relative: bool

    def at(self, value: float) -> float:
        """In the values' unit, where ``value`` is measured."""
        return self.sd * abs(value) if self.relative else self.sd

    def share(self, values: Sequence[float]) -> float:
        """Beside the largest of the values."""
        largest = max((abs(value) for value in values), default=0.0)
        return self.sd if self.relative else self.sd / largest if largest else 0.0


@dataclass(frozen=True)
class Best:
    """The chosen configuration: ``value`` is the mean of its measurements, ``estimate`` what is to be expected.

    ``noise`` is the standard deviation of one measurement of it over its value; None where it is not known.
    """

    knobs: Configuration
    value: float
    estimate: float
    number: int
    measurements: int
    spread: float | None
    noise: float | None

    def to_record(self) -> dict[str, object]:
        return {
            "knobs": dict(self.knobs),
            "value": self.value,
            "number": self.number,
            "estimate": self.estimate,
            "measurements": self.measurements,
            "spread": self.spread,
            "noise": self.noise,
        }


def candidates(trials: Sequence[Trial]) -> list[Candidate]:
    """Configurations in the order of their first trial that worked; one that mostly failed is left out."""
    values: dict[object, list[float]] = {}
    first: dict[object, tuple[int, Mapping[str, Value]]] = {}
    bad = mostly_failed(trials)
    for trial in trials:
        key = key_of(trial.knobs)
        if key in bad or trial.failed:
            continue
        first.setdefault(key, (trial.number, trial.knobs))
        values.setdefault(key, []).extend(trial.values)
    return [Candidate(first[key][0], dict(first[key][1]), tuple(found)) for key, found in values.items()]


def mostly_failed(trials: Sequence[Trial]) -> set[object]:
    """What failed in at least half of its trials: one failure of a configuration that is often measured is bad luck."""
    outcomes: dict[object, list[bool]] = {}
    for trial in trials:
        outcomes.setdefault(key_of(trial.knobs), []).append(trial.failed)
    return {key for key, failed in outcomes.items() if 2 * sum(failed) >= len(failed)}


def noise_of(found: Sequence[Candidate]) -> Noise | None:
    """How far one measurement is off, from what was measured more than once; None without enough repeats."""
    repeated = [one for one in found if len(one.values) > 1]
    if len({value > 0 for one in found for value in one.values if value}) == 1:
        relative = _pooled([[value / one.mean for value in one.values] for one in repeated if one.mean])
        if relative is None or relative <= _AWAY_FROM_ZERO:
            return None if relative is None else Noise(relative, relative=True)
    absolute = _pooled([one.values for one in repeated])
    return None if absolute is None else Noise(absolute, relative=False)


def _pooled(series: Sequence[Sequence[float]]) -> float | None:
    """One standard deviation of all series around their own means."""
    degrees = sum(len(values) - 1 for values in series)
    squares = sum(float(np.sum((np.array(values) - np.mean(values)) ** 2)) for values in series)
    return math.sqrt(squares / degrees) if degrees >= _FEWEST_DEGREES else None


def estimates(found: Sequence[Candidate], noise: Noise | None) -> list[float]:
    """What each configuration is expected to give again: its mean, pulled to the others by the noise's share."""
    means = np.array([one.mean for one in found])
    if noise is None or not noise.sd or len(found) < 3:
        return [float(mean) for mean in means]
    counts = np.array([len(one.values) for one in found])
    errors = np.array([noise.at(mean) for mean in means]) ** 2 / counts
    between = max(float(np.var(means, ddof=1) - errors.mean()), 1e-12 * float(np.mean(means**2)))
    centre = float(np.average(means, weights=1.0 / (between + errors)))
    share = between / (between + errors)
    return [float(value) for value in centre + share * (means - centre)]


def choose(trials: Sequence[Trial], problem: Problem) -> Best | None:
    """The best configuration of those that work; None when there is none."""
    found = candidates(trials)
    if not found:
        return None
    noise = noise_of(found)
    expected = estimates(found, noise)
    sign = 1.0 if problem.objective.maximise else -1.0
    sure = [
        sign * value - CAUTION * (noise.at(value) if noise else 0.0) / math.sqrt(len(one.values))
        for one, value in zip(found, expected, strict=True)
    ]
    position = max(range(len(found)), key=lambda index: (sure[index], -found[index].number))
    return best_of(found[position], expected[position], noise)


def best_of(one: Candidate, estimate: float, noise: Noise | None) -> Best:
    """The answer that a chosen configuration is."""
    told = noise.at(one.mean) / abs(one.mean) if noise and one.mean else None
    return Best(one.knobs, one.mean, estimate, one.number, len(one.values), one.spread, told)
