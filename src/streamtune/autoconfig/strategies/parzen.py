"""TPE: the tree-structured Parzen estimator of Optuna, which knows conditional knobs by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamtune.autoconfig.space import Configuration, Knob, Value
from streamtune.autoconfig.strategies.base import Strategy
from streamtune.autoconfig.trial import Suggestion, Trial, scores
from streamtune.settings import later_seed

_STARTS = 10


class ParzenEstimator(Strategy):
    """A study in memory that the trials are put into; the sampler is seeded anew for every trial."""

    name = "tpe"

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna

    def ask(self, trials: Sequence[Trial]) -> Suggestion:
        number = len(trials)
        if number == 0 and self.space.has_defaults:
            return Suggestion(knobs=self.space.repair(self.space.defaults), why="the defaults")
        if number < _STARTS:
            return Suggestion(knobs=self.space.sample(self.generator(number)), why="initial design")
        optuna = self._optuna
        seed = later_seed(self.seed * 100_003, number)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, multivariate=True)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        values = scores(trials, self.problem.objective.maximise)
        study.add_trials([self._past(trial, value) for trial, value in zip(trials, values, strict=True)])
        asked = study.ask()
        wanted: Configuration = {name: self._suggest(asked, name, knob) for name, knob in self.space.knobs.items()}
        return Suggestion(knobs=self.space.repair(wanted), why="Parzen estimator")

    def _past(self, trial: Trial, value: float) -> Any:
        full = self.space.filled(trial.knobs)
        params = {name: self._outer(knob, full[name]) for name, knob in self.space.knobs.items()}
        distributions = {name: self._distribution(knob) for name, knob in self.space.knobs.items()}
        return self._optuna.trial.create_trial(params=params, distributions=distributions, value=value)

    def _distribution(self, knob: Knob) -> Any:
        distributions = self._optuna.distributions
        low, high = knob.bounds
        if knob.type == "category":
            return distributions.CategoricalDistribution(list(range(len(knob.choices))))
        if knob.type == "int":
            return distributions.IntDistribution(int(low), int(high), log=knob.log)
        return distributions.FloatDistribution(low, high, log=knob.log)

    @staticmethod
    def _outer(knob: Knob, value: Value) -> int | float:
        """A category by its position: Optuna compares choices by equality, where True is 1."""
        if knob.type == "category":
            return knob.position(value)
        return int(value) if knob.type == "int" else float(value)

    def _suggest(self, asked: Any, name: str, knob: Knob) -> Value:
        low, high = knob.bounds
        if knob.type == "category":
            return knob.choices[int(asked.suggest_categorical(name, list(range(len(knob.choices)))))]
        if knob.type == "int":
            return int(asked.suggest_int(name, int(low), int(high), log=knob.log))
        return min(high, max(low, float(asked.suggest_float(name, low, high, log=knob.log))))
