"""Gradient-boosted trees with a monotone constraint on parallelism."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import xgboost as xgb

from streamtune.models.bottleneck.base import BottleneckClassifier, Floats, Ints


class MonotoneBoosting(BottleneckClassifier):
    """XGBoost whose splits and leaves may only lower the probability as p rises (Section IV-B, b)."""

    name: ClassVar[str] = "xgboost"
    is_monotone: ClassVar[bool] = True

    def __init__(self, seed: int = 0, *, trees: int = 120, depth: int = 4, learning_rate: float = 0.15) -> None:
        super().__init__(seed)
        self._settings = {"n_estimators": trees, "max_depth": depth, "learning_rate": learning_rate}

    def _fit(self, h: Floats, log_p: Floats, labels: Ints, weights: Floats) -> None:
        self._model = xgb.XGBClassifier(
            **self._settings,
            monotone_constraints=(*[0] * h.shape[1], -1),
            tree_method="hist",
            random_state=self._seed,
            n_jobs=1,
        )
        self._model.fit(np.column_stack([h, log_p]), labels, sample_weight=weights)

    def _probability(self, h: Floats, log_p: Floats) -> Floats:
        return np.asarray(self._model.predict_proba(np.column_stack([h, log_p]))[:, 1], dtype=np.float64)
