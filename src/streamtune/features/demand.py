"""The rate demanded of an operator: source rates carried through the dataflow by selectivities that were seen.

Not a feature of Table I. The paper's encoder has to learn selectivities from types and widths to know what reaches an
operator; a running job shows them (records out over records in), whatever its plan, so the rate that a plan must
sustain can be worked out. Where nothing was measured, the mean of the operator's type stands in.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def seen_selectivity(records_in_per_s: npt.ArrayLike, records_out_per_s: npt.ArrayLike) -> Floats:
    """Records out per record in; NaN where nothing came in or nothing was measured.

    >>> seen_selectivity([10.0, 0.0], [5.0, 0.0]).tolist()
    [0.5, nan]
    """
    taken = np.asarray(records_in_per_s, dtype=np.float64)
    given = np.asarray(records_out_per_s, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(taken > 0, given / taken, np.nan)
    return np.where(np.isfinite(ratio), ratio, np.nan)


def demanded_rates(offered: Floats, selectivity: Floats, edge_source: Indices, edge_target: Indices) -> Floats:
    """What reaches every operator when none is a bottleneck: outputs go to all successors, inputs add up.

    ``offered`` is the rate of a source and 0 elsewhere. As many rounds as the longest path has edges.

    >>> offered, selectivity = np.array([100.0, 0.0, 0.0]), np.array([1.0, 0.5, 1.0])
    >>> demanded_rates(offered, selectivity, np.array([0, 1]), np.array([1, 2])).tolist()
    [100.0, 100.0, 50.0]
    """
    rates = offered
    for _ in range(len(offered)):
        sent = (rates * selectivity)[edge_source]
        carried = offered + np.bincount(edge_target, weights=sent, minlength=len(offered))
        if np.array_equal(carried, rates):
            break
        rates = carried
    return rates
