"""Bayesian optimisation as in the thesis (Section 3.3): Gaussian process, expected improvement, one step at a time.

Spearmint's part is taken by BoTorch: a Matérn-5/2 process with length scales per coordinate and noise, fitted by
maximum a posteriori, and the logarithm of expected improvement (the same maximum, easier to climb). Up to
``_LARGEST_FIT`` trials are fitted: the newest and the best.

``bo`` searches the knobs as they are. ``ibo`` searches one multiplier per base weight: the thesis says the optimiser
"only had to choose a multiplier for these base-parallelism weights", in floating point, and that ibo took *longer* per
step than bo, so that there was one multiplier per vertex; its range is that of ipla's. ``bo180`` is bo with 180 steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.space import Configuration, Knob, Space, Vector, encode_all
from streamtune.autoconfig.strategies.ascent import clamped, multipliers
from streamtune.autoconfig.strategies.base import Strategy
from streamtune.autoconfig.trial import Suggestion, Trial, scores

if TYPE_CHECKING:
    from botorch.models import SingleTaskGP
    from torch import Tensor

_RANDOM_STARTS = 5
_RAW_SAMPLES = 128
_RESTARTS = 2
_CLIMB_STEPS = 60
_FIT_STEPS = 75
_LARGEST_FIT = 300


class Bayesian(Strategy):
    """bo: expected improvement over all knobs."""

    name = "bo"

    def ask(self, trials: Sequence[Trial]) -> Suggestion:
        number = len(trials)
        space = self.searched
        if number == 0 and self.space.has_defaults:
            return Suggestion(knobs=self.space.repair(self.space.defaults), why="the defaults")
        if number < _RANDOM_STARTS or len({trial.value for trial in trials if not trial.failed}) < 2:
            knobs = self.to_knobs(space.decode(_sobol(space.dimensions, number, self.seed)))
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


def _sobol(dimensions: int, number: int, seed: int) -> Vector:
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(dimensions, seed=seed).random(8)[number % 8], dtype=float)


def propose(known: Vector, values: Vector, seed: int) -> Vector:
    """The point of the cube with the largest expected improvement; ``values``: larger is better.

    One thread and its own random state: the same trials give the same point in any process.
    """
    import torch
    from botorch.acquisition.analytic import LogExpectedImprovement
    from botorch.optim.optimize import optimize_acqf

    kept = _worth_fitting(values)
    known, values = known[kept], values[kept]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed % (2**63))
            x = torch.tensor(known, dtype=torch.float64)
            y = torch.tensor(values, dtype=torch.float64).unsqueeze(-1)
            model = _fitted(x, y)
            with torch.no_grad():
                smooth = model.posterior(x).mean
            # The best *smoothed* value: the best measurement of a noisy objective is mostly luck.
            improvement = LogExpectedImprovement(model, best_f=smooth.max())
            bounds = torch.stack([torch.zeros(x.shape[1]), torch.ones(x.shape[1])]).to(torch.float64)
            point, _ = optimize_acqf(
                improvement, bounds, q=1, num_restarts=_RESTARTS, raw_samples=_RAW_SAMPLES,
                options={"maxiter": _CLIMB_STEPS, "seed": seed % (2**31), "sample_around_best": True},
            )  # fmt: skip
            return np.asarray(point[0].numpy(), dtype=float)
    finally:
        torch.set_num_threads(threads)


def _fitted(x: Tensor, y: Tensor) -> SingleTaskGP:
    import warnings

    from botorch.exceptions.errors import ModelFittingError
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    model = SingleTaskGP(x, y, outcome_transform=Standardize(m=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bounded number of fitting steps is meant
        try:
            mll = ExactMarginalLogLikelihood(model.likelihood, model)
            fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": _FIT_STEPS}})
        except ModelFittingError:
            model.eval()  # the prior's length scales still rank points
    return model


def _worth_fitting(values: Vector) -> NDArray[np.intp]:
    """Positions of the trials to fit, in order: all, or the best half and the newest half of the limit."""
    if len(values) <= _LARGEST_FIT:
        return np.arange(len(values))
    half = _LARGEST_FIT // 2
    best = np.argsort(-values, kind="stable")[:half]
    return np.unique(np.concatenate([best, np.arange(len(values) - half, len(values))]))
