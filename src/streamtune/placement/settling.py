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
from streamtune.placement.kernels import cost_change
from streamtune.placement.packing import host_usage, members_of, transfer

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
    k = limits.shape[0]
    used = host_usage(demand, part, k)
    conn, conn_z, seen = np.zeros(k), np.zeros(zone_w.shape[0]), np.empty(k, np.int64)
    members = members_of(part, k)
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
                    v = members[0, a]
                    while v >= 0:
                        u = -1 if not fixed[v] else -2
                        first = members[0, h]
                        while u > -2:
                            rest = _overload_with(used, limits, unit, a, demand, u, v)
                            rest += _overload_with(used, limits, unit, h, demand, v, u) - over_h
                            # Healing counts before cost; the cost is worked out only for what could be chosen.
                            if rest <= 1e-12 or rest < best_left:
                                cost = cost_change(
                                    v, a, h, indptr, indices, weights, zones, zone_w, home, move_cost, part,
                                    conn, conn_z, seen,
                                )  # fmt: skip
                                if u >= 0:
                                    cost += cost_change(
                                        u, h, a, indptr, indices, weights, zones, zone_w, home, move_cost, part,
                                        conn, conn_z, seen,
                                    )  # fmt: skip
                                healed = max(rest, 0.0) if rest > 1e-12 else 0.0
                                if healed < best_left or (healed == best_left and cost < best_cost):
                                    best_v, best_u, best_h, best_left, best_cost = v, u, h, healed, cost
                            # On to the next partner: first none, then every member of h that may move.
                            u = first if u == -1 else members[1, u]
                            while u >= 0 and fixed[u]:
                                u = members[1, u]
                            if u == -1:
                                u = -2
                        v = members[1, v]
                if best_v < 0:
                    break
                transfer(best_v, best_h, part, members, used, demand)
                if best_u >= 0:
                    transfer(best_u, a, part, members, used, demand)
                progress = True
        if not progress:
            return False
    for h in range(k):  # noqa: SIM110  numba knows no all()
        if _overload(used, limits, unit, h) > 1e-12:
            return False
    return True
