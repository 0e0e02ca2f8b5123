r"""A lower bound for many sizes: some sizes exactly, the others by Lagrangian relaxation.

Eq. 1's change cost is :math:`u\,\Delta^+ + d\,\Delta^- = \max_{-d \le \mu \le u} \mu \Delta`. For the relaxed sizes we
fix the multipliers: each epoch then covers what the exact sizes leave over by whole instances at the price
:math:`p_r + \mu_{r,t} - \mu_{r,t+1}`, a knapsack whose costs for every remainder come from one table, and the dynamic
programme over the exact sizes adds the table's entry to each vector. Every choice of :math:`\mu` gives a valid bound;
subgradient steps improve it. With the sizes a good plan uses kept exact, little is lost on the rest.

A long horizon is cut into windows by the same means: at a cut the multipliers of all sizes are fixed, the windows part,
and their bounds add up. Each window then keeps its own sizes exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linprog

from streamtune.provisioning.lattice import cover_costs
from streamtune.provisioning.programme import Instance, Programme

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
CELLS = 4000  # the workload's resolution in the tables; performances are rounded up to it, so the bound stays valid


@dataclass(frozen=True)
class LinearRelaxation:
    """Eq. 1 with fractions of instances: a bound (good where they are many), multipliers, and counts rounded up."""

    bound: float
    multipliers: Floats  # epochs − 1 × sizes
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
        return LinearRelaxation(0.0, np.zeros((epochs - 1, sizes)), None)
    counts = np.ceil(found.x[: epochs * sizes].reshape(epochs, sizes) - 1e-7).astype(np.int64)
    multipliers = -np.asarray(found.eqlin.marginals).reshape(epochs - 1, sizes)
    # HiGHS is exact to its tolerances, not to the last digit.
    return LinearRelaxation(float(found.fun) * (1 - 1e-9) - 1e-7, multipliers, counts)


@dataclass
class Relaxation:
    """The bound of one window for one split of the sizes; the multipliers of the relaxed sizes improve step by step."""

    instance: Instance
    exact: list[int]
    relaxed: list[int]
    programme: Programme
    multipliers: Floats  # epochs + 1 × relaxed; the last row is fixed, the first where nothing ran before
    ends: Floats  # 2 × sizes: the fixed multipliers before the first and after the last epoch
    bound: float = -np.inf
    length: float = 1.0
    best: Floats = field(init=False)
    _direction: Floats | None = None
    _stalled: int = 0

    @classmethod
    def of(
        cls, instance: Instance, exact: list[int], limits: Floats, multipliers: Floats, most_states: int
    ) -> Relaxation | None:
        """None where the lattice of the exact sizes is too large. ``multipliers`` is epochs + 1 × all sizes."""
        relaxed = [column for column in range(instance.sizes) if column not in set(exact)]
        programme = Programme.of(instance.only(exact), limits, most_states)
        if programme is None:
            return None
        ends = multipliers[[0, -1]].copy()
        if instance.initial is not None:
            ends[0] = 0.0
        return cls(instance, exact, relaxed, programme, multipliers[:, relaxed].copy(), ends)

    def __post_init__(self) -> None:
        self.best = self.multipliers.copy()
        epochs, performance = self.instance.epochs, self.instance.performance[self.relaxed]
        self._cell = max(float(self.instance.workload.max()), 1e-300) / CELLS
        self._cells = np.ceil(performance / self._cell - 1e-6).astype(np.int64)
        self._needed = np.ceil(self.instance.workload / self._cell - 1e-3).astype(np.int64)
        self._table = np.full((epochs, CELLS + 2), np.inf)
        self._choice = np.zeros((epochs, CELLS + 2), dtype=np.int64)
        # No plan needs more of a size than serves the peak alone (or than runs at the start).
        self._most = np.ceil(self.instance.peak / performance)
        if self.instance.initial is not None:
            self._most = np.maximum(self._most, self.instance.initial[self.relaxed])

    def value_of(self, counts: Counts) -> float:
        """What a plan of this window costs, the fixed multipliers at its ends included: never below the bound."""
        return self.instance.cost(counts) + float(self.ends[0] @ counts[0] - self.ends[1] @ counts[-1])

    def step(self, upper: float) -> Counts:
        """One evaluation and one subgradient step towards ``upper``; gives the relaxed solution's counts."""
        epochs = self.instance.epochs
        price = self.instance.price[self.relaxed] + self.multipliers[:epochs] - self.multipliers[1:]
        negative = np.minimum(price, 0.0)
        if self.relaxed:
            cover_costs(self._cells, np.maximum(price, 0.0), self._needed, self._table, self._choice)
        ends = self.ends[0][self.exact], self.ends[1][self.exact]
        value, chosen = self.programme.solve(self._table if self.relaxed else None, self._cell, ends)
        value += float((negative * self._most).sum())
        if self.instance.initial is not None:
            value -= float(self.multipliers[0] @ self.instance.initial[self.relaxed])
        counts = np.zeros((epochs, self.instance.sizes), dtype=np.int64)
        counts[:, self.exact] = chosen
        if self.relaxed:
            counts[:, self.relaxed] = self._covers(chosen)
        extra = np.where(negative < 0, self._most, 0.0)
        self._move(value, upper, np.asarray(counts[:, self.relaxed] + extra, dtype=np.float64))
        return counts

    def _covers(self, chosen: Counts) -> Counts:
        capacity = chosen @ self.programme.instance.performance
        covers = np.zeros((self.instance.epochs, len(self.relaxed)), dtype=np.int64)
        for epoch in np.flatnonzero(capacity < self.instance.workload * (1 - 1e-9)):
            missing = max(1, int(np.ceil((self.instance.workload[epoch] - capacity[epoch]) / self._cell - 1e-3)))
            while missing > 0:
                size = self._choice[epoch, missing]
                covers[epoch, size] += 1
                missing -= self._cells[size]
        return covers

    def _move(self, value: float, upper: float, used: Floats) -> None:
        if value > self.bound + 1e-6 * abs(value):
            self.bound, self._stalled = value, 0
            self.best = self.multipliers.copy()
        else:
            self._stalled += 1
            if self._stalled >= 4:
                self.length, self._stalled = 0.6 * self.length, 0
                self.multipliers = self.best.copy()
        before = self.instance.initial
        rows = used if before is None else np.vstack([before[self.relaxed][None, :], used])
        slope = np.diff(rows, axis=0)
        norm = float((slope * slope).sum())
        if norm == 0:
            self.length = 0.0  # the relaxed sizes never change: no multiplier can say more
            return
        self._direction = slope if self._direction is None else 0.7 * self._direction + 0.3 * slope
        first = 1 if before is None else 0
        stepped = self.multipliers[first:-1] + self.length * max(upper - value, 0.0) / norm * self._direction
        self.multipliers[first:-1] = np.clip(stepped, -self.instance.stop_cost, self.instance.start_cost)
