"""``BottleneckClassifier``: the interface of M_f, and the search for the least parallelism it calls safe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from streamtune.errors import TuningError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class BottleneckClassifier(ABC):
    """The probability that an operator with vector h is a bottleneck at parallelism p (StreamTune Section IV-B).

    Parallelism enters as log p: capacity is close to proportional to p, so equal steps of log p are equal steps of
    load. ``is_monotone`` promises that the probability never rises with p.
    """

    name: ClassVar[str]
    is_monotone: ClassVar[bool]

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._only_class: int | None = None

    def fit(
        self,
        vectors: npt.ArrayLike,
        parallelism: npt.ArrayLike,
        labels: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn from N operators: vectors N × d, parallelism N, labels N (0 or 1), weights N."""
        h, degrees, truth = np.asarray(vectors, float), np.asarray(parallelism, float), np.asarray(labels, int)
        if h.ndim != 2 or not len(h) == len(degrees) == len(truth) > 0:
            raise TuningError(f"need N × d vectors with N degrees and labels, but got {h.shape}, {len(degrees)}")
        if not np.isin(truth, (0, 1)).all():
            raise TuningError("labels must be 0 or 1: leave unlabelled operators out")
        share = np.ones(len(h)) if weights is None else np.asarray(weights, float)
        classes = np.unique(truth)
        self._only_class = int(classes[0]) if len(classes) == 1 else None
        if self._only_class is None:
            self._fit(h, np.log(degrees), truth, share)
        return self

    def probability(self, vectors: npt.ArrayLike, parallelism: npt.ArrayLike) -> Floats:
        """The probability of being a bottleneck, N."""
        h, degrees = np.asarray(vectors, float), np.asarray(parallelism, float)
        if self._only_class is not None:
            return np.full(len(h), float(self._only_class))
        return self._probability(h, np.log(degrees))

    @abstractmethod
    def _fit(self, h: Floats, log_p: Floats, labels: Ints, weights: Floats) -> None: ...

    @abstractmethod
    def _probability(self, h: Floats, log_p: Floats) -> Floats: ...


@dataclass(frozen=True)
class SafeDegrees:
    """The least safe parallelism of N operators; where none up to the limit is safe, the limit and not reached."""

    degrees: Ints
    reached: npt.NDArray[np.bool_]


def smallest_safe(
    model: BottleneckClassifier, vectors: npt.ArrayLike, p_max: int, threshold: float = 0.5
) -> SafeDegrees:
    """min{p ≤ p_max | probability < threshold} for every vector, by binary search (Algorithm 2, line 8).

    A model without the monotone property is searched in the same way, as the paper's ablation does: what is found
    is then a crossing, not always the first.
    """
    h = np.asarray(vectors, float)
    low, high = np.ones(len(h), dtype=np.int64), np.full(len(h), p_max, dtype=np.int64)
    reached = model.probability(h, high) < threshold
    while (low < high).any():
        middle = (low + high) // 2
        safe = model.probability(h, middle) < threshold
        high = np.where(safe, middle, high)
        low = np.where(safe, low, np.minimum(middle + 1, high))
    return SafeDegrees(np.where(reached, high, p_max), reached)
