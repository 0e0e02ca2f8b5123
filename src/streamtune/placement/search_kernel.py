# ruff: noqa: NPY002  numba seeds its own generator through the legacy functions alone
"""The thorough search for small graphs: tabu search over moves and swaps that may cross the limits on its way.

Glover's tabu search with strategic oscillation: being above a limit costs a penalty that rises while the search is
outside and falls while it is inside, so that it passes through tight spots in which no single move or swap is allowed.
Its effort is counted in looked-at changes, not in seconds: the same input gives the same answer on any machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamtune.placement.compilation import kernel
from streamtune.placement.graph import Floats, Ints
from streamtune.placement.packing import host_usage

SAMPLE = 48


@kernel
def _above(used: float, change: float, limit: float, unit: float) -> float:
    """How much a change of a host's use moves what it is above its limit, in fair shares."""
    after, before = used + change - limit, used - limit
    if after <= 0.0 and before <= 0.0:
        return 0.0
    return (max(0.0, after) - max(0.0, before)) / unit


@kernel
def _above_after(used: Floats, limits: Floats, unit: Floats, demand: Floats, v: int, u: int, a: int, b: int) -> float:
    """Change of the overload when v goes from a to b, and u (if ≥ 0) from b to a."""
    change = 0.0
    for c in range(limits.shape[1]):
        shift = demand[v, c] - (demand[u, c] if u >= 0 else 0.0)
        if shift != 0.0:
            change += _above(used[a, c], -shift, limits[a, c], unit[c]) + _above(
                used[b, c], shift, limits[b, c], unit[c]
            )
    return change


@kernel
def _price(
    v: int, h: int, bytes_to: Floats, bytes_to_zone: Floats, zones: Ints, zone_w: Floats, home: Ints, move_cost: Floats
) -> float:
    z = zones[h]
    price = -bytes_to[v, h] * zone_w[z, z]
    for other in range(zone_w.shape[0]):
        price += bytes_to_zone[v, other] * zone_w[z, other]
    if home[v] >= 0 and home[v] != h:
        price += move_cost[v]
    return float(price)


