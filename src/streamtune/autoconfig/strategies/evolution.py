"""CMA-ES, the thesis' future work: a population that learns the shape of the landscape (``cmaes``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamtune.autoconfig.space import Vector
from streamtune.autoconfig.strategies.base import Strategy
from streamtune.autoconfig.trial import Suggestion, Trial, scores

_STEP_SIZE = 0.25


class CovarianceAdaptation(Strategy):
    """Its state is a function of the trials: it is rebuilt by asking and telling them again, which takes milliseconds.

    A generation is told when all its members are measured, so that a failed one can count as the worst known.
    """

    name = "cma-es"

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._restart()

    def _restart(self) -> None:
        from cmaes import CMA

        size = self.space.dimensions
        centre = self.space.encode(self.space.anchor if self.space.has_defaults else self.space.defaults)
        self._optimiser = CMA(
            mean=np.clip(centre, 0.05, 0.95),
            sigma=_STEP_SIZE,
            bounds=np.column_stack([np.zeros(size), np.ones(size)]),
            seed=self.seed,
        )
        self._drawn: list[Vector] = []
        self._told = 0
        self._heard: list[float | None] = []

    def ask(self, trials: Sequence[Trial]) -> Suggestion:
        heard = [trial.value for trial in trials]
        if heard[: len(self._heard)] != self._heard:  # another session than the one this object has followed so far
            self._restart()
        self._heard = heard
        self._catch_up(trials)
        generation = len(trials) // self._optimiser.population_size + 1
        return Suggestion(knobs=self.space.decode(self._drawn[len(trials)]), why=f"generation {generation}")

    def _catch_up(self, trials: Sequence[Trial]) -> None:
        size = self._optimiser.population_size
        while len(self._drawn) <= len(trials):
            if len(self._drawn) - self._told == size:
                self._tell(trials, size)
            self._drawn.append(self._optimiser.ask())

    def _tell(self, trials: Sequence[Trial], size: int) -> None:
        generation = range(self._told, self._told + size)
        values = scores(trials[: self._told + size], self.problem.objective.maximise)
        self._optimiser.tell([(self._drawn[place], -values[place]) for place in generation])
        self._told += size
