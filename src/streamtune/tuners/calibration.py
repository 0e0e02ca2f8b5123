"""How wrong reported useful time is, per operator type, learned from operators that were known to be saturated.

An operator labelled 1 (a bottleneck, Algorithm 1 of the StreamTune paper) holds up what stands before it: its input
buffers are full, so it is truly busy all the time. What it reports instead of 1 is the error of its measurement, and,
where keys are skewed, the mean over subtasks of which only the hottest is saturated. The mean over all such operators
of a type is its factor. An engine cuts reported shares at 1, so a type that over-reports shows a factor close to 1
rather than above it: calibration mends optimism, the error that causes backpressure, and little of the pessimism.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Run, RunOperator
from streamtune.errors import TuningError
from streamtune.labels.kernel import BOTTLENECK

MIN_SAMPLES = 5


def fit_calibration(
    types: Sequence[str],
    busy_shares: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    min_samples: int = MIN_SAMPLES,
) -> dict[str, float]:
    """Operator type → mean reported busy share at saturation; types with fewer than ``min_samples`` are left out.

    The three sequences run over operators. Shares that are missing (NaN) or not positive do not count.

    >>> fit_calibration(["map", "map", "map", "sink"], [0.75, 1.0, 0.2, 1.0], [1, 1, 0, 1], min_samples=2)
    {'map': 0.875}
    """
    shares, verdicts = np.asarray(busy_shares, dtype=np.float64), np.asarray(labels)
    if not len(types) == len(shares) == len(verdicts):
        raise TuningError(
            "types, busy shares and labels must be equally many, "
            f"but got {len(types)}, {len(shares)} and {len(verdicts)}"
        )
    if min_samples < 1:
        raise TuningError(f"min_samples must be at least 1, but got {min_samples!r}")
    kinds = np.asarray(types, dtype=np.str_)
    saturated = (verdicts == BOTTLENECK) & np.isfinite(shares) & (shares > 0)
    factors: dict[str, float] = {}
    for kind in sorted(set(types)):
        found = shares[saturated & (kinds == kind)]
        if len(found) >= min_samples:
            factors[kind] = float(found.mean())
    return factors


def calibration_of_runs(
    runs: Iterable[tuple[Run, Mapping[str, int]]], *, min_samples: int = MIN_SAMPLES
) -> dict[str, float]:
    """The same from history records, each with the label of every operator by its id."""
    rows = [
        (operator.type, _busy_share(operator), labels[operator.id])
        for run, labels in runs
        for operator in run.operators
        if operator.id in labels
    ]
    return fit_calibration(
        [kind for kind, _, _ in rows],
        [share for _, share, _ in rows],
        [label for _, _, label in rows],
        min_samples=min_samples,
    )


def _busy_share(operator: RunOperator) -> float:
    times = (operator.busy_ms_per_s, operator.idle_ms_per_s, operator.backpressured_ms_per_s)
    busy, idle, held_up = (float("nan") if time is None else time for time in times)
    total = busy + idle + held_up
    return busy / total if total > 0 else float("nan")
