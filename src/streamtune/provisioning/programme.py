"""Eq. 1 in arrays, and its exact dynamic programme over the lattice of count vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.envelope import capacity_limits
from streamtune.provisioning.lattice import Lattice, build_lattice, sweep_epochs, trace_back
from streamtune.provisioning.plans import initial_counts, performances, prices
from streamtune.provisioning.problem import Problem

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_SHARE_BITS = 40
_MOST_PARTS = 5000
_NOTHING = 1e-15  # of the strongest size's performance: what no number of instances makes up for
_BUILDING = 100  # elementary steps to make and sort one vector, per size: about 130 ns


@dataclass(frozen=True)
class Instance:
    """A problem as arrays; sizes are columns."""

    performance: Floats
    price: Floats
    start_cost: float
    stop_cost: float
    workload: Floats
    initial: Counts | None

    @classmethod
    def of(cls, problem: Problem) -> Instance:
        workload = np.array(problem.workload, dtype=np.float64)
        start, stop = problem.start_cost, problem.stop_cost
        performance = performances(problem)
        performance[performance < _NOTHING * performance.max()] = 0.0
        return cls(performance, prices(problem), start, stop, workload, initial_counts(problem))

    @property
    def epochs(self) -> int:
        return len(self.workload)

    @property
    def sizes(self) -> int:
        return len(self.price)

    def in_shares(self) -> tuple[Instance, float]:
        """The same with prices and costs as multiples of one unit, and what that is.

        Whole multiples wherever prices have a common divisor, else so few digits that sums are exact: the same problem
        in other prices has the same plan. Which of two equal ones is taken would else depend on how the products of
        prices happened to be rounded.
        """
        given = np.array([*self.price, self.start_cost, self.stop_cost])
        largest = float(given.max())
        if largest == 0:
            return self, 1.0
        shares = given / largest
        wholes = shares[None, :] * np.arange(1, _MOST_PARTS + 1)[:, None]
        is_whole = (np.abs(wholes - np.round(wholes)) <= 1e-11 * wholes).all(axis=1)
        parts = int(is_whole.argmax()) + 1 if is_whole.any() else 0
        told = np.round(shares * parts) if parts else _rounded(shares)
        replaced = replace(self, price=told[:-2], start_cost=float(told[-2]), stop_cost=float(told[-1]))
        return replaced, largest / max(parts, 1)

    def only(self, columns: Sequence[int] | Counts, workload: Floats | None = None) -> Instance:
        """The same with some of the sizes, and perhaps another workload."""
        chosen = np.asarray(columns, dtype=np.int64)
        return replace(
            self,
            performance=self.performance[chosen],
            price=self.price[chosen],
            workload=self.workload if workload is None else workload,
            initial=None if self.initial is None else self.initial[chosen],
        )

    def cost(self, counts: Counts) -> float:
        """Eq. 1."""
        rows = counts if self.initial is None else np.vstack([self.initial[None, :], counts])
        change = np.diff(rows, axis=0)
        turned = self.start_cost * np.maximum(change, 0).sum() + self.stop_cost * np.maximum(-change, 0).sum()
        return float((counts @ self.price).sum() + turned)

    def limits(self) -> Floats:
        """The capacity limits of an optimal plan, epoch by epoch."""
        return capacity_limits(
            self.workload, self.performance, self.price, self.start_cost, self.stop_cost, self.initial
        )


def _rounded(values: Floats) -> Floats:
    """To so many binary digits that a product by a factor, divided by it again, comes back the same."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**_SHARE_BITS) / 2.0**_SHARE_BITS, exponent))


@dataclass
class Programme:
    """The dynamic programme of an instance over a lattice that was built once."""

    instance: Instance
    limits: Floats
    lattice: Lattice
    run_cost: Floats
    stop_moves: npt.NDArray[np.int8]
    start_moves: npt.NDArray[np.int8]

    @classmethod
    def of(cls, instance: Instance, limits: Floats, most_states: int) -> Programme | None:
        """None where the lattice is larger than ``most_states``."""
        lattice = build_lattice(instance.performance, float(limits.max()), most_states)
        if lattice is None:
            return None
        moves = np.full((2, instance.epochs, len(lattice)), -1, dtype=np.int8)
        return cls(instance, limits, lattice, lattice.states @ instance.price, moves[0], moves[1])

    def solve(self, after: Counts | None = None) -> tuple[float, Counts]:
        """The lowest cost and its counts; ``after`` is what runs once the last epoch is over, where that is fixed."""
        lattice, instance = self.lattice, self.instance
        value = np.zeros(len(lattice))
        if instance.initial is not None:
            value = self._change_cost(lattice.states - instance.initial)
        sweep_epochs(
            lattice.up,
            lattice.down,
            lattice.capacity,
            lattice.excess,
            self.run_cost,
            value,
            instance.workload,
            self.limits,
            float(instance.performance.max()),
            instance.start_cost,
            instance.stop_cost,
            self.stop_moves,
            self.start_moves,
        )
        if after is not None:
            value = value + self._change_cost(after - lattice.states)
        last = int(np.argmin(value))
        path = trace_back(lattice.up, lattice.down, self.stop_moves, self.start_moves, last)
        return float(value[last]), lattice.states[path].astype(np.int64)

    def _change_cost(self, change: npt.NDArray[Any]) -> Floats:
        starts, stops = np.maximum(change, 0).sum(axis=1), np.maximum(-change, 0).sum(axis=1)
        return np.asarray(self.instance.start_cost * starts + self.instance.stop_cost * stops)


def affordable_states(instance: Instance, steps: float, most_bytes: float = 1.5e9) -> int:
    """How large a lattice may be for one solution of about ``steps`` elementary steps, its building included."""
    by_time = steps / ((2 * instance.epochs + _BUILDING) * instance.sizes)
    by_memory = most_bytes / (2 * instance.epochs + 12 * instance.sizes + 32)
    return max(1, int(min(by_time, by_memory)))
