"""A plain neural network: no constraint on parallelism. For the ablation of Fig. 11a."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from streamtune.models.bottleneck.base import BottleneckClassifier, Floats, Ints


class PlainNetwork(BottleneckClassifier):
    """A multi-layer perceptron on [h, log p]."""

    name: ClassVar[str] = "nn"
    is_monotone: ClassVar[bool] = False

    def __init__(self, seed: int = 0, *, width: int = 32, epochs: int = 80) -> None:
        super().__init__(seed)
        self._width, self._epochs = width, epochs

    def _fit(self, h: Floats, log_p: Floats, labels: Ints, weights: Floats) -> None:
        rows = np.column_stack([h, log_p])
        self._scaler = StandardScaler().fit(rows)
        self._model = MLPClassifier((self._width, self._width), max_iter=self._epochs, random_state=self._seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a bounded number of epochs is what is wanted here
            self._model.fit(self._scaler.transform(rows), labels, sample_weight=weights)

    def _probability(self, h: Floats, log_p: Floats) -> Floats:
        rows = self._scaler.transform(np.column_stack([h, log_p]))
        return np.asarray(self._model.predict_proba(rows)[:, 1], dtype=np.float64)
