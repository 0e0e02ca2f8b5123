"""Records out per record in: worked out here, for Spark batches, for cost models and for tuners alike."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import OperatorMetrics

Floats = npt.NDArray[np.float64]

# The same as a column of Spark SQL, for aggregates over a table of operators: null instead of NaN.
SELECTIVITY_SQL = "CASE WHEN records_in_per_s > 0 THEN records_out_per_s / records_in_per_s END"


def observed_selectivity(records_in_per_s: npt.ArrayLike, records_out_per_s: npt.ArrayLike) -> Floats:
    """Records out per record in; NaN where nothing came in or nothing was measured.

    >>> observed_selectivity([10.0, 0.0], [5.0, 0.0]).tolist()
    [0.5, nan]
    """
    taken = np.asarray(records_in_per_s, dtype=np.float64)
    given = np.asarray(records_out_per_s, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(taken > 0, given / taken, np.nan)
    return np.where(np.isfinite(ratio), ratio, np.nan)


def selectivity(metrics: OperatorMetrics, default: float = 1.0) -> float:
    """The selectivity of one operator over one window; ``default`` where it was not measured."""
    ratio = float(observed_selectivity(metrics.records_in_per_s, metrics.records_out_per_s))
    return ratio if math.isfinite(ratio) else default
