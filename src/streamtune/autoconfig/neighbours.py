"""What a configuration is expected to give again, by its own measurements and by those of configurations like it.

``choice`` pulls every mean towards one value for all: right where nothing is known of the space, blunt where twenty
trials lie on one hill. Here each mean is pulled towards what a Gaussian process says of its place *without* its own
measurements (leave one out; Rasmussen & Williams, Section 5.4.2), by as much as both are worth: its own error is the
noise, as repeats told it; the neighbours' is what the process says of itself, but at least how far it was off among
the third that it puts highest. Where the process misleads (a cliff, a category that changes everything) that is far,
and the measurements speak for themselves.

The noise must be known from repeats: with the noise that a process fits where nothing was measured twice, functions
without noise and those with a cliff lost more than noisy ones gained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from streamtune.autoconfig.choice import CAUTION, Best, Candidate, Noise, best_of, candidates, choose, noise_of
from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.process import fit, left_out, one_thread
from streamtune.autoconfig.space import Vector, encode_all
from streamtune.autoconfig.trial import Trial

_FEWEST, _MOST = 8, 240
_MANY_HINTS = 6
_DEEPEST = 3.0
_LEAST_JUDGED = 6


def conclude(trials: Sequence[Trial], problem: Problem) -> Best | None:
    """The final answer: neighbours are heard where the noise is known and the space is small enough to have any."""
    found = candidates(trials)
    noise = noise_of(found)
    sign = 1.0 if problem.objective.maximise else -1.0
    hints = sum(knob.operator is not None for knob in problem.space.knobs.values())
    if noise is None or not noise.sd or hints > _MANY_HINTS:
        return choose(trials, problem)
    if noise.relative and any(sign * one.mean > 0 for one in found):
        found = [one for one in found if one.mean]  # a throughput of nothing has no logarithm, and is not the best
    if len(found) < _FEWEST or (noise.relative and not all(one.mean for one in found)):
        return choose(trials, problem)
    found = sorted(found, key=lambda one: -sign * one.mean)[:_MOST]
    place, value = _likeliest(found, noise, problem)
    return best_of(found[place], value, noise)


def _likeliest(found: Sequence[Candidate], noise: Noise, problem: Problem) -> tuple[int, float]:
    """The place of the best, with the doubt taken off, and what is to be expected there."""
    direction = 1.0 if problem.objective.maximise else -1.0
    means = np.array([one.mean for one in found])
    counts = np.array([float(len(one.values)) for one in found])
    values = direction * means
    if noise.relative:  # all of one sign: logarithms, on which the noise is the same everywhere
        direction *= float(np.sign(means[0]))
        values = direction * np.log(np.abs(means))
        values = np.maximum(values, values.max() - _DEEPEST)
    estimates, errors = _smoothed(encode_all(problem.space, [one.knobs for one in found]), values, counts, noise.sd)
    place = int(np.argmax(estimates - CAUTION * errors))
    expected = direction * float(estimates[place])
    return place, float(np.sign(means[0])) * math.exp(expected) if noise.relative else expected


def _smoothed(x: Vector, values: Vector, counts: Vector, noise_sd: float) -> tuple[Vector, Vector]:
    """Estimates and their standard errors; larger values are better."""
    own = noise_sd**2 / counts
    with one_thread():
        process = fit(x, values, counts, noise_sd=noise_sd)
        told, variance = left_out(process, values)
    top = np.argsort(-told, kind="stable")[: max(_LEAST_JUDGED, len(values) // 3)]  # by luck, if by the values
    misfit = float(np.mean((values - told)[top] ** 2 - own[top]))
    near = np.maximum(variance - own, max(misfit, 1e-12))
    weight = 1.0 / own + 1.0 / near
    return (values / own + told / near) / weight, np.sqrt(1.0 / weight)
