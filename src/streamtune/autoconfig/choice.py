"""Which configuration is the best, when every measurement lies a little.

The largest of many noisy measurements is mostly luck: at 7 % noise it overstates itself by a tenth. Configurations are
therefore compared by their mean over all measurements, pulled towards what the others got by as much as the noise
explains (empirical Bayes, James–Stein): one lucky run does not beat five good ones. The noise is estimated from
repeated measurements; where nothing was measured twice, the plain best is returned. Among near equals the one that was
measured more often wins: from every estimate a part of its standard error is taken off.
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
_CAUTION = 0.7


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
class Best:
    """The chosen configuration: ``value`` is the mean of its measurements, ``estimate`` what is to be expected."""

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
    """Configurations in the order of their first trial; one that ever failed is left out."""
    values: dict[object, list[float]] = {}
    first: dict[object, tuple[int, Mapping[str, Value]]] = {}
    bad = {key_of(trial.knobs) for trial in trials if trial.failed}
    for trial in trials:
        key = key_of(trial.knobs)
        if key in bad:
            continue
        first.setdefault(key, (trial.number, trial.knobs))
        values.setdefault(key, []).extend(trial.values)
    return [Candidate(first[key][0], dict(first[key][1]), tuple(found)) for key, found in values.items()]


def relative_noise(found: Sequence[Candidate]) -> float | None:
    """Standard deviation of one measurement, relative to its mean; None without enough repeats."""
    squares = [
        (value / one.mean - 1.0) ** 2 for one in found if len(one.values) > 1 and one.mean for value in one.values
    ]
    degrees = sum(len(one.values) - 1 for one in found if len(one.values) > 1 and one.mean)
    return float(np.sqrt(sum(squares) / degrees)) if degrees >= _FEWEST_DEGREES else None


def estimates(found: Sequence[Candidate], noise: float | None) -> list[float]:
    """What each configuration is expected to give again: its mean, pulled to the others by the noise's share."""
    means = np.array([one.mean for one in found])
    if not noise or len(found) < 3:
        return [float(mean) for mean in means]
    counts = np.array([len(one.values) for one in found])
    errors = (noise * means) ** 2 / counts
    between = max(float(np.var(means, ddof=1) - errors.mean()), 1e-12 * float(np.mean(means**2)))
    centre = float(np.average(means, weights=1.0 / (between + errors)))
    share = between / (between + errors)
    return [float(value) for value in centre + share * (means - centre)]


def choose(trials: Sequence[Trial], problem: Problem) -> Best | None:
    """The best configuration of those that never failed; None when there is none."""
    found = candidates(trials)
    if not found:
        return None
    noise = relative_noise(found)
    expected = estimates(found, noise)
    sign = 1.0 if problem.objective.maximise else -1.0
    sure = [
        sign * value - _CAUTION * (noise or 0.0) * abs(value) / math.sqrt(len(one.values))
        for one, value in zip(found, expected, strict=True)
    ]
    position = max(range(len(found)), key=lambda index: (sure[index], -found[index].number))
    one = found[position]
    return Best(one.knobs, one.mean, expected[position], one.number, len(one.values), one.spread, noise)
