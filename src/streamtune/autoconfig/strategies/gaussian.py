"""Bayesian optimisation as in the thesis (Section 3.3): Gaussian process, expected improvement, one step at a time.

As Spearmint does: the first two points of a Sobol sequence (everything at its lowest, the centre), then a Matérn-5/2
process with a length scale of at most 2 per coordinate and noise (``process``; the most probable length scales where
Spearmint averages over samples), and the logarithm of expected improvement (the same maximum, easier to climb), climbed
from the most promising of many points. Up to ``_LARGEST_FIT`` trials are fitted: the newest and the best.

``bo`` searches the knobs as they are. ``ibo`` searches one multiplier per base weight: the thesis says the optimiser
"only had to choose a multiplier for these base-parallelism weights", in floating point, and that ibo took *longer* per
step than bo, so that there was one multiplier per vertex; its range is that of ipla's. ``bo180`` is bo with 180 steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.process import fit, one_thread
from streamtune.autoconfig.space import Configuration, Knob, Space, Vector, encode_all
from streamtune.autoconfig.strategies.ascent import clamped, multipliers
from streamtune.autoconfig.strategies.base import Strategy
from streamtune.autoconfig.trial import Suggestion, Trial, scores

_STARTS = 2
_RAW_SAMPLES, _AROUND_BEST = 1000, 128
_TOP, _MOVED, _MOVED_BY = 5, 20, 0.15
_RESTARTS, _CLIMB_STEPS = 4, 60
_LENGTHS = 1.0, 2.0
_LARGEST_FIT = 300


class Bayesian(Strategy):
    """bo: expected improvement over all knobs."""

    name = "bo"

    def ask(self, trials: Sequence[Trial]) -> Suggestion:
        number = len(trials)
        space = self.searched
        if number == 0 and self.space.has_defaults:
            return Suggestion(knobs=self.space.repair(self.space.defaults), why="the defaults")
        if number < _STARTS or len({trial.value for trial in trials if not trial.failed}) < 2:
            knobs = self.to_knobs(space.decode(_sobol(space.dimensions, number)))
            return Suggestion(knobs=knobs, why="initial design")
        known = encode_all(space, [self.from_knobs(trial.knobs) for trial in trials])
        values = np.array(scores(trials, self.problem.objective.maximise))
        point = propose(known, values, self.seed * 100_003 + number)
        knobs = self.fresh(self.to_knobs(space.decode(point)), trials, number)
        return Suggestion(knobs=knobs, why="largest expected improvement")

    @property
    def searched(self) -> Space:
        """The space the process lives on."""
        return self.space

    def to_knobs(self, point: Configuration) -> Configuration:
        return point

    def from_knobs(self, knobs: Configuration) -> Configuration:
        return knobs


class Bayesian180(Bayesian):
    """bo180: the same with three times the steps."""

    name = "bo180"


class InformedBayesian(Bayesian):
    """ibo: a multiplier per base weight instead of a hint per vertex."""

    name = "ibo"

    def __init__(self, problem: Problem, **settings: object) -> None:
        super().__init__(problem, **settings)  # type: ignore[arg-type]
        self._weights = {name: knob.weight for name, knob in self.space.knobs.items() if knob.weight is not None}
        self._range = multipliers(self.space, self._weights) if self._weights else (0.0, 1.0)
        multiplier = Knob(type="float", low=self._range[0], high=self._range[1])
        knobs = {name: multiplier if name in self._weights else knob for name, knob in self.space.knobs.items()}
        self._multipliers = Space(knobs={name: knob.model_copy(update={"when": None}) for name, knob in knobs.items()})

    @property
    def searched(self) -> Space:
        return self._multipliers

    def to_knobs(self, point: Configuration) -> Configuration:
        hints = {name: clamped(self.space.knobs[name], float(point[name]) * w) for name, w in self._weights.items()}
        return self.space.repair({**self.space.filled(point), **hints})

    def from_knobs(self, knobs: Configuration) -> Configuration:
        full = self.space.filled(knobs)
        low, high = self._range
        return {**full, **{n: min(high, max(low, float(full[n]) / w)) for n, w in self._weights.items()}}


def _sobol(dimensions: int, number: int) -> Vector:
    """Spearmint's grid: first everything at its lowest, then the centre, then halves and quarters."""
    from scipy.stats import qmc

    grid = qmc.Sobol(dimensions, scramble=False)
    if number:
        grid.fast_forward(number)
    return np.asarray(grid.random(1)[0], dtype=float)


def propose(known: Vector, values: Vector, seed: int) -> Vector:
    """The point of the cube with the largest expected improvement; ``values``: larger is better.

    Its own random numbers and one thread: the same trials give the same point in any process.
    """
    from scipy.optimize import minimize

    kept = _worth_fitting(values)
    known, values = known[kept], values[kept]
    generator = np.random.default_rng([seed, len(kept)])
    with one_thread():
        process = fit(known, values, typical=_LENGTHS)
        # The best *smoothed* value: the best measurement of a noisy objective is mostly luck.
        best = float(process.predict(known)[0].max())
        starts = _starts(known, values, generator)
        promise = process.log_improvement(starts, best)
        found, gain = starts[int(promise.argmax())], float(promise.max())
        for place in np.argsort(-promise, kind="stable")[:_RESTARTS]:
            climbed = minimize(
                lambda point: process.log_improvement_slope(point, best), starts[place], jac=True,
                method="L-BFGS-B", bounds=[(0.0, 1.0)] * known.shape[1], options={"maxiter": _CLIMB_STEPS},
            )  # fmt: skip
            if -climbed.fun > gain:
                found, gain = np.asarray(climbed.x, dtype=float), -float(climbed.fun)
    return np.asarray(found, dtype=float)


def _starts(known: Vector, values: Vector, generator: np.random.Generator) -> Vector:
    """Points all over the cube, and around the best trials: some of their coordinates moved."""
    size = known.shape[1]
    spread = generator.random((_RAW_SAMPLES, size))
    top = known[np.argsort(-values, kind="stable")[:_TOP]]
    around = top[generator.integers(len(top), size=_AROUND_BEST)]
    moved = generator.random(around.shape) < min(1.0, _MOVED / size)
    near = np.clip(around + moved * generator.normal(0.0, _MOVED_BY, around.shape), 0.0, 1.0)
    return np.vstack([spread, near])


def _worth_fitting(values: Vector) -> NDArray[np.intp]:
    """Positions of the trials to fit, in order: all, or the best half and the newest half of the limit."""
    if len(values) <= _LARGEST_FIT:
        return np.arange(len(values))
    half = _LARGEST_FIT // 2
    best = np.argsort(-values, kind="stable")[:half]
    return np.unique(np.concatenate([best, np.arange(len(values) - half, len(values))]))
