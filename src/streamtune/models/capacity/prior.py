"""What a history teaches about capacity curves before a job has run: one prior per operator type (empirical Bayes)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError, model_validator

from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen
from streamtune.models.capacity.belief import LEVEL, WEIGHTS, CapacityBelief

Floats = npt.NDArray[np.float64]

# Without a history: any level, close to linear scaling, busy time right to about 5 %.
_FLAT_MEAN = (8.0, 0.97, -0.10, 0.0, 0.0)
_FLAT_SD = (6.0, 0.04, 0.20, 0.05, 0.005)
_FLAT_NOISE = 0.03
_ITERATIONS = 200
# How many operators the flat prior counts as, so that a type seen only a few times stays uncertain.
_FLAT_WEIGHT = 3.0
_DIGITS = 8


class PriorError(StreamTuneError):
    """A capacity prior that cannot be read."""


class TypePrior(Frozen):
    """The weights of one operator type over all its operators: mean and covariance, and the error of a reading."""

    mean: tuple[float, ...] = Field(min_length=WEIGHTS, max_length=WEIGHTS)
    covariance: tuple[tuple[float, ...], ...] = Field(min_length=WEIGHTS, max_length=WEIGHTS)
    noise_sd: float = Field(gt=0)
    operators: int = Field(default=0, ge=0, description="how many operators it rests on")
    readings: int = Field(default=0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _of_release_0_1_0(cls, data: Any) -> Any:
        """Up to release 0.1.0 the bias did not grow with parallelism: four weights."""
        if isinstance(data, dict) and len(data.get("mean", ())) == WEIGHTS - 1:
            wide = np.diag(np.square(_FLAT_SD))
            wide[:-1, :-1] = data["covariance"]
            data = {**data, "mean": (*data["mean"], 0.0), "covariance": tuple(tuple(row) for row in wide.tolist())}
        return data

    @classmethod
    def flat(cls) -> Self:
        return cls(
            mean=_FLAT_MEAN,
            covariance=tuple(tuple(row) for row in np.diag(np.square(_FLAT_SD)).tolist()),
            noise_sd=_FLAT_NOISE,
        )

    def belief(self) -> CapacityBelief:
        return CapacityBelief(np.array(self.mean), np.array(self.covariance), self.noise_sd)


class CapacityPrior(Frozen):
    """By operator type. ``saturated_busy`` is the mean busy share that a type reports when it is saturated, which the
    calibrated DS2 uses."""

    types: Mapping[str, TypePrior] = Field(default_factory=dict)
    saturated_busy: Mapping[str, float] = Field(default_factory=dict)

    def belief(self, operator_type: str) -> CapacityBelief:
        """The belief about an operator of this type before it has run; flat for a type that was never seen."""
        return self.types.get(operator_type, TypePrior.flat()).belief()

    def to_json(self) -> str:
        return self.model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            data = json.loads(text)
            if isinstance(data, dict):
                data.pop("resolution", None)  # up to release 0.1.0; now every observation says it
            return cls.model_validate(data)
        except ValidationError as error:
            raise PriorError(f"this is not a capacity prior: {error.errors()[0]['msg']}") from error
        except (ValueError, RecursionError) as error:  # numbers and brackets without end too
            raise PriorError(f"this is not a capacity prior: {getattr(error, 'msg', error)}") from error


@dataclass(frozen=True)
class CurveSums:
    """What G operators of one type contribute, as sums over their readings with rows x and values y."""

    xx: Floats  # G × 5 × 5
    xy: Floats  # G × 5
    yy: Floats  # G
    count: Floats  # G

    @classmethod
    def of(cls, group: npt.ArrayLike, rows: Floats, values: Floats) -> CurveSums:
        """From N readings, each with the number of the operator it belongs to."""
        group = np.asarray(group, dtype=np.int64)
        size = int(group.max(initial=-1)) + 1

        def total(column: Floats) -> Floats:
            return np.bincount(group, weights=column, minlength=size).astype(np.float64)

        xx = np.empty((size, WEIGHTS, WEIGHTS))
        for i in range(WEIGHTS):
            for j in range(WEIGHTS):
                xx[:, i, j] = total(rows[:, i] * rows[:, j])
        xy = np.stack([total(rows[:, i] * values) for i in range(WEIGHTS)], axis=1)
        return cls(xx, xy, total(values * values), total(np.ones_like(values)))

    def where(self, chosen: npt.NDArray[np.bool_]) -> CurveSums:
        return CurveSums(self.xx[chosen], self.xy[chosen], self.yy[chosen], self.count[chosen])

    def less(self, level: Floats) -> CurveSums:
        """The sums of the same readings with each operator's ``level`` taken off them."""
        xy = self.xy - level[:, None] * self.xx[:, :, LEVEL]
        yy = self.yy - 2 * level * self.xy[:, LEVEL] + level**2 * self.count
        return CurveSums(self.xx, xy, yy, self.count)


def fit_type(sums: CurveSums, flat: TypePrior | None = None) -> TypePrior:
    r"""Expectation maximisation of a linear model with random weights per operator.

    .. math::
        y_{gi} = x_{gi} w_g + \varepsilon, \quad w_g \sim N(m, S), \quad \varepsilon \sim N(0, \sigma^2)

    The ``flat`` prior counts as a few more operators.
    """
    flat = flat or TypePrior.flat()
    flat_mean, flat_cov = np.array(flat.mean), np.array(flat.covariance)
    groups, readings = len(sums.count), float(sums.count.sum())
    mean, cov, variance = flat_mean, flat_cov, flat.noise_sd**2
    for _ in range(_ITERATIONS):
        precision = np.linalg.inv(cov)
        spread = np.linalg.inv(precision + sums.xx / variance)
        weights = np.einsum("gij,gj->gi", spread, precision @ mean + sums.xy / variance)
        mean = (weights.sum(axis=0) + _FLAT_WEIGHT * flat_mean) / (groups + _FLAT_WEIGHT)
        apart = weights - mean
        scatter = spread.sum(axis=0) + apart.T @ apart
        cov = (scatter + _FLAT_WEIGHT * flat_cov) / (groups + _FLAT_WEIGHT)
        second = spread + np.einsum("gi,gj->gij", weights, weights)
        left = sums.yy - 2 * np.einsum("gi,gi->g", weights, sums.xy) + np.einsum("gij,gij->g", sums.xx, second)
        variance = float((left.sum() + _FLAT_WEIGHT * flat.noise_sd**2) / (readings + _FLAT_WEIGHT))
    return TypePrior(
        mean=tuple(_rounded(mean)),
        covariance=tuple(tuple(_rounded(row)) for row in (cov + cov.T) / 2),
        noise_sd=float(_rounded(np.array([np.sqrt(variance)]))[0]),
        operators=groups,
        readings=int(readings),
    )


def _rounded(values: Floats) -> list[float]:
    """So that the order in which a cluster adds numbers up does not show."""
    return [float(f"{value:.{_DIGITS}g}") for value in values]
