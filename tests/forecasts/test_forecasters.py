"""Forecasters: no look into the future, quantiles in order, and the season found where there is one."""

from __future__ import annotations

import numpy as np
import pytest

from streamtune.forecasts import ForecastError, ForecastSettings, RateSeries, choose, forecast, selection
from streamtune.forecasts.base import conformal_quantile
from streamtune.forecasts.naive import Naive
from streamtune.forecasts.selection import FORECASTERS, back_test, candidates

LEVELS = (0.5, 0.9, 0.99)


def days(count: int, noise: float = 0.05, step_s: float = 1800.0) -> RateSeries:
    generator = np.random.default_rng(3)
    steps = np.arange(round(count * 86_400 / step_s))
    rate = 100 + 60 * np.sin(2 * np.pi * steps * step_s / 86_400)
    return RateSeries(rate * (1 + noise * generator.standard_normal(len(steps))), step_s)


@pytest.mark.parametrize("name", [name for name in FORECASTERS if name != "mstl"])
def test_every_forecaster_keeps_its_quantiles_in_order(name: str) -> None:
    series = days(6)
    forecaster = FORECASTERS[name]()
    forecaster.fit(series, 24, LEVELS)
    values = forecaster.predict(series, 24)
    assert values.shape == (24, 3)
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    assert (np.diff(values, axis=1) >= 0).all()


@pytest.mark.parametrize("name", [name for name in FORECASTERS if name != "mstl"])
def test_what_comes_later_changes_no_forecast(name: str) -> None:
    series = days(6)
    spoiled = RateSeries(np.concatenate([series.values[:200], 1e6 * np.ones(len(series) - 200)]), series.step_s)
    forecaster = FORECASTERS[name]()
    forecaster.fit(series.until(190), 12, LEVELS)
    assert forecaster.predict(series.until(200), 12).tolist() == forecaster.predict(spoiled.until(200), 12).tolist()


@pytest.mark.parametrize("name", list(FORECASTERS))
@pytest.mark.parametrize("level", [0.0, 7.0])
def test_a_constant_rate_stays(name: str, level: float) -> None:
    series = RateSeries(np.full(300, level), 1800.0)
    forecaster = FORECASTERS[name]()
    forecaster.fit(series, 8, LEVELS)
    assert forecaster.predict(series, 8) == pytest.approx(np.full((8, 3), level), abs=1e-3)


def test_a_seasonal_rate_is_foreseen_better_than_by_the_last_one() -> None:
    settings = ForecastSettings(horizon=24, origins=12, methods=("naive", "seasonal-naive", "boosting"))
    ranked = choose(days(8), settings)
    assert ranked[0].method != "naive"
    assert ranked[0].loss < 0.5 * next(test.loss for test in ranked if test.method == "naive")
    assert 0.8 <= ranked[0].coverage["0.9"] <= 1.0


def test_mstl_sees_the_day() -> None:
    pytest.importorskip("statsforecast")
    test = back_test("mstl", days(5, step_s=3600.0), ForecastSettings(horizon=12, origins=3))
    assert test.error["all"] < 0.15


def test_mstl_is_chosen_where_it_does_best_and_is_asked_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Oracle(Naive):
        """Stands in for MSTL: knows how the rate goes on, and counts how often it is asked."""

        def point(self, series: RateSeries, horizon: int) -> np.ndarray:
            asked.append("point")
            steps = np.arange(len(series), len(series) + horizon)
            return np.asarray(100 + 60 * np.sin(2 * np.pi * steps / 48))

    monkeypatch.setitem(FORECASTERS, "mstl", Oracle)
    monkeypatch.setattr(Oracle, "origins", 8)
    settings = ForecastSettings(horizon=12)
    assert choose(days(5), settings)[0].method == "mstl"
    assert len(asked) == 8 + settings.slow_origins
    monkeypatch.setitem(FORECASTERS, "mstl", Naive)
    ranked = choose(days(5), settings)
    assert ranked[0].method != "mstl"
    assert ranked[1].method == "mstl"
    monkeypatch.setattr(selection, "find_spec", lambda _: None)
    assert "mstl" not in candidates(days(5), settings)


def test_a_cold_start_has_no_season_and_says_so() -> None:
    short = days(1)
    assert candidates(short, ForecastSettings()) == ["naive"]
    found = forecast(RateSeries(np.array([10.0, 12.0, 11.0]), 60.0), ForecastSettings(horizon=4))
    assert found.method == "naive"
    assert found.error == {}
    # The largest move was 2: the upper quantiles leave room for it, growing with the root of the horizon.
    assert found.at(0.9).tolist() == pytest.approx([11 + 2 * np.sqrt(k) for k in (1, 2, 3, 4)])


def test_the_error_comes_with_the_forecast() -> None:
    found = forecast(days(5), ForecastSettings(horizon=6, origins=6, methods=("naive", "seasonal-naive")))
    assert {"all", "coverage 0.9"} <= set(found.error)
    assert found.as_dict()["quantiles"]["0.5"] == found.at(0.5).tolist()


def test_unknown_forecasters() -> None:
    with pytest.raises(ForecastError, match="unknown forecaster 'oracle': choose from naive"):
        forecast(days(3), ForecastSettings(methods=("oracle",)))


def test_the_conformal_quantile_corrects_for_few_residuals() -> None:
    # Nine residuals: the 0.9 quantile is the ⌈10 · 0.9⌉ = 9th smallest, the largest.
    assert conformal_quantile(np.arange(9.0), 0.9) == 8.0
