"""Eq. 1 with fractions of instances: a lower bound that is good where instances are many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linprog

from streamtune.provisioning.programme import Instance

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LinearRelaxation:
    """The bound, and the counts rounded up."""

    bound: float
    counts: Counts | None


def relax_linearly(instance: Instance, seconds: float) -> LinearRelaxation:
    """Solve it by HiGHS; where the time does not suffice, nothing is known. What ran before is left out of it."""
    epochs, sizes = instance.epochs, instance.sizes
    changes = (epochs - 1) * sizes
    cost = np.concatenate(
        [np.tile(instance.price, epochs), np.full(changes, instance.start_cost), np.full(changes, instance.stop_cost)]
    )
    later = sparse.eye_array(changes, epochs * sizes, k=sizes)
    difference = later - sparse.eye_array(changes, epochs * sizes)
    equal = sparse.hstack([difference, -sparse.eye_array(changes), sparse.eye_array(changes)], format="csr")
    served = sparse.kron(sparse.eye_array(epochs), -instance.performance.reshape(1, -1))
    at_most = sparse.hstack([served, sparse.csr_array((epochs, 2 * changes))], format="csr")
    found = linprog(
        cost,
        A_ub=at_most,
        b_ub=-instance.workload,
        A_eq=equal,
        b_eq=np.zeros(changes),
        method="highs",
        options={"time_limit": max(seconds, 0.1)},
    )
    if found.status != 0:
        return LinearRelaxation(0.0, None)
    counts = np.ceil(found.x[: epochs * sizes].reshape(epochs, sizes) - 1e-7).astype(np.int64)
    # HiGHS is exact to its tolerances, not to the last digit.
    return LinearRelaxation(float(found.fun) * (1 - 1e-9) - 1e-7, counts)
