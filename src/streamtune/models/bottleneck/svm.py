"""The support vector machine of Eq. 5, exact."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from streamtune.models.bottleneck.base import BottleneckClassifier, Floats, Ints

# The smallest slope of the map from decision values to probabilities: a positive one keeps it monotone.
_LEAST_SLOPE = 1e-3


class MonotoneSVM(BottleneckClassifier):
    """f(h, p) = w_e·φ(h) + w_p·log p + b with an RBF feature map φ and the constraint w_p ≤ 0 (Eq. 4 and 5).

    The problem is convex and has one sign constraint. It is solved without the constraint first, as an SVM with the
    kernel K(h, h') + log p · log p'; if w_p comes out positive, the constraint is active at the optimum, which then
    has w_p = 0: the same problem with the kernel K alone. A logistic curve over the decision values (Platt, 1999)
    turns them into probabilities.
    """

    name: ClassVar[str] = "svm"
    is_monotone: ClassVar[bool] = True

    def __init__(self, seed: int = 0, *, penalty: float = 30.0) -> None:
        super().__init__(seed)
        self._penalty = penalty

    @property
    def slope(self) -> float:
        """w_p of the fitted model."""
        return self._slope

    def _fit(self, h: Floats, log_p: Floats, labels: Ints, weights: Floats) -> None:
        self._scaler = StandardScaler().fit(h)
        self._known = self._scaler.transform(h)
        self._gamma = 1.0 / max(1, h.shape[1])
        in_h = rbf_kernel(self._known, gamma=self._gamma)
        machine = SVC(C=self._penalty, kernel="precomputed")
        machine.fit(in_h + np.outer(log_p, log_p), labels, sample_weight=weights)
        self._slope = float(machine.dual_coef_[0] @ log_p[machine.support_])
        if self._slope > 0:
            machine = SVC(C=self._penalty, kernel="precomputed").fit(in_h, labels, sample_weight=weights)
            self._slope = 0.0
        self._support, self._dual = self._known[machine.support_], machine.dual_coef_[0]
        self._offset = float(machine.intercept_[0])
        decisions = self.decision(h, log_p)
        platt = LogisticRegression(C=1e3).fit(decisions[:, None], labels, sample_weight=weights)
        self._platt = max(_LEAST_SLOPE, float(platt.coef_[0, 0])), float(platt.intercept_[0])

    def decision(self, h: Floats, log_p: Floats) -> Floats:
        """f(h, p) of Eq. 4."""
        kernel = rbf_kernel(self._scaler.transform(h), self._support, gamma=self._gamma)
        return np.asarray(kernel @ self._dual + self._slope * log_p + self._offset)

    def _probability(self, h: Floats, log_p: Floats) -> Floats:
        slope, offset = self._platt
        return np.asarray(1.0 / (1.0 + np.exp(-(slope * self.decision(h, log_p) + offset))))
