"""What every strategy is: a pure function from the trials so far to what should be tried next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.space import Configuration, key_of
from streamtune.autoconfig.trial import Suggestion, Trial


class Strategy(ABC):
    """Proposes configurations.

    ``ask`` depends on the trials it is given, the seed and the problem alone: not on earlier calls, clocks or global
    random state, nor the number of steps. What it keeps between calls may only save time. That makes a resumed or
    extended session equal to one that ran through, without storing anything but trials.

    :param warm: what sessions of similar jobs had found (see ``similar``); only ``ours`` uses it.
    """

    name: str = ""

    def __init__(self, problem: Problem, *, seed: int, warm: Sequence[dict[str, Any]] = ()) -> None:
        self.problem = problem
        self.space = problem.space
        self.seed = seed
        self.warm = tuple(warm)

    @abstractmethod
    def ask(self, trials: Sequence[Trial]) -> Suggestion | None:
        """The next configuration, allowed by the space; None when there is nothing more to try."""

    def generator(self, number: int, stream: int = 0) -> np.random.Generator:
        """Random numbers of one trial: the same whatever was drawn before."""
        return np.random.default_rng([self.seed, number, stream])

    def fresh(self, wanted: Configuration, trials: Sequence[Trial], number: int) -> Configuration:
        """``wanted``, or a random neighbour when it was tried already: rounding makes optimisers repeat themselves."""
        tried = {key_of(trial.knobs) for trial in trials}
        if key_of(wanted) not in tried:
            return wanted
        generator = self.generator(number, stream=9)
        centre = self.space.encode(wanted)
        for radius in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8):
            for _ in range(8):
                near = self.space.decode(np.clip(centre + generator.normal(0.0, radius, centre.size), 0.0, 1.0))
                if key_of(near) not in tried:
                    return near
        return wanted  # a small space that is used up: measured again, which also tells something
