"""Which forecaster suits a job: the one that did best on its own past, with the error it made there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from streamtune.forecasts.base import Forecast, Forecaster, conformal_quantile, tidy
from streamtune.forecasts.boosting import QuantileBoosting
from streamtune.forecasts.mstl import Mstl
from streamtune.forecasts.naive import AnchoredSeasonal, Naive, SeasonalNaive
from streamtune.forecasts.series import ForecastError, RateSeries
from streamtune.forecasts.settings import ForecastSettings

Floats = npt.NDArray[np.float64]

FORECASTERS: dict[str, Callable[[], Forecaster]] = {
    "naive": Naive,
    "seasonal-naive": SeasonalNaive,
    "anchored-seasonal": AnchoredSeasonal,
    "boosting": QuantileBoosting,
    "mstl": Mstl,
}
# Fitted anew for every forecast.
SLOW = ("mstl",)


@dataclass(frozen=True)
class BackTest:
    """How a method did: pinball loss over mean rate, mean absolute error over mean rate by horizon, coverage."""

    method: str
    loss: float
    error: dict[str, float]
    coverage: dict[str, float]
    origins: int
    missed: tuple[float, ...]  # what each level would have had to be raised by to cover its share


def candidates(series: RateSeries, settings: ForecastSettings) -> list[str]:
    """The methods that this much past allows: without a season, what needs none; and what is installed."""
    for name in settings.methods:
        if name not in FORECASTERS:
            raise ForecastError(f"unknown forecaster '{name}': choose from {', '.join(FORECASTERS)}")
    split = series.until(int(len(series) * (1 - settings.test_share)))
    if split.season is None:
        usable = [
            name
            for name in settings.methods
            if name in ("naive", "boosting") and (name == "naive" or len(split) >= 100)
        ]
    else:
        usable = [name for name in settings.methods if name != "boosting" or len(split) >= split.season * 2 + 100]
    return [name for name in usable if name not in SLOW or find_spec("statsforecast") is not None] or ["naive"]


def back_test(name: str, series: RateSeries, settings: ForecastSettings, origins_wanted: int | None = None) -> BackTest:
    """Fit on the early part, forecast from points of the late part, compare with what came."""
    split = max(2, int(len(series) * (1 - settings.test_share)))
    horizon = min(settings.horizon, max(len(series) - split, 1))
    forecaster = FORECASTERS[name]()
    forecaster.fit(series.until(split), horizon, settings.levels)
    origins = np.unique(np.linspace(split, len(series) - 1, origins_wanted or settings.origins).astype(int))
    predicted, actual, ahead = [], [], []
    for origin in origins:
        truth = series.values[origin : origin + horizon]
        predicted.append(forecaster.predict(series.until(int(origin)), horizon)[: len(truth)])
        actual.append(truth)
        ahead.append(np.arange(len(truth)))
    return _measured(
        name,
        np.vstack(predicted),
        np.concatenate(actual),
        np.concatenate(ahead),
        series.step_s,
        settings.levels,
        len(origins),
    )


def _measured(
    name: str,
    predicted: Floats,
    actual: Floats,
    ahead: npt.NDArray[np.int64],
    step_s: float,
    levels: Sequence[float],
    origins: int,
) -> BackTest:
    mean = max(float(actual.mean()), 1e-12)
    middle = int(np.argmin(np.abs(np.array(levels) - 0.5)))
    off = np.abs(predicted[:, middle] - actual) / mean
    error = {}
    for label, seconds in (("15min", 900.0), ("1h", 3600.0), ("24h", 86_400.0)):
        step = max(0, round(seconds / step_s) - 1)
        if step <= ahead.max() and (ahead == step).any():
            error[label] = float(off[ahead == step].mean())
    error["all"] = float(off.mean())
    missed = actual[:, None] - predicted
    pinball = np.maximum(np.array(levels) * missed, (np.array(levels) - 1) * missed).mean() / mean
    coverage = {f"{level:g}": float((missed[:, k] <= 1e-9 * mean).mean()) for k, level in enumerate(levels)}
    raised = tuple(max(0.0, conformal_quantile(missed[:, k], level)) for k, level in enumerate(levels))
    return BackTest(name, float(pinball), error, coverage, origins, raised)


def choose(series: RateSeries, settings: ForecastSettings) -> list[BackTest]:
    """All candidates, best first.

    A slow method is tested from fewer points: it comes first where it beats the best of the others on the same ones.
    """
    usable = candidates(series, settings)
    quick, slow = ([name for name in usable if (name in SLOW) == is_slow] for is_slow in (False, True))
    ranked = sorted((back_test(name, series, settings) for name in quick), key=lambda test: test.loss)
    for name in slow:
        test = back_test(name, series, settings, settings.slow_origins)
        rival = back_test(ranked[0].method, series, settings, settings.slow_origins) if ranked else None
        ranked.insert(0 if rival is None or test.loss < rival.loss else 1, test)
    return ranked


def forecast(series: RateSeries, settings: ForecastSettings | None = None) -> Forecast:
    """The rates to come by the method that did best on this series' own past.

    Levels above the median that covered too little there are raised by what they missed. A series too short to test on
    (fewer than 8 steps) goes on as it is, and no error is given: it is unknown.
    """
    settings = settings or ForecastSettings()
    error: dict[str, float] = {}
    name, raised = "naive", np.zeros(len(settings.levels))
    if len(series) >= 8:
        best = choose(series, settings)[0]
        name = best.method
        raised = np.where(np.array(settings.levels) > 0.5, best.missed, 0.0)
        error = {**best.error, **{f"coverage {level}": share for level, share in best.coverage.items()}}
    forecaster = FORECASTERS[name]()
    forecaster.fit(series, settings.horizon, settings.levels)
    values = tidy(forecaster.predict(series, settings.horizon) + raised)
    return Forecast(values, settings.levels, series.step_s, series.end_s, name, error)
