"""Flat-vector rivals: linear regression, MLP, random forest (as in the paper), and gradient boosting.

They get all that the graph network gets: the same features, with mean and maximum over the operators of each group, the
number of operators per group, the hosts, and the offered rate; and the same targets, the logarithms of latency and of
the share of the offered records that gets through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRegressor

from streamtune.models.costmodel.columns import PlanColumns
from streamtune.models.costmodel.features import PlanEncoder
from streamtune.models.costmodel.graphs import GROUPS, PlanGraphs
from streamtune.models.costmodel.model import LabelledPlans, Predictions

Floats = npt.NDArray[np.float64]

REGRESSORS: dict[str, Callable[[int], Any]] = {
    "linear regression": lambda _seed: make_pipeline(StandardScaler(), Ridge(1.0)),
    "flat-vector MLP": lambda seed: make_pipeline(
        StandardScaler(),
        MLPRegressor(hidden_layer_sizes=(128, 128), early_stopping=True, max_iter=80, random_state=seed),
    ),
    "random forest": lambda seed: RandomForestRegressor(
        100, max_features=0.3, min_samples_leaf=2, n_jobs=1, random_state=seed
    ),
    "gradient boosting": lambda seed: XGBRegressor(
        n_estimators=400,
        learning_rate=0.08,
        max_depth=7,
        subsample=0.8,
        colsample_bytree=0.5,
        n_jobs=1,
        random_state=seed,
    ),
}


def flat_vectors(graphs: PlanGraphs, columns: PlanColumns) -> Floats:
    """R × (5 · (1 + 2F) + 2H + 3): one vector per plan, whatever its structure."""
    plan_of = np.repeat(np.arange(graphs.plans), np.diff(graphs.starts))
    blocks = []
    for group in range(len(GROUPS)):
        inside = graphs.groups == group
        features, owner = graphs.operators[inside], plan_of[inside]
        count = np.bincount(owner, minlength=graphs.plans).astype(np.float64)
        blocks += [count[:, None], *_pooled(features, owner, graphs.plans)]
    host_of = np.repeat(np.arange(graphs.plans), np.diff(graphs.host_starts))
    blocks += _pooled(graphs.hosts, host_of, graphs.plans)
    hosts = np.diff(graphs.host_starts).astype(np.float64)
    cores = np.bincount(host_of, weights=columns.hosts["cores"], minlength=graphs.plans)
    blocks += [hosts[:, None], np.log(cores)[:, None], np.log(offered_rates(columns))[:, None]]
    return np.concatenate(blocks, axis=1)


def _pooled(features: npt.NDArray[np.float32], owner: npt.NDArray[np.int64], plans: int) -> list[Floats]:
    """Mean and maximum over what each plan owns; 0 where it owns nothing."""
    count = np.maximum(1, np.bincount(owner, minlength=plans))[:, None]
    mean = np.zeros((plans, features.shape[1]))
    np.add.at(mean, owner, features)
    most = np.full((plans, features.shape[1]), -np.inf)
    np.maximum.at(most, owner, features)
    return [mean / count, np.where(np.isfinite(most), most, 0.0)]


def offered_rates(columns: PlanColumns) -> Floats:
    """Records/s that all sources of each plan offer together."""
    owner = np.repeat(np.arange(columns.plans), columns.sizes)
    rates = np.bincount(owner, weights=columns.numbers["event_rate"], minlength=columns.plans).astype(np.float64)
    return np.maximum(rates, 1e-9)


@dataclass(frozen=True)
class FlatModel:
    """One regressor per target over the features of one encoder."""

    encoder: PlanEncoder
    latency: Any
    share: Any

    @classmethod
    def train(cls, name: str, plans: LabelledPlans, encoder: PlanEncoder, seed: int = 0) -> FlatModel:
        vectors = flat_vectors(encoder.transform(plans.columns), plans.columns)
        logs = np.log(plans.labels.throughput_per_s / offered_rates(plans.columns))
        return cls(
            encoder,
            REGRESSORS[name](seed).fit(vectors, np.log(plans.labels.latency_ms)),
            REGRESSORS[name](seed).fit(vectors, logs),
        )

    def predict(self, columns: PlanColumns) -> Predictions:
        vectors = flat_vectors(self.encoder.transform(columns), columns)
        # A diverging line must not overflow: predictions stay between a microsecond and a day.
        latency = np.exp(np.clip(np.asarray(self.latency.predict(vectors), dtype=np.float64), -7, 18))
        share = np.exp(np.clip(np.asarray(self.share.predict(vectors), dtype=np.float64), -18, 18))
        ones = np.ones(len(latency))
        return Predictions(latency, share * offered_rates(columns), ones, ones)
