"""The models that have been tried for performance over provision: the paper's five, and what the field has today.

Inputs are min-max scaled to [0, 1] and so is performance, as in the paper; only training samples set the scales.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.sampling.belief import CurveBelief
from streamtune.provisioning.sampling.physics import calibrate
from streamtune.provisioning.sampling.samples import Provision, Sample

Floats = npt.NDArray[np.float64]
Provisions = Sequence[Provision] | Sequence[Sample]


class Regressor(ABC):
    """Learns from samples, predicts records/s for provisions."""

    @abstractmethod
    def fit(self, samples: Sequence[Sample]) -> Regressor: ...

    @abstractmethod
    def predict(self, provisions: Provisions) -> Floats: ...


class Scaled(Regressor):
    """A scikit-learn style model behind min-max scaling."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def fit(self, samples: Sequence[Sample]) -> Regressor:
        from threadpoolctl import threadpool_limits

        rows, target = _table(samples), np.array([one.performance_per_s for one in samples])
        self.low, self.span = rows.min(axis=0), _span(rows)
        self.least, self.range = float(target.min()), max(float(np.ptp(target)), 1e-12)
        self.model = self.make()
        with threadpool_limits(1):
            self.model.fit((rows - self.low) / self.span, (target - self.least) / self.range)
        return self

    def predict(self, provisions: Provisions) -> Floats:
        found = self.model.predict((_table(provisions) - self.low) / self.span)
        return np.maximum(np.asarray(found, dtype=np.float64) * self.range + self.least, 0.0)


class GaussianProcess(Regressor):
    """The belief that chooses samples, as a model."""

    def fit(self, samples: Sequence[Sample]) -> Regressor:
        self.belief = CurveBelief.of(samples)
        return self

    def predict(self, provisions: Provisions) -> Floats:
        return np.exp(self.belief.log_performance(provisions)[0])


class MonotoneSpline(Regressor):
    """More of everything is never slower: isotonic means along the ladder, joined by a monotone cubic (PCHIP).

    It interpolates in one coordinate, how far up the ladder a provision lies: the lesser of its two shares.
    """

    def fit(self, samples: Sequence[Sample]) -> Regressor:
        from scipy.interpolate import PchipInterpolator
        from sklearn.isotonic import IsotonicRegression

        rows = _table(samples)
        self.low, self.span = rows.min(axis=0), _span(rows)
        self.varies = [column for column in range(2) if np.ptp(rows[:, column]) > 1e-12]
        place = self._place(rows)
        target = np.array([one.performance_per_s for one in samples])
        level = IsotonicRegression(out_of_bounds="clip").fit(place, target)
        knots = np.unique(place)
        values = np.asarray(level.predict(knots))
        self.curve = PchipInterpolator(knots, values) if len(knots) > 1 else lambda at: np.full(len(at), values[0])
        self.ends = float(knots[0]), float(knots[-1])
        return self

    def _place(self, rows: Floats) -> Floats:
        shares = (rows - self.low) / self.span
        return np.asarray(shares[:, self.varies].min(axis=1) if self.varies else shares[:, 0])

    def predict(self, provisions: Provisions) -> Floats:
        place = np.clip(self._place(_table(provisions)), *self.ends)
        return np.maximum(np.asarray(self.curve(place), dtype=np.float64), 0.0)


class Physical(Regressor):
    """The saturation and state formula, calibrated."""

    def fit(self, samples: Sequence[Sample]) -> Regressor:
        self.physics = calibrate(samples)[0]
        return self

    def predict(self, provisions: Provisions) -> Floats:
        rows = _table(provisions)
        return self.physics.performance(rows[:, 0], rows[:, 1])


def _table(provisions: Provisions) -> Floats:
    return np.array([[one.cpu, one.memory_mb] for one in provisions], dtype=np.float64).reshape(-1, 2)


def _span(rows: Floats) -> Floats:
    spread = np.ptp(rows, axis=0)
    return np.where(spread > 1e-12, spread, 1.0)


def _forest(seed: int, **changed: Any) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    # criterion 'mse' and max_features 'auto' of scikit-learn 0.22 are called squared_error and 1.0 today.
    settings: dict[str, Any] = {
        "n_estimators": 100,
        "criterion": "squared_error",
        "max_features": 1.0,
        "min_samples_leaf": 1,
    }
    settings |= {"min_samples_split": 2, "bootstrap": True, "random_state": seed}
    return RandomForestRegressor(**{**settings, **changed})


def _svr(seed: int, **changed: Any) -> Any:  # noqa: ARG001 - nothing random in it
    from sklearn.svm import SVR

    return SVR(**{"kernel": "rbf", "gamma": "scale", "C": 1.0, **changed})


def _adaboost(seed: int, **changed: Any) -> Any:
    from sklearn.ensemble import AdaBoostRegressor

    return AdaBoostRegressor(
        **{"n_estimators": 50, "learning_rate": 1.0, "loss": "linear", "random_state": seed, **changed}
    )


def _gbdt(seed: int, **changed: Any) -> Any:
    from sklearn.ensemble import GradientBoostingRegressor

    # The paper's criterion 'friedman_mse' is the only one left in scikit-learn 1.9, which warns when it is named.
    settings = {"n_estimators": 100, "max_features": None, "min_samples_leaf": 1}
    return GradientBoostingRegressor(**{**settings, "random_state": seed, **changed})


def _xgboost(seed: int, **changed: Any) -> Any:
    from xgboost import XGBRegressor

    settings = {"booster": "gbtree", "learning_rate": 0.1, "max_depth": 3, "n_estimators": 100, "n_jobs": 1}
    return XGBRegressor(**{**settings, "random_state": seed, **changed})


def _monotone_boosting(seed: int, **changed: Any) -> Any:
    return _xgboost(seed, monotone_constraints="(1,1)", **changed)


MAKERS: dict[str, Callable[..., Any]] = {
    "forest": _forest,
    "svr": _svr,
    "adaboost": _adaboost,
    "gbdt": _gbdt,
    "xgboost": _xgboost,
    "monotone-boosting": _monotone_boosting,
}
OTHERS: dict[str, Callable[[], Regressor]] = {
    "gaussian-process": GaussianProcess,
    "monotone-spline": MonotoneSpline,
    "physical": Physical,
}
GRIDS: dict[str, Mapping[str, Sequence[Any]]] = {
    "forest": {"n_estimators": (50, 100), "min_samples_leaf": (1, 2)},
    "svr": {"C": (1.0, 10.0, 100.0), "gamma": ("scale", 1.0, 5.0)},
    "adaboost": {"n_estimators": (25, 50), "learning_rate": (0.5, 1.0)},
    "gbdt": {"n_estimators": (50, 100), "max_depth": (2, 3)},
    "xgboost": {"n_estimators": (50, 100), "max_depth": (2, 3)},
    "monotone-boosting": {"n_estimators": (50, 100), "max_depth": (2, 3)},
}
NAMES = (*MAKERS, *OTHERS)


def regressor(name: str, seed: int = 0, **changed: Any) -> Regressor:
    """A fresh model by its name, with the paper's settings unless changed."""
    if name in MAKERS:
        return Scaled(lambda: MAKERS[name](seed, **changed))
    return OTHERS[name]()


def grid_of(name: str) -> list[dict[str, Any]]:
    """All settings of a model's grid; one empty setting where there is nothing to choose."""
    grid = GRIDS.get(name, {})
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
