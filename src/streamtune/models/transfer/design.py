"""The static features of an operator as named terms, and a Bayesian linear regression on them.

Costs multiply (a wider record, a longer window, a string for a key: each takes so many times longer), so logarithms of
costs are sums. Terms are shared between operator types where a history has little of a type, and corrected by type
where it has more: a ridge prior decides. What no past operator had widens the answer instead of shifting it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from streamtune.dataflow.features import CATEGORIES
from streamtune.frozen import Frozen

Floats = npt.NDArray[np.float64]
Features = Mapping[str, str | float | None]

# Prior standard deviations of effects on a logarithm: what one term may change before anything was seen.
_SHARED_SD = 3.0
_NUMBER_SD = 1.0
_MIXED_SD = 0.3
_DIGITS = 7


def terms(features: Features) -> dict[str, float]:
    """Term → value of one operator (a row of Table I).

    >>> sorted(terms({"type": "map", "tuple_type": "row", "tuple_width_in": 1.0}))
    ['1', 'log tuple_width_in', 'map: log tuple_width_in', 'map: tuple_type=row', 'tuple_type=row', 'type=map']
    """
    kind = features["type"]
    found = {"1": 1.0}
    for name in CATEGORIES:
        value = features.get(name)
        if value is not None:
            found[f"{name}={value}"] = 1.0
            if name == "tuple_type":
                found[f"{kind}: {name}={value}"] = 1.0
    for name, value in _logarithms(features).items():
        found[f"log {name}"] = value
        found[f"{kind}: log {name}"] = value
    return found


def _logarithms(features: Features) -> dict[str, float]:
    found = {}
    for name in ("tuple_width_in", "tuple_width_out"):
        width = features.get(name)
        if width is not None:
            found[name] = math.log(max(float(width), 0.5))
    length = features.get("window_length")
    if length is not None and float(length) > 0:
        # Seconds and tuples have nothing in common but the word.
        policy = features.get("window_policy") or "time"
        slide = features.get("window_slide")
        found[f"{policy} window_length"] = math.log(float(length))
        found[f"{policy} window_period"] = math.log(float(length if slide is None else slide))
    return found


def term_sd(name: str) -> float:
    """How large the effect of a term may be, as the ridge prior has it."""
    if ": " in name:
        return _MIXED_SD if "log " not in name else _NUMBER_SD
    return _NUMBER_SD if name.startswith("log ") else _SHARED_SD


class TermModel(Frozen):
    """A fitted regression: effect of each term, and the covariance of those estimates."""

    names: tuple[str, ...] = ()
    effects: tuple[float, ...] = ()
    covariance: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def fit(cls, rows: Sequence[Mapping[str, float]], values: Floats, variances: Floats) -> TermModel:
        """Weighted least squares with the ridge prior; ``variances`` are of each value around its mean."""
        names = sorted({name for row in rows for name in row})
        place = {name: position for position, name in enumerate(names)}
        design = np.zeros((len(rows), len(names)))
        for number, row in enumerate(rows):
            for name, value in row.items():
                design[number, place[name]] = value
        weighted = design / variances[:, None]
        precision = design.T @ weighted + np.diag([term_sd(name) ** -2 for name in names])
        covariance = np.linalg.inv(precision)
        effects = covariance @ (weighted.T @ values)
        return cls(
            names=tuple(names),
            effects=tuple(_rounded(effects)),
            covariance=tuple(tuple(_rounded(line)) for line in (covariance + covariance.T) / 2),
        )

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats]:
        size = len(self.names)
        return np.array(self.effects), np.array(self.covariance, dtype=np.float64).reshape(size, size)

    def knows(self, term: str) -> bool:
        return term in self._place

    def predict(self, rows: Sequence[Mapping[str, float]]) -> tuple[Floats, Floats]:
        """Mean and variance (of the mean, not of an operator around it) for each row of terms."""
        effects, covariance = self._arrays
        design = np.zeros((len(rows), len(self.names)))
        unknown = np.zeros(len(rows))
        for number, row in enumerate(rows):
            for name, value in row.items():
                position = self._place.get(name)
                if position is None:
                    unknown[number] += (term_sd(name) * value) ** 2
                else:
                    design[number, position] = value
        return design @ effects, ((design @ covariance) * design).sum(axis=1) + unknown


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]
