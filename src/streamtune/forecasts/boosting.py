"""Gradient-boosted quantiles on lags, made honest by a conformal shift."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streamtune.forecasts.base import Forecaster, conformal_quantile, tidy
from streamtune.forecasts.series import RateSeries

Floats = npt.NDArray[np.float64]
LAGS = (1, 2, 3, 5, 8)
MOST_ROWS = 12_000


class QuantileBoosting(Forecaster):
    """One model per level for all horizons: the horizon is a feature, the target is the move since the last rate.

    Raw quantile boosting covers too little; the last fifth of the past is kept from training, and what the quantiles
    miss there is added (split conformal prediction, by horizon).
    """

    name = "boosting"

    def __init__(self, *, trees: int = 120, seed: int = 0) -> None:
        self.trees, self.seed = trees, seed

    def fit(self, series: RateSeries, horizon: int, levels: Sequence[float]) -> None:
        self.levels, self.scale = tuple(levels), max(float(series.values.mean()), 1e-9)
        self.season = series.season
        first = self._first()
        split = first + int(0.8 * (len(series) - first))
        rows, target, _ = self._examples(series, first, split, horizon)
        self.models = [self._trained(rows, target, level) for level in self.levels]
        rows, target, ahead = self._examples(series, split, len(series), horizon)
        self.shift = np.zeros((horizon, len(self.levels)))
        for k, model in enumerate(self.models):
            missed = target - _predict(model, rows)
            for step in range(horizon):
                near = missed[np.abs(ahead - step) <= max(1, step // 3)]
                if len(near) >= 8:
                    self.shift[step, k] = conformal_quantile(near, self.levels[k])

    def predict(self, series: RateSeries, horizon: int) -> Floats:
        ahead = np.arange(horizon)
        rows = _features(series, np.full(horizon, len(series) - 1), ahead, self.season) / self._units(horizon)
        moves = np.column_stack([_predict(model, rows) for model in self.models])
        moves = moves + self.shift[np.minimum(ahead, len(self.shift) - 1)]
        return tidy(series.values[-1] + self.scale * moves)

    def predict_many(self, series: RateSeries, origins: npt.NDArray[Any], horizon: int) -> Floats:
        """origins × horizon × levels in one go; origin k knows ``series.values[:k]`` and nothing later."""
        now = np.repeat(np.asarray(origins) - 1, horizon)
        ahead = np.tile(np.arange(horizon), len(origins))
        rows = _features(series, now, ahead, self.season) / self._units(len(now))
        moves = np.column_stack([_predict(model, rows) for model in self.models]) + self.shift[ahead]
        quantiles = tidy(series.values[now][:, None] + self.scale * moves)
        return quantiles.reshape(len(origins), horizon, len(self.levels))

    def _first(self) -> int:
        return max(LAGS) + (0 if self.season is None else self.season)

    def _units(self, rows: int) -> Floats:
        """Rates are divided by their mean; the calendar columns stay."""
        width = len(LAGS) + 1 + (4 if self.season is not None else 0)
        return np.concatenate([np.full(width, self.scale), np.ones(3)])[None, :].repeat(rows, axis=0)

    def _examples(self, series: RateSeries, first: int, end: int, horizon: int) -> tuple[Floats, Floats, Any]:
        generator = np.random.default_rng(self.seed)
        count = min(MOST_ROWS, max(end - first - 1, 1) * horizon)
        now = generator.integers(first, max(end - 1, first + 1), size=count)
        ahead = generator.integers(0, horizon, size=count)
        fits = now + 1 + ahead < end
        now, ahead = now[fits], ahead[fits]
        rows = _features(series, now, ahead, self.season) / self._units(len(now))
        target = (series.values[now + 1 + ahead] - series.values[now]) / self.scale
        return rows, target, ahead

    def _trained(self, rows: Floats, target: Floats, level: float) -> Any:
        from sklearn.ensemble import HistGradientBoostingRegressor

        model = HistGradientBoostingRegressor(
            loss="quantile",
            quantile=level,
            max_iter=self.trees,
            learning_rate=0.08,
            max_leaf_nodes=15,
            min_samples_leaf=20,
            random_state=self.seed,
        )
        with _threads().limit(limits=1):  # so few rows: threads that wait for each other cost more than they gain
            return model.fit(rows, target)


def _features(series: RateSeries, now: npt.NDArray[Any], ahead: npt.NDArray[Any], season: int | None) -> Floats:
    """One row per (origin, horizon): the level, recent moves, what followed yesterday, the horizon and the clock."""
    values = series.values
    columns = [values[now]] + [values[now] - values[np.maximum(now - lag, 0)] for lag in LAGS]
    if season is not None:
        then = now - season
        target = then + 1 + (ahead % season)
        columns += [
            values[np.minimum(target, now)] - values[then],
            values[now] - values[then],
            values[np.maximum(target - 1, 0)] - values[then],
            values[np.minimum(target + 1, now)] - values[then],
        ]
    clock = 2 * np.pi * ((series.start_s + (now + 1 + ahead) * series.step_s) % 86_400.0) / 86_400.0
    columns += [ahead.astype(np.float64), np.sin(clock), np.cos(clock)]
    return np.column_stack(columns)


def _predict(model: Any, rows: Floats) -> Floats:
    with _threads().limit(limits=1):
        return np.asarray(model.predict(rows))


@cache
def _threads() -> Any:
    """Looked up once, after scikit-learn was loaded: finding libraries with threads takes longer than a forecast."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