@kernel
def tabu_search(
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    between: Floats,
    demand: Floats,
    limits: Floats,
    unit: Floats,
    zones: Ints,
    zone_w: Floats,
    home: Ints,
    move_cost: Floats,
    fixed: Any,
    start: Ints,
    effort: int,
    patience: int,
    seed: int,
) -> tuple[Ints, float, bool]:
    """The best placement within the limits that was seen, its objective, and whether there was one.

    ``between`` is the dense n × n matrix of bytes, ``unit`` one fair share of each resource (for the penalty).
    """
    np.random.seed(seed)
    n, k, nz = start.size, limits.shape[0], zone_w.shape[0]
    part = start.copy()
    used = host_usage(demand, part, k)
    bytes_to, bytes_to_zone = np.zeros((n, k)), np.zeros((n, nz))
    members, size, slot = np.empty((k, n), np.int64), np.zeros(k, np.int64), np.empty(n, np.int64)
    for v in range(n):
        h = part[v]
        slot[v] = size[h]
        members[h, size[h]] = v
        size[h] += 1
        for at in range(indptr[v], indptr[v + 1]):
            bytes_to[v, part[indices[at]]] += weights[at]
            bytes_to_zone[v, zones[part[indices[at]]]] += weights[at]
    cost, total = 0.0, 0.0
    for v in range(n):
        here = _price(v, part[v], bytes_to, bytes_to_zone, zones, zone_w, home, move_cost)
        moved = move_cost[v] if home[v] >= 0 and home[v] != part[v] else 0.0
        cost += (here - moved) / 2 + moved
        for at in range(indptr[v], indptr[v + 1]):
            total += weights[at] / 2
    above = 0.0
    for h in range(k):
        for c in range(limits.shape[1]):
            if limits[h, c] != np.inf:
                above += max(0.0, used[h, c] - limits[h, c]) / unit[c]
    penalty = max(total, 1e-9) / max(1, n) * 10
    tabu = np.zeros((n, k), np.int64)
    best_part, best_cost, found = part.copy(), np.inf, False
    if above <= 1e-12:
        best_cost, found = cost, True
    looked, step, since, inside, outside = 0, 0, 0, 0, 0
    while looked < effort and since < patience and step < 20 * patience:
        step += 1
        since += 1
        pick_v, pick_u, pick_h, pick_value = -1, -1, -1, np.inf
        pick_cost, pick_above = 0.0, 0.0
        ties = 0
        # Of many tasks a sample is looked at, half of it on a host that is above its limits while there is one.
        full, most, emptiest, least = -1, 0.0, 0, np.inf
        for h in range(k):
            over = 0.0
            for c in range(limits.shape[1]):
                if limits[h, c] != np.inf:
                    over += max(0.0, used[h, c] - limits[h, c]) / unit[c]
            over *= 0.5 + np.random.random()
            if over > most:
                full, most = h, over
            if used[h, 0] / limits[h, 0] < least:
                emptiest, least = h, used[h, 0] / limits[h, 0]
        for number in range(min(n, SAMPLE)):
            if n <= SAMPLE:
                v = number
            elif full >= 0 and number % 2 == 0:
                v = members[full, np.random.randint(size[full])]
            else:
                v = np.random.randint(n)
            if fixed[v]:
                continue
            a = part[v]
            here = _price(v, a, bytes_to, bytes_to_zone, zones, zone_w, home, move_cost)
            for h in range(k):
                # Hosts that v does not talk to cost the same: the emptiest stands for them all.
                if h == a or (bytes_to[v, h] <= 0.0 and h != emptiest and h != home[v] and nz == 1 and n > SAMPLE):
                    continue
                looked += 1
                gain = _price(v, h, bytes_to, bytes_to_zone, zones, zone_w, home, move_cost) - here
                over = _above_after(used, limits, unit, demand, v, -1, a, h)
                value = gain + penalty * over
                better = cost + gain < best_cost - 1e-9 * abs(best_cost) and above + over <= 1e-12
                if (tabu[v, h] < step or better) and value <= pick_value:
                    ties = 1 if value < pick_value else ties + 1
                    if value < pick_value or np.random.randint(ties) == 0:
                        pick_v, pick_u, pick_h, pick_value = v, -1, h, value
                        pick_cost, pick_above = gain, over
                if bytes_to[v, h] <= 0.0 and home[v] != h:
                    continue
                for i in range(size[h]):
                    u = members[h, i]
                    if fixed[u]:
                        continue
                    looked += 1
                    change = gain + 2 * between[v, u] * zone_w[zones[a], zones[h]]
                    change += _price(u, a, bytes_to, bytes_to_zone, zones, zone_w, home, move_cost)
                    change -= _price(u, h, bytes_to, bytes_to_zone, zones, zone_w, home, move_cost)
                    over = _above_after(used, limits, unit, demand, v, u, a, h)
                    value = change + penalty * over
                    better = cost + change < best_cost - 1e-9 * abs(best_cost) and above + over <= 1e-12
                    if ((tabu[v, h] < step and tabu[u, a] < step) or better) and value <= pick_value:
                        ties = 1 if value < pick_value else ties + 1
                        if value < pick_value or np.random.randint(ties) == 0:
                            pick_v, pick_u, pick_h, pick_value = v, u, h, value
                            pick_cost, pick_above = change, over
        if pick_v < 0:
            continue
        a = part[pick_v]
        for turn in range(2 if pick_u >= 0 else 1):
            w, b = (pick_v, pick_h) if turn == 0 else (pick_u, a)
            old = part[w]
            tabu[w, old] = step + 4 + np.random.randint(6)
            last = members[old, size[old] - 1]
            members[old, slot[w]] = last
            slot[last] = slot[w]
            size[old] -= 1
            members[b, size[b]] = w
            slot[w] = size[b]
            size[b] += 1
            part[w] = b
            for c in range(demand.shape[1]):
                used[old, c] -= demand[w, c]
                used[b, c] += demand[w, c]
            for at in range(indptr[w], indptr[w + 1]):
                u = indices[at]
                bytes_to[u, old] -= weights[at]
                bytes_to[u, b] += weights[at]
                bytes_to_zone[u, zones[old]] -= weights[at]
                bytes_to_zone[u, zones[b]] += weights[at]
                if bytes_to[u, old] < 1e-9 * weights[at]:
                    bytes_to[u, old] = 0.0
        cost += pick_cost
        above += pick_above
        if above <= 1e-12:
            inside, outside = inside + 1, 0
            if cost < best_cost - 1e-9 * abs(best_cost) or not found:
                best_part[:] = part
                best_cost, found, since = cost, True, 0
            if inside >= 5:
                penalty, inside = penalty / 1.5, 0
        else:
            outside, inside = outside + 1, 0
            if outside >= 5:
                penalty, outside = penalty * 1.5, 0
    return best_part, best_cost, found
