# ruff: noqa: NPY002  numba seeds its own generator through the legacy functions alone
"""Brings hosts that are above a limit below it where single moves cannot: by swaps with hosts picked at random.

On a cluster whose hosts hold a handful of tasks each, a full host has no room for one more task anywhere, but there is
nearly always another host with which a heavier task can be changed for a lighter one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamtune.placement.compilation import kernel
from streamtune.placement.graph import Floats, Ints
from streamtune.placement.kernels import _clear, _connect, _cost_at
from streamtune.placement.packing import host_usage

CANDIDATES = 48
ATTEMPTS = 12


@kernel
def _overload(used: Floats, limits: Floats, unit: Floats, h: int) -> float:
    over = 0.0
    for c in range(limits.shape[1]):
        if limits[h, c] != np.inf:
            over += max(0.0, used[h, c] - limits[h, c]) / unit[c]
    return over


@kernel
def _overload_with(used: Floats, limits: Floats, unit: Floats, h: int, demand: Floats, v: int, u: int) -> float:
    """The overload of h with v added (if ≥ 0) and u taken away (if ≥ 0)."""
    over = 0.0
    for c in range(limits.shape[1]):
        if limits[h, c] != np.inf:
            load = used[h, c] + (demand[v, c] if v >= 0 else 0.0) - (demand[u, c] if u >= 0 else 0.0)
            over += max(0.0, load - limits[h, c]) / unit[c]
    return over


@kernel
def _transfer(v: int, b: int, part: Ints, head: Ints, after: Ints, before: Ints, used: Floats, demand: Floats) -> None:
    a = part[v]
    if before[v] >= 0:
        after[before[v]] = after[v]
    else:
        head[a] = after[v]
    if after[v] >= 0:
        before[after[v]] = before[v]
    before[v] = -1
    after[v] = head[b]
    if head[b] >= 0:
        before[head[b]] = v
    head[b] = v
    for c in range(demand.shape[1]):
        used[a, c] -= demand[v, c]
        used[b, c] += demand[v, c]
    part[v] = b


@kernel
def settle(
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    demand: Floats,
    limits: Floats,
    unit: Floats,
    zones: Ints,
    zone_w: Floats,
    home: Ints,
    move_cost: Floats,
    fixed: Any,
    part: Ints,
    rounds: int,
    seed: int,
) -> bool:
    """Moves and swaps that lower the overload of full hosts, the cheapest that heals it first; True when none is left.

    ``unit`` is a fair share of each resource. Candidates are a sample of hosts and the emptiest ones of the round.
    """
    np.random.seed(seed)
    n, k = part.size, limits.shape[0]
    used = host_usage(demand, part, k)
    conn, conn_z, seen = np.zeros(k), np.zeros(zone_w.shape[0]), np.empty(k, np.int64)
    conn2, conn2_z, seen2 = np.zeros(k), np.zeros(zone_w.shape[0]), np.empty(k, np.int64)
    head, after, before = np.full(k, -1, np.int64), np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for v in range(n):
        h = part[v]
        after[v] = head[h]
        if head[h] >= 0:
            before[head[h]] = v
        head[h] = v
    level = np.empty(k)
    for _ in range(rounds):
        left = 0
        for h in range(k):
            level[h] = used[h, 0] / limits[h, 0]
            if _overload(used, limits, unit, h) > 1e-12:
                left += 1
        if left == 0:
            return True
        empty = np.argsort(level)[: min(k, CANDIDATES)]
        progress = False
        for a in np.random.permutation(k):
            for _attempt in range(ATTEMPTS):
                over_a = _overload(used, limits, unit, a)
                if over_a <= 1e-12:
                    break
                best_v, best_u, best_h, best_left, best_cost = -1, -1, -1, over_a * (1 - 1e-9), np.inf
                for pick in range(2 * CANDIDATES):
                    h = empty[pick] if pick < empty.size else np.random.randint(k)
                    if h == a:
                        continue
                    over_h = _overload(used, limits, unit, h)
                    v = head[a]
                    while v >= 0:
                        u = -1 if not fixed[v] else -2
                        first = head[h]
                        while u > -2:
                            rest = _overload_with(used, limits, unit, a, demand, u, v)
                            rest += _overload_with(used, limits, unit, h, demand, v, u) - over_h
                            # Healing counts before cost; the cost is worked out only for what could be chosen.
                            if rest <= 1e-12 or rest < best_left:
                                count = _connect(v, indptr, indices, weights, part, zones, conn, conn_z, seen)
                                cost = _cost_at(v, h, conn, conn_z, zones, zone_w, home, move_cost)
                                cost -= _cost_at(v, a, conn, conn_z, zones, zone_w, home, move_cost)
                                _clear(count, zones, conn, conn_z, seen)
                                if u >= 0:
                                    count = _connect(u, indptr, indices, weights, part, zones, conn2, conn2_z, seen2)
                                    cost += _cost_at(u, a, conn2, conn2_z, zones, zone_w, home, move_cost)
                                    cost -= _cost_at(u, h, conn2, conn2_z, zones, zone_w, home, move_cost)
                                    _clear(count, zones, conn2, conn2_z, seen2)
                                healed = max(rest, 0.0) if rest > 1e-12 else 0.0
                                if healed < best_left or (healed == best_left and cost < best_cost):
                                    best_v, best_u, best_h, best_left, best_cost = v, u, h, healed, cost
                            # On to the next partner: first none, then every member of h that may move.
                            u = first if u == -1 else after[u]
                            while u >= 0 and fixed[u]:
                                u = after[u]
                            if u == -1:
                                u = -2
                        v = after[v]
                if best_v < 0:
                    break
                _transfer(best_v, best_h, part, head, after, before, used, demand)
                if best_u >= 0:
                    _transfer(best_u, a, part, head, after, before, used, demand)
                progress = True
        if not progress:
            return False
    for h in range(k):  # noqa: SIM110  numba knows no all()
        if _overload(used, limits, unit, h) > 1e-12:
            return False
    return True
