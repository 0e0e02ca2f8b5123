r"""QCESA, Algorithm 2 of the paper, as a layered dynamic programme over its candidates.

As printed the recursion does not minimise Eq. 1: the cost of the chosen epoch is never added, the base cases ignore
load and stop cost, one branch returns a resource instead of a plan, the empty list has no case, open bounds leave the
peak without a candidate, and nothing is remembered between calls. What the text says is kept: the candidates of epoch t
are the combinations of instances with total performance in :math:`[W_t, W_{max}]`, and dynamic programming finds the
cheapest sequence. Where no combination falls into the interval (:math:`W_t` close to :math:`W_{max}`), those that
exceed :math:`W_{max}` by less than their strongest instance stand in, or the epoch could not be served.
``docs/explanation/decisions.md`` has each point.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
from numba import njit

from streamtune.provisioning.lattice import Lattice, build_lattice
from streamtune.provisioning.plans import ProvisionPlan, checked_plan
from streamtune.provisioning.problem import SLACK, Problem, ProvisioningError
from streamtune.provisioning.programme import Instance

Floats = npt.NDArray[np.float64]
MOST_CANDIDATES = 2_000_000
_MOST_BYTES = 4e9


def plan_qcesa(problem: Problem, most: int = MOST_CANDIDATES) -> ProvisionPlan:
    """The paper's plan: optimal among its candidates, which leave the optimum of Eq. 1 out now and then.

    More than ``most`` candidates are refused.
    """
    begun = time.perf_counter()
    instance = Instance.of(problem).in_shares()[0]
    usable = [column for column in range(instance.sizes) if instance.performance[column] > 0]
    counts = np.zeros((instance.epochs, instance.sizes), dtype=np.int64)
    if instance.workload.max() > 0:
        part = instance.only(usable)
        counts[:, usable] = _sequence(part, _candidates(part, min(most, MOST_CANDIDATES)))
    return checked_plan(problem, counts, "qcesa", 0.0, time.perf_counter() - begun)


def _candidates(instance: Instance, most: int) -> Lattice:
    """All combinations up to the peak, and one instance beyond."""
    peak = float(instance.workload.max())
    lattice = build_lattice(instance.performance, peak, most)
    if lattice is None or 2.0 * instance.epochs * len(lattice) > _MOST_BYTES:
        raise ProvisioningError(
            f"qcesa: {instance.sizes} sizes at a peak of {peak:g} records/s have too many candidates for Algorithm 2: "
            "use --method exact, or fewer sizes"
        )
    return lattice


def _sequence(instance: Instance, lattice: Lattice) -> npt.NDArray[np.int64]:
    peak = float(instance.workload.max())
    value = np.zeros(len(lattice))
    if instance.initial is not None:
        change = lattice.states - instance.initial
        value = instance.start_cost * np.maximum(change, 0).sum(axis=1)
        value = value + instance.stop_cost * np.maximum(-change, 0).sum(axis=1)
    running = lattice.states @ instance.price
    is_within = lattice.capacity <= peak * (1 + SLACK)
    moves = np.full((2, instance.epochs, len(lattice)), -1, dtype=np.int8)
    for epoch in range(instance.epochs):
        if epoch:
            start, stop = instance.start_cost, instance.stop_cost
            _change(lattice.up, lattice.down, value, start, stop, moves[0, epoch], moves[1, epoch])
        serves = lattice.capacity >= instance.workload[epoch] * (1 - SLACK)
        allowed = serves & is_within if (serves & is_within).any() else serves
        value = np.where(allowed, value + running, np.inf)
    last = int(np.argmin(value))
    path = np.empty(instance.epochs, dtype=np.int64)
    for epoch in range(instance.epochs - 1, -1, -1):
        path[epoch] = last
        while moves[1, epoch, last] >= 0:
            last = int(lattice.down[last, moves[1, epoch, last]])
        while moves[0, epoch, last] >= 0:
            last = int(lattice.up[last, moves[0, epoch, last]])
    return lattice.states[path].astype(np.int64)


@njit(cache=True, nogil=True)
def _change(
    up: np.ndarray,
    down: np.ndarray,
    value: np.ndarray,
    start_cost: float,
    stop_cost: float,
    stop_moves: np.ndarray,
    start_moves: np.ndarray,
) -> None:
    """The cheapest change from any candidate of one epoch to any of the next (Eq. 2 and 3)."""
    count, sizes = up.shape
    for i in range(count - 1, -1, -1):
        for size in range(sizes):
            j = up[i, size]
            if j >= 0 and value[j] + stop_cost < value[i]:
                value[i] = value[j] + stop_cost
                stop_moves[i] = size
    for i in range(count):
        for size in range(sizes):
            j = down[i, size]
            if j >= 0 and value[j] + start_cost < value[i]:
                value[i] = value[j] + start_cost
                start_moves[i] = size
