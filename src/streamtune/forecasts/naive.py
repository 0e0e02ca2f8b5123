"""The honest baselines: as now, and as yesterday."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamtune.forecasts.base import PointForecaster
from streamtune.forecasts.series import RateSeries

Floats = npt.NDArray[np.float64]


class Naive(PointForecaster):
    """The last rate goes on. All that can be said without a season."""

    name = "naive"

    def point(self, series: RateSeries, horizon: int) -> Floats:
        return np.full(horizon, series.values[-1])


class SeasonalNaive(PointForecaster):
    """As at this time yesterday."""

    name = "seasonal-naive"

    def least(self, series: RateSeries) -> int:
        return series.day or 1

    def point(self, series: RateSeries, horizon: int) -> Floats:
        day = series.day
        if day is None or len(series) < day:
            return np.full(horizon, series.values[-1])
        return np.asarray(series.values[len(series) - day + np.arange(horizon) % day])


class AnchoredSeasonal(PointForecaster):
    """As at this time yesterday, moved to where the rate is now; the anchor fades over a few hours.

    Level forecasts lose to plain following where the level moves from day to day; the last observation is the best
    there is about it.
    """

    name = "anchored-seasonal"
    fade_s = 4 * 3600.0

    def least(self, series: RateSeries) -> int:
        return (series.day or 1) + 1

    def point(self, series: RateSeries, horizon: int) -> Floats:
        day = series.day
        if day is None or len(series) <= day:
            return np.full(horizon, series.values[-1])
        ahead = np.arange(1, horizon + 1)
        yesterday = series.values[len(series) - day - 1 + ((ahead - 1) % day) + 1]
        then = max(float(series.values[-1 - day]), 1e-9)
        ratio = np.clip(float(series.values[-1]) / then, 0.2, 5.0)
        weight = np.exp(-(ahead - 1) * series.step_s / self.fade_s)
        return np.asarray(yesterday * (weight * ratio + (1 - weight)))
