"""The exact optimum by mixed-integer programming (HiGHS), for small graphs: the yardstick of the tests."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from streamtune.placement.graph import Floats, Ints, PlacementError
from streamtune.placement.interface import surroundings
from streamtune.placement.problem import Placement, Problem
from streamtune.placement.quiet import quiet_stdout

_MOST_CELLS = 4_000


class _Rows:
    """Sparse rows of a linear programme, one at a time."""

    def __init__(self) -> None:
        self.row: list[int] = []
        self.column: list[int] = []
        self.value: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        number = len(self.low)
        for column, value in terms:
            self.row.append(number)
            self.column.append(column)
            self.value.append(value)
        self.low.append(low)
        self.high.append(high)

    def constraint(self, columns: int) -> Any:
        from scipy.optimize import LinearConstraint
        from scipy.sparse import csr_array

        matrix = csr_array((self.value, (self.row, self.column)), shape=(len(self.low), columns))
        return LinearConstraint(matrix, self.low, self.high)


def _solve(cost: Floats, rows: _Rows, integer: Floats, upper: Floats, seconds: float, gap: float) -> Any:
    from scipy.optimize import Bounds, milp

    with quiet_stdout():
        return milp(
            cost,
            constraints=rows.constraint(cost.size),
            integrality=integer,
            bounds=Bounds(np.zeros(cost.size), upper),
            options={"time_limit": seconds, "mip_rel_gap": gap},
        )


def _one_host_each(problem: Problem, rows: _Rows) -> None:
    n, k = len(problem.graph), len(problem.hosts)
    for v in range(n):
        rows.add([(v * k + h, 1.0) for h in range(k)], 1, 1)
        if problem.pinned[v] >= 0:
            rows.add([(v * k + int(problem.pinned[v]), 1.0)], 1, 1)
    for h in range(k):
        if not problem.usable[h]:
            rows.add([(v * k + h, 1.0) for v in range(n)], 0, 0)
        elif np.isfinite(problem.hosts.memory_mb[h]):
            rows.add([(v * k + h, float(problem.graph.memory_mb[v])) for v in range(n)], 0, problem.hosts.memory_mb[h])


def balance_by_milp(problem: Problem, good_enough: float, seconds: float) -> Ints | None:
    """A placement with the least imbalance (found within the time), or None. A better one than needed is not sought."""
    n, k = len(problem.graph), len(problem.hosts)
    rows = _Rows()
    _one_host_each(problem, rows)
    level = n * k
    for h in np.flatnonzero(problem.usable):
        terms = [(v * k + int(h), float(problem.graph.loads[v])) for v in range(n)]
        rows.add([*terms, (level, -float(problem.fair_share[h]))], -np.inf, 0)
    rows.add([(level, 1.0)], good_enough if np.isfinite(good_enough) else 0.0, np.inf)
    cost, integer, upper = np.zeros(level + 1), np.ones(level + 1), np.ones(level + 1)
    cost[level], integer[level], upper[level] = 1.0, 0.0, np.inf
    result = _solve(cost, rows, integer, upper, seconds, 1e-9)
    return None if result.x is None else _assignment(result.x, n, k)


def _assignment(x: Floats, n: int, k: int) -> Ints:
    chosen: Ints = np.argmax(x[: n * k].reshape(n, k), axis=1).astype(np.int64)
    return chosen


class Exact:
    """Minimises the objective under the limits by MILP; ``target`` fixes the imbalance, otherwise the reachable one."""

    name = "exact"

    def __init__(self, target: float | None = None, seconds: float = 60.0) -> None:
        self.target = target
        self.seconds = seconds

    def place(self, problem: Problem) -> Placement:
        from streamtune.placement.balance import reachable_balance

        start = time.perf_counter()
        n, k = len(problem.graph), len(problem.hosts)
        pairs = len(problem.graph.adjacency.indices) // 2
        if (n + pairs) * k > _MOST_CELLS:
            raise PlacementError(
                f"scheduler 'exact' is for small graphs, but got {n} tasks and {pairs} pairs on {k} hosts: use 'ours'"
            )
        if self.target is None:
            balance = reachable_balance(problem)
            target, notes = balance.target, () if balance.note is None else (balance.note,)
        else:
            target, notes = self.target, ()
        part, proven = self._solve(problem, target)
        if not proven:
            notes = (*notes, f"not proven optimal within {self.seconds:g} s")
        notes = (*notes, *surroundings(problem))
        return problem.place(part, self.name, time.perf_counter() - start, notes=notes)

    def _solve(self, problem: Problem, target: float) -> tuple[Ints, bool]:
        """x[v, h] places v; for every pair and host, y[e, h, g] ≥ x[u, h] + x[v, g] − 1 would be the textbook form.

        One host price matrix D with D[h, h] = 0 and equal off-diagonals needs only d[e] ≥ x[u, h] − x[v, h]; with
        zones, one flow y[e, h, g] per pair whose margins are x[u] and x[v] gives the tight transport form.
        """
        n, k = len(problem.graph), len(problem.hosts)
        adjacency = problem.graph.adjacency
        rows = _Rows()
        _one_host_each(problem, rows)
        limits = problem.limits(target)
        for h in np.flatnonzero(problem.usable):
            terms = [(v * k + int(h), float(problem.graph.loads[v])) for v in range(n)]
            rows.add(terms, 0, float(limits[h, 0]))
        cost = [self._move_price(problem, v, h) for v in range(n) for h in range(k)]
        owner = np.repeat(np.arange(n), np.diff(adjacency.indptr))
        uniform = problem.hosts.zone_weights.shape[0] == 1
        for u, v, w in zip(owner.tolist(), adjacency.indices.tolist(), adjacency.weights.tolist(), strict=True):
            if u < v:
                (self._cut if uniform else self._transport)(problem, rows, cost, u, v, w)
        integer = np.zeros(len(cost))
        integer[: n * k] = 1
        result = _solve(np.array(cost), rows, integer, np.ones(len(cost)), self.seconds, 1e-9)
        if result.x is None:
            raise PlacementError(f"HiGHS found no placement within imbalance {target:g}: {result.message}")
        return _assignment(result.x, n, k), bool(result.success)

    @staticmethod
    def _move_price(problem: Problem, v: int, h: int) -> float:
        home = int(problem.home[v])
        return float(problem.move_cost[v]) if home >= 0 and home != h else 0.0

    @staticmethod
    def _cut(problem: Problem, rows: _Rows, cost: list[float], u: int, v: int, w: float) -> None:
        k, column = len(problem.hosts), len(cost)
        cost.append(w)
        for h in range(k):
            rows.add([(column, 1.0), (u * k + h, -1.0), (v * k + h, 1.0)], 0, np.inf)

    @staticmethod
    def _transport(problem: Problem, rows: _Rows, cost: list[float], u: int, v: int, w: float) -> None:
        k, first = len(problem.hosts), len(cost)
        zones, weight = problem.hosts.zones, problem.hosts.zone_weights
        for h in range(k):
            cost.extend(0.0 if h == g else w * float(weight[zones[h], zones[g]]) for g in range(k))
        for h in range(k):
            rows.add([*[(first + h * k + g, 1.0) for g in range(k)], (u * k + h, -1.0)], 0, 0)
            rows.add([*[(first + g * k + h, 1.0) for g in range(k)], (v * k + h, -1.0)], 0, 0)
