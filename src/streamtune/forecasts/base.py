"""What every forecaster does, and how a point forecast gets its quantiles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from streamtune.forecasts.series import RateSeries

Floats = npt.NDArray[np.float64]
DEFAULT_LEVELS = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Forecast:
    """Quantiles of the rate in each coming step, with the error its method made on the job's own past."""

    values: Floats  # horizon × levels, records/s
    levels: tuple[float, ...]
    step_s: float
    start_s: float  # when the first step begins
    method: str
    error: dict[str, float] = field(default_factory=dict)  # mean absolute error over mean rate, by horizon; coverage

    def at(self, level: float) -> Floats:
        """The quantile of one level."""
        return np.asarray(self.values[:, self.levels.index(level)])

    def as_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "step_s": self.step_s,
            "start_s": self.start_s,
            "error": self.error,
            "quantiles": {f"{level:g}": self.at(level).tolist() for level in self.levels},
        }


class Forecaster(ABC):
    """Learns from a series once, then forecasts from any later point of it.

    ``predict`` gets everything known at the origin and never anything later.
    """

    name: str

    @abstractmethod
    def fit(self, series: RateSeries, horizon: int, levels: Sequence[float]) -> None:
        """Learn how the rate goes on over ``horizon`` steps."""

    @abstractmethod
    def predict(self, series: RateSeries, horizon: int) -> Floats:
        """horizon × levels quantiles of the steps after the series' end, never crossing and never below 0."""


class PointForecaster(Forecaster):
    """A point forecast whose quantiles are its own residuals on the past (split conformal, by horizon)."""

    origins = 60  # points of the past whose residuals are taken

    def fit(self, series: RateSeries, horizon: int, levels: Sequence[float]) -> None:
        self.levels = tuple(levels)
        self.learn(series)
        first = max(self.least(series), len(series) // 2)
        last = len(series) - 1
        count = min(self.origins, max(last - first + 1, 0))
        rows = []
        for origin in np.unique(np.linspace(first, last, count).astype(int)) if count else ():
            ahead = series.values[origin : origin + horizon]
            row = np.full(horizon, np.nan)
            row[: len(ahead)] = ahead - self.point(series.until(origin), horizon)[: len(ahead)]
            rows.append(row)
        self.residuals = residual_quantiles(np.array(rows).reshape(-1, horizon), series.values, self.levels)

    def predict(self, series: RateSeries, horizon: int) -> Floats:
        point = np.maximum(self.point(series, horizon), 0.0)
        return tidy(point[:, None] + self.residuals[np.minimum(np.arange(horizon), len(self.residuals) - 1)])

    def learn(self, series: RateSeries) -> None:
        """What the point forecast itself needs to know of the past."""

    def least(self, series: RateSeries) -> int:  # noqa: ARG002 - seasonal forecasts look at it
        """The fewest steps a point forecast needs."""
        return 1

    @abstractmethod
    def point(self, series: RateSeries, horizon: int) -> Floats:
        """The forecast itself."""


def residual_quantiles(residuals: Floats, values: Floats, levels: Sequence[float]) -> Floats:
    """horizon × levels: what to add to a point forecast, from residuals (origins × horizon, NaN: not seen).

    Neighbouring horizons share their residuals, so that 60 origins can speak about a 0.99 quantile. Where too little
    was seen (a cold start), the largest move seen so far stands in, growing with the root of the horizon.
    """
    horizon = residuals.shape[1]
    added = np.zeros((horizon, len(levels)))
    moves = np.abs(np.diff(values))
    largest = float(moves.max()) if len(moves) else float(values.max(initial=0.0))
    for step in range(horizon):
        reach = max(1, step // 3)
        near = residuals[:, max(0, step - reach) : step + reach + 1]
        near = near[np.isfinite(near)]
        for k, level in enumerate(levels):
            if len(near) * (1 - level) >= 0.5 or (len(near) >= 8 and level <= 0.9):
                added[step, k] = conformal_quantile(near, level)
            elif len(near) >= 8:
                added[step, k] = near.max()
            elif level > 0.5:
                added[step, k] = largest * np.sqrt(step + 1.0)
    return added


def conformal_quantile(residuals: Floats, level: float) -> float:
    """The quantile with the finite-sample correction of split conformal prediction: ⌈(n + 1) · level⌉-th smallest."""
    rank = int(np.ceil((len(residuals) + 1) * level))
    return float(np.sort(residuals)[min(max(rank, 1), len(residuals)) - 1])


def tidy(quantiles: Floats) -> Floats:
    """No negative rates, and no level below a lower one."""
    return np.maximum.accumulate(np.maximum(quantiles, 0.0), axis=1)
