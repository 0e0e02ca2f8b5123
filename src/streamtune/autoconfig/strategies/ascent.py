"""Parallel linear ascent (thesis, Section 5.1): all knobs go up together, one rung per step.

``pla`` sets the same hint on every vertex and raises it. In a general space every numeric knob goes from low to high on
60 rungs, as many as the thesis had steps: hints of 1 to 60 are its 1, 2, 3, …. ``ipla`` raises one
multiplier of the base weights instead: a knob with ``weight`` is ``multiplier × weight``. Knobs without a range
(categories) stay at their defaults, and so do all but parallelism where there is any. Three measurements of zero, or
three failures, in a row end the ascent, as in the thesis; steps that are left measure the best rung again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from streamtune.autoconfig.space import Configuration, Knob, Space, key_of
from streamtune.autoconfig.strategies.base import Strategy
from streamtune.autoconfig.trial import Suggestion, Trial, scores

_ZEROS_IN_A_ROW = 3
_FINER = 16
RUNGS = 60
"""As many as the thesis had steps: hints of 1 to 60 go up one by one."""


class LinearAscent(Strategy):
    """pla: the same place on the scale of every knob."""

    name = "pla"

    def ask(self, trials: Sequence[Trial]) -> Suggestion:
        rungs = self._rungs
        good = [trial for trial in trials if not trial.failed]
        maximise = self.problem.objective.maximise
        if good and (_has_collapsed(trials, maximise) or len(trials) >= len(rungs)):
            values = scores(good, maximise)
            best = good[max(range(len(good)), key=values.__getitem__)]
            return Suggestion(knobs=best.knobs, why=f"the ascent is over: trial {best.number} again")
        rung = len(trials) % len(rungs)
        return Suggestion(knobs=rungs[rung], why=f"rung {rung + 1} of {len(rungs)}")

    @cached_property
    def _rungs(self) -> list[Configuration]:
        """Different allowed rungs; where a constraint forbids the upper ones, the steps are spread over the others."""
        fine = _FINER * max(1, RUNGS - 1)
        allowed = [place for place in range(fine + 1) if self.space.is_allowed(self._at(place / fine))]
        if not allowed:
            return [self.space.anchor]
        if len(allowed) == fine + 1:
            places = np.linspace(0.0, 1.0, RUNGS)
        else:
            chosen = np.linspace(0, len(allowed) - 1, RUNGS).round().astype(int)
            places = np.array(allowed)[chosen] / fine
        rungs = {key_of(knobs): knobs for place in places if self.space.is_allowed(knobs := self._at(float(place)))}
        return list(rungs.values())

    def _at(self, place: float) -> Configuration:
        return self.space.active({**self.space.filled(self.space.anchor), **self.rung(place)})

    def climbing(self) -> list[str]:
        """The knobs that go up: the parallelism hints where there are any, else every number."""
        hints = [name for name, knob in self.space.knobs.items() if knob.operator is not None]
        return hints or [name for name, knob in self.space.knobs.items() if knob.type != "category"]

    def rung(self, place: float) -> Configuration:
        """The climbing knobs at a place between 0, the bottom, and 1, the top."""
        unit = np.array([place])
        return {name: self.space.knobs[name].from_unit(unit) for name in self.climbing()}


class InformedAscent(LinearAscent):
    """ipla: one multiplier of all base weights, from every hint at its lowest until the heaviest is at its highest."""

    name = "ipla"

    def rung(self, place: float) -> Configuration:
        weights = {name: self.space.knobs[name].weight or 1.0 for name in self.climbing()}
        lowest, highest = multipliers(self.space, weights)
        multiplier = lowest + (highest - lowest) * place
        return {name: clamped(self.space.knobs[name], multiplier * weight) for name, weight in weights.items()}


def multipliers(space: Space, weights: Mapping[str, float]) -> tuple[float, float]:
    """From where every hint is at its lowest to where the heaviest is at its highest."""
    bounds = {name: space.knobs[name].bounds for name in weights}
    lowest = min(low / weights[name] for name, (low, _) in bounds.items())
    return lowest, max(lowest, min(high / weights[name] for name, (_, high) in bounds.items()))


def clamped(knob: Knob, value: float) -> int | float:
    """``value`` within a numeric knob's range, rounded for an int."""
    low, high = knob.bounds
    inside = min(high, max(low, value))
    return round(inside) if knob.type == "int" else inside


def _has_collapsed(trials: Sequence[Trial], maximise: bool) -> bool:
    """Three measurements of nothing in a row: a failure, or 0 where more had been measured and more is better."""
    worthless, something = 0, False
    for trial in trials:
        something = something or (maximise and not trial.failed and (trial.value or 0.0) > 0)
        worthless = worthless + 1 if trial.failed or (something and trial.value == 0) else 0
        if worthless == _ZEROS_IN_A_ROW:
            return True
    return False
