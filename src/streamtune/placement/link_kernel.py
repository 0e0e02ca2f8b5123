# ruff: noqa: NPY002  numba seeds its own generator through the legacy functions alone
"""The search for the placement whose busiest link carries least: simulated annealing over moves and swaps.

What a host sends and what it receives are two links. Moving a task changes those of two hosts only, so a change is
looked at in the time of the task's neighbours. A maximum is flat nearly everywhere: the search follows the 8-norm of
all links instead, which leans on the busiest ones, and keeps the best true maximum that it passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamtune.placement.compilation import kernel
from streamtune.placement.graph import Floats, Ints
from streamtune.placement.packing import host_usage, members_of, transfer

# Of the objective, what the bytes between hosts count beside the busiest link: enough to decide between equal ones.
BYTES_SHARE = 0.01
_COLD = 0.0002
_OVERLOAD_PRICE = 4.0


@kernel
def link_use(indptr: Ints, indices: Ints, sends: Floats, part: Ints, k: int) -> Floats:
    """k × 2: bytes/s that every host sends to and receives from the others."""
    links = np.zeros((k, 2))
    for v in range(part.size):
        a = part[v]
        for at in range(indptr[v], indptr[v + 1]):
            b = part[indices[at]]
            if a != b:
                links[a, 0] += sends[at]
                links[b, 1] += sends[at]
    return links


@kernel
def _eighth(value: float) -> float:
    squared = value * value
    fourth = squared * squared
    return fourth * fourth


@kernel
def _shift(
    v: int, a: int, b: int, indptr: Ints, indices: Ints, sends: Floats, receives: Floats, part: Ints, zones: Ints,
    zone_w: Floats, home: Ints, move_cost: Floats, links: Floats,
) -> float:  # fmt: skip
    """Moves v from a to b in ``links`` alone; returns what the bytes and the move itself add to the objective."""
    change = 0.0
    za, zb = zones[a], zones[b]
    for at in range(indptr[v], indptr[v + 1]):
        g = part[indices[at]]
        out, into = sends[at], receives[at]
        if g != a:
            links[a, 0] -= out
            links[a, 1] -= into
            change -= (out + into) * zone_w[za, zones[g]]
        else:
            links[a, 0] += into
            links[a, 1] += out
        if g != b:
            links[b, 0] += out
            links[b, 1] += into
            change += (out + into) * zone_w[zb, zones[g]]
        else:
            links[b, 0] -= into
            links[b, 1] -= out
    change *= BYTES_SHARE
    if home[v] >= 0:
        change += (move_cost[v] if home[v] != b else 0.0) - (move_cost[v] if home[v] != a else 0.0)
    return change


@kernel
def _overload(used: Floats, limits: Floats, unit: Floats, h: int) -> float:
    over = 0.0
    for c in range(limits.shape[1]):
        if limits[h, c] != np.inf:
            over += max(0.0, used[h, c] - limits[h, c]) / unit[c]
    return over


@kernel
def link_search(
    indptr: Ints, indices: Ints, sends: Floats, receives: Floats, demand: Floats, limits: Floats, unit: Floats,
    zones: Ints, zone_w: Floats, home: Ints, move_cost: Floats, fixed: Any, start: Ints, steps: int, hot: float,
    seed: int,
) -> Ints:  # fmt: skip
    """The best placement within the limits that was seen, by k · (busiest link) + moves + a hundredth of the bytes.

    The start where there was none. Half of all tries take a task of a busy host; a target is a neighbour's host or any.
    Being above a limit costs. ``hot`` is the temperature at first, as a share of the objective.
    """
    np.random.seed(seed)
    n, k = start.size, limits.shape[0]
    part = start.copy()
    best_part = start.copy()
    used, members = host_usage(demand, part, k), members_of(part, k)
    links = link_use(indptr, indices, sends, part, k)
    over, top = 0.0, 0.0
    for h in range(k):
        over += _overload(used, limits, unit, h)
        top = max(top, links[h, 0], links[h, 1])
    side = 0.0  # what bytes and moves have added since the start
    best_value = k * top if over <= 1e-9 else np.inf
    scale, norm, value, busiest = 1.0, 0.0, 0.0, 0
    kept = np.empty((2, 2))
    for step in range(steps):
        if step % 64 == 0:  # afresh now and then: powers that are added and taken away lose digits
            scale = max(links.max(), 1e-300)
            norm, top = 0.0, -1.0
            for h in range(k):
                norm += _eighth(links[h, 0] / scale) + _eighth(links[h, 1] / scale)
                level = max(links[h, 0], links[h, 1]) * (0.7 + 0.3 * np.random.random())
                if level > top and members[0, h] >= 0:
                    busiest, top = h, level
            value = k * scale * norm**0.125
        heat = value * hot * (_COLD / hot) ** (step / steps)
        v = np.random.randint(n)
        if step % 2 == 0 and members[0, busiest] >= 0:
            v = members[0, busiest]
            for _ in range(np.random.randint(16)):
                if members[1, v] >= 0:
                    v = members[1, v]
        if fixed[v]:
            continue
        a, degree = part[v], indptr[v + 1] - indptr[v]
        b = np.random.randint(k)
        if degree > 0 and np.random.random() < 0.5:
            b = part[indices[indptr[v] + np.random.randint(degree)]]
        if a == b:
            continue
        u = -1
        if np.random.random() < 0.5 and members[0, b] >= 0:
            u = members[0, b]
            for _ in range(np.random.randint(16)):
                if members[1, u] >= 0:
                    u = members[1, u]
            if fixed[u]:
                continue
        for i in range(2):
            kept[0, i], kept[1, i] = links[a, i], links[b, i]
        before = _overload(used, limits, unit, a) + _overload(used, limits, unit, b)
        change = _shift(v, a, b, indptr, indices, sends, receives, part, zones, zone_w, home, move_cost, links)
        transfer(v, b, part, members, used, demand)
        if u >= 0:
            change += _shift(u, b, a, indptr, indices, sends, receives, part, zones, zone_w, home, move_cost, links)
            transfer(u, a, part, members, used, demand)
        over_change = _overload(used, limits, unit, a) + _overload(used, limits, unit, b) - before
        new_norm = norm
        for i in range(2):
            new_norm += _eighth(links[a, i] / scale) + _eighth(links[b, i] / scale)
            new_norm -= _eighth(kept[0, i] / scale) + _eighth(kept[1, i] / scale)
        new_value = k * scale * max(new_norm, 0.0) ** 0.125
        worse = new_value - value + change + _OVERLOAD_PRICE * scale * k * over_change
        if worse <= 0 or np.random.random() < np.exp(-worse / max(heat, 1e-300)):
            norm, value, over, side = max(new_norm, 0.0), new_value, over + over_change, side + change
            if over <= 1e-9:
                peak = 0.0
                for h in range(k):
                    peak = max(peak, links[h, 0], links[h, 1])
                reached = k * peak + side
                if reached < best_value - 1e-9 * abs(best_value):
                    best_part[:] = part
                    best_value = reached
        else:
            if u >= 0:
                transfer(u, b, part, members, used, demand)
            transfer(v, a, part, members, used, demand)
            for i in range(2):
                links[a, i], links[b, i] = kept[0, i], kept[1, i]
    return best_part
