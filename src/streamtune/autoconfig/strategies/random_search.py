"""Uniform random search: what every other strategy must beat."""

from __future__ import annotations

from collections.abc import Sequence

from streamtune.autoconfig.strategies.base import Strategy
from streamtune.autoconfig.trial import Suggestion, Trial


class RandomSearch(Strategy):
    """Independent allowed configurations, uniform on every knob's scale."""

    name = "random"

    def ask(self, trials: Sequence[Trial]) -> Suggestion:
        number = len(trials)
        return Suggestion(knobs=self.space.sample(self.generator(number)), why="random")
