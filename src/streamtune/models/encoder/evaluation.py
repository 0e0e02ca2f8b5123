"""How good a bottleneck model is: ranking, decisions, calibration, and the threshold it implies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, f1_score

from streamtune.frozen import Frozen

Floats = npt.NDArray[np.floating]
ProbabilityAt = Callable[[int], Floats]


class Scores(Frozen):
    """What a model scores on runs of jobs it never saw.

    ``threshold_error`` is the median |log(p_recommended / p_true)| over operators that need more than one instance,
    where p_recommended is the least parallelism with a bottleneck probability below one half.
    """

    auc_pr: float
    f1: float
    calibration_error: float
    threshold_error: float | None = None
    threshold_error_p90: float | None = None
    labelled: int
    bottlenecks: int


def score(
    labels: npt.ArrayLike,
    probability: npt.ArrayLike,
    recommended: npt.ArrayLike | None = None,
    needed: npt.ArrayLike | None = None,
) -> Scores:
    """Scores over labelled operators, and over all operators whose true need is given (NaN: not known)."""
    labels, probability = np.asarray(labels), np.asarray(probability)
    known = labels >= 0
    truth, guess = labels[known], probability[known]
    error: Floats | None = None
    if recommended is not None and needed is not None:
        recommended, needed = np.asarray(recommended, dtype=np.float64), np.asarray(needed, dtype=np.float64)
        counted = np.isfinite(needed) & (needed > 1)
        error = np.abs(np.log(recommended[counted] / needed[counted])) if counted.any() else None
    return Scores(
        auc_pr=float(average_precision_score(truth, guess)) if (truth == 1).any() else float("nan"),
        f1=float(f1_score(truth, guess > 0.5, zero_division=0.0)),
        calibration_error=calibration_error(truth, guess),
        threshold_error=None if error is None else float(np.median(error)),
        threshold_error_p90=None if error is None else float(np.quantile(error, 0.9)),
        labelled=int(known.sum()),
        bottlenecks=int((truth == 1).sum()),
    )


def calibration_error(labels: npt.ArrayLike, probability: npt.ArrayLike, bins: int = 10) -> float:
    """Expected calibration error: mean distance of predicted and actual share, weighted by how often each bin occurs.

    >>> calibration_error([0, 1, 1, 1], [0.75, 0.75, 0.75, 0.75])
    0.0
    """
    labels, probability = np.asarray(labels, dtype=np.float64), np.asarray(probability, dtype=np.float64)
    if not len(labels):
        return float("nan")
    place = np.minimum((probability * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins)
    gap = np.abs(
        np.bincount(place, weights=labels, minlength=bins) - np.bincount(place, weights=probability, minlength=bins)
    )
    return float(gap.sum() / count.sum())


def smallest_safe(probability_at: ProbabilityAt, limit: int, threshold: float = 0.5) -> npt.NDArray[np.int64]:
    """For many operators at once: the least p in 1..limit with a probability below ``threshold``, else ``limit``.

    All p are tried, so that a model without a monotone constraint is read by its first crossing.
    """
    crossed = np.stack([np.asarray(probability_at(p)) < threshold for p in range(1, limit + 1)], axis=1)
    return np.where(crossed.any(axis=1), crossed.argmax(axis=1) + 1, limit)
