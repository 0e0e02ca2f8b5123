"""How relatives lend: one common factor behind the operators that correspond to each other.

An operator is what its features predict, plus what sets it apart: w = m + d with d ~ N(0, Σ) over its type. Of two
operators that correspond, d is correlated by ρ, which the history tells for each class of kinship. All relatives of one
operator share one factor f ~ N(0, Σ):

    d_new = a₀ f + e₀,    d_k = a_k f + e_k,    a₀ a_k = ρ_k,    Var(e_k) = (1 − a_k²) Σ

The readings of relative k are known by their sums, so that f, and with it d_new, has a posterior in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_LARGEST_LOADING = 0.999


@dataclass(frozen=True)
class Lender:
    """One relative: precision A = Σxx'/σ² and b = Σx(y − xm)/σ² of its readings, and how it correlates."""

    correlation: float
    precision: Floats
    evidence: Floats


def lend(mean: Floats, covariance: Floats, lenders: Sequence[Lender]) -> tuple[Floats, Floats]:
    """Mean and covariance of the new operator's weights, given its relatives' readings.

    >>> sure = Lender(0.9, np.array([[1e6]]), np.array([1e6]))
    >>> found, spread = lend(np.array([0.0]), np.array([[0.09]]), [sure])
    >>> round(float(found[0]), 2), round(float(spread[0, 0]), 3)
    (0.9, 0.017)
    """
    useful = [one for one in lenders if one.correlation > 0]
    if not useful:
        return mean, covariance
    own = float(np.sqrt(max(one.correlation for one in useful)))
    size = len(mean)
    inverse = np.linalg.inv(covariance)
    precision, evidence = inverse.copy(), np.zeros(size)
    for one in useful:
        loading = min(one.correlation / own, _LARGEST_LOADING)
        apart = inverse / (1 - loading**2)
        through = one.precision @ np.linalg.inv(one.precision + apart)
        precision += loading**2 * (one.precision - through @ one.precision)
        evidence += loading * (one.evidence - through @ one.evidence)
    spread = np.linalg.inv((precision + precision.T) / 2)
    posterior = own**2 * spread + (1 - own**2) * covariance
    return mean + own * (spread @ evidence), (posterior + posterior.T) / 2
