r"""A lower bound for many sizes: the dynamic programme over what a plan amounts to, not what it consists of.

The lattice of count vectors :math:`n` is too large for many sizes. Any linear map :math:`\varphi(n)` keeps its steps:
starting or stopping an instance of size r adds or takes :math:`\varphi(e_r)`. So the same two sweeps run over the
images, and each image charges the cheapest vector that it stands for (a state-space relaxation after Christofides,
Mingozzi and Toth, 1981). Every plan is a path there at no higher cost, hence the shortest path is a valid bound.

Here :math:`\varphi(n) = (\sum_r c_r n_r, \sum_r w_r n_r \bmod M)`: capacity in cells, with performances rounded up,
and a check sum. Two vectors are confused only where both agree, and the finer the cells the rarer that is: what is lost
is the freedom to exchange one such vector for the other at no charge. O(epochs · sizes · cells · M).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from streamtune.provisioning.problem import SLACK
from streamtune.provisioning.programme import Instance

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_CELL_TRIALS = 400
_MOST_CELLS = 2.0**53  # more do not fit into any memory, nor, in the end, into an integer


@dataclass(frozen=True)
class Quotient:
    """The images of all vectors that an optimal plan can hold."""

    instance: Instance
    cells: Counts  # of each size
    weights: Counts  # of each size, in the check sum
    modulus: int
    needed: Counts  # cells that each epoch has to have at least
    top: Counts  # cells that each epoch stays below

    @classmethod
    def of(cls, instance: Instance, limits: Floats, images: float, modulus: int, seed: int = 0) -> Quotient:
        """About so many ``images``; limits as :func:`capacity_limits` gives them."""
        performance = instance.performance
        highest = float(limits.max()) + float(performance.max())
        if instance.initial is not None:
            highest = max(highest, float(instance.initial @ performance))
        cell = _fitting_cell(performance, highest * modulus / images)
        cells = np.maximum(1, np.ceil(performance / cell - SLACK)).astype(np.int64)
        stretch = float((cells * cell / performance).max())
        high = np.ceil((limits + performance.max()) / cell * stretch)
        top = np.minimum(high, _MOST_CELLS).astype(np.int64) + 2
        weights = np.random.default_rng(seed).integers(0, modulus, instance.sizes)
        needed = np.ceil(instance.workload / cell * (1 - SLACK) - SLACK).astype(np.int64)
        return cls(instance, cells, weights, modulus, needed, top)

    @property
    def height(self) -> int:
        """Cells that any epoch may have."""
        initial = self.instance.initial
        return int(max(self.top.max(), 0 if initial is None else initial @ self.cells + 1))

    def bound(self) -> float:
        """No plan of the instance costs less."""
        instance = self.instance
        run_cost = run_costs(self.height, self.modulus, self.cells, self.weights, instance.price)
        value = np.where(np.isfinite(run_cost), 0.0, np.inf)
        if instance.initial is not None:
            value[:] = np.inf
            value[int(instance.initial @ self.cells), int(instance.initial @ self.weights) % self.modulus] = 0.0
        sweep_images(
            value,
            run_cost,
            self.cells,
            self.weights,
            instance.start_cost,
            instance.stop_cost,
            self.needed,
            self.top,
            instance.initial is not None,
        )
        # Sums of many numbers err in their last digits.
        return float(value.min()) * (1 - SLACK)


def _fitting_cell(performance: Floats, about: float) -> float:
    """A cell of about this size into which the sizes fit best: what rounding up adds is lost to the bound."""
    trials = about * np.linspace(1.0, 0.8, _CELL_TRIALS)
    added = np.ceil(performance[None, :] / trials[:, None] - SLACK) * trials[:, None] / performance[None, :] - 1
    return float(trials[np.argmin(added.max(axis=1))])


@njit(cache=True, nogil=True)
def run_costs(height: int, modulus: int, cells: np.ndarray, weights: np.ndarray, price: np.ndarray) -> np.ndarray:
    """height × modulus: the price of the cheapest vector with this image; infinite where there is none."""
    cost = np.full((height, modulus), np.inf)
    cost[0, 0] = 0.0
    for x in range(height):
        for size in range(len(cells)):
            y = x - cells[size]
            if y >= 0:
                for h in range(modulus):
                    g = h + weights[size]
                    if g >= modulus:
                        g -= modulus
                    total = cost[y, h] + price[size]
                    if total < cost[x, g]:
                        cost[x, g] = total
    return cost


@njit(cache=True, nogil=True)
def sweep_images(
    value: np.ndarray,  # in: cost of each image before the first epoch; out: after the last
    run_cost: np.ndarray,
    cells: np.ndarray,
    weights: np.ndarray,
    start_cost: float,
    stop_cost: float,
    needed: np.ndarray,
    top: np.ndarray,
    is_running: bool,
) -> None:
    before = value.shape[0]
    for epoch in range(len(needed)):
        high = top[epoch]
        if epoch > 0 or is_running:
            _stops(value, cells, weights, stop_cost, max(high, before))
            _starts(value, cells, weights, start_cost, high)
        for x in range(high):
            if x < needed[epoch]:
                value[x] = np.inf
            else:
                value[x] += run_cost[x]
        if before > high:
            value[high:before] = np.inf
        before = high


@njit(cache=True, nogil=True)
def _stops(value: np.ndarray, cells: np.ndarray, weights: np.ndarray, stop_cost: float, reach: int) -> None:
    modulus = value.shape[1]
    for x in range(reach - 1, -1, -1):
        row = value[x]
        for size in range(len(cells)):
            y = x + cells[size]
            if y >= reach:
                continue
            above, turn = value[y], weights[size]
            for h in range(modulus - turn):
                row[h] = min(row[h], above[h + turn] + stop_cost)
            for h in range(modulus - turn, modulus):
                row[h] = min(row[h], above[h + turn - modulus] + stop_cost)


@njit(cache=True, nogil=True)
def _starts(value: np.ndarray, cells: np.ndarray, weights: np.ndarray, start_cost: float, high: int) -> None:
    modulus = value.shape[1]
    for x in range(high):
        row = value[x]
        for size in range(len(cells)):
            y = x - cells[size]
            if y < 0:
                continue
            below, turn = value[y], weights[size]
            for h in range(modulus - turn):
                row[h + turn] = min(row[h + turn], below[h] + start_cost)
            for h in range(modulus - turn, modulus):
                row[h + turn - modulus] = min(row[h + turn - modulus], below[h] + start_cost)
