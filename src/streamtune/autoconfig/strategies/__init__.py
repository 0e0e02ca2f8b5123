"""Strategies by name. Each lives in a module of its own; libraries are imported when a strategy is made."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.strategies.base import Strategy
from streamtune.errors import StreamTuneError

_PLACES = {
    "random": ("random_search", "RandomSearch"),
    "pla": ("ascent", "LinearAscent"),
    "ipla": ("ascent", "InformedAscent"),
    "bo": ("gaussian", "Bayesian"),
    "ibo": ("gaussian", "InformedBayesian"),
    "bo180": ("gaussian", "Bayesian180"),
    "cma-es": ("evolution", "CovarianceAdaptation"),
    "tpe": ("parzen", "ParzenEstimator"),
    "ours": ("ours", "Ours"),
}
NAMES = tuple(_PLACES)
DEFAULT_STEPS = {"bo180": 180}
"""Steps of the strategies that have their number in their name; all others take the thesis' 60."""


def make_strategy(name: str, problem: Problem, *, seed: int, warm: Sequence[dict[str, Any]] = ()) -> Strategy:
    """:raises StreamTuneError: for a name that does not exist, or a library that is missing."""
    if name not in _PLACES:
        raise StreamTuneError(f"no strategy {name!r}: there are {', '.join(NAMES)}")
    module, kind = _PLACES[name]
    try:
        found = getattr(import_module(f"streamtune.autoconfig.strategies.{module}"), kind)
    except ModuleNotFoundError as error:
        raise StreamTuneError(f"{name} needs {error.name}: pip install 'streamtune[autoconfig]'") from error
    strategy: Strategy = found(problem, seed=seed, warm=warm)
    return strategy


__all__ = ["DEFAULT_STEPS", "NAMES", "Strategy", "make_strategy"]
