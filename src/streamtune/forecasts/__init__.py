"""Rates to come, from a job's own past: quantiles, with the error the method made before."""

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.forecasts.base import Forecast, Forecaster
    from streamtune.forecasts.selection import back_test, choose, forecast
    from streamtune.forecasts.series import ForecastError, RateSeries, read_series, series_of
    from streamtune.forecasts.settings import ForecastSettings
else:
    __getattr__ = lazily(
        __name__,
        {
            "base": ["Forecast", "Forecaster"],
            "selection": ["back_test", "choose", "forecast"],
            "series": ["ForecastError", "RateSeries", "read_series", "series_of"],
            "settings": ["ForecastSettings"],
        },
    )

__all__ = [
    "Forecast",
    "ForecastError",
    "ForecastSettings",
    "Forecaster",
    "RateSeries",
    "back_test",
    "choose",
    "forecast",
    "read_series",
    "series_of",
]
