"""MSTL (Bandara et al. 2021) by statsforecast: several seasons by loess, the rest by exponential smoothing."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from streamtune.forecasts.base import PointForecaster
from streamtune.forecasts.series import ForecastError, RateSeries

Floats = npt.NDArray[np.float64]


class Mstl(PointForecaster):
    """Day and, once three weeks are known, week; fitted anew at every origin, so few origins are calibrated on."""

    name = "mstl"
    origins = 8
    most_days = 28
    most_steps = 10_000  # of a fine series the days before are left out: loess over minutes of weeks takes too long

    def least(self, series: RateSeries) -> int:
        return 2 * (series.day or len(series))

    def point(self, series: RateSeries, horizon: int) -> Floats:
        day = series.day
        if day is None or len(series) < 2 * day:
            raise ForecastError("MSTL needs two whole days of rates: use naive for a cold start")
        try:
            from statsforecast.models import MSTL
        except ImportError as error:
            raise ForecastError("MSTL needs statsforecast: pip install 'streamtune[forecasts]'") from error

        days = max(2, min(self.most_days, self.most_steps // day))
        values = series.values[-days * day :]
        seasons = [day, 7 * day] if len(values) >= 21 * day else [day]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a constant series divides by its zero spread
            found = MSTL(season_length=seasons).forecast(y=values, h=horizon)
        return np.asarray(found["mean"], dtype=np.float64)
