"""Kernels that improve a placement and must be fast at a million tasks: moves, swaps, relief of full hosts.

Compiled by numba once per machine and kept on disk. Shapes: n tasks, k hosts, two resources (load and memory).
The cost of task v on host h is Σ over its neighbours' hosts g ≠ h of bytes · weight(zone of h, zone of g), plus
the price of moving it when h is not where it runs today.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamtune.placement.compilation import kernel
from streamtune.placement.graph import Floats, Ints
from streamtune.placement.packing import host_usage, members_of, transfer

TOLERANCE = 1e-9
SWAP_CANDIDATES = 64


@kernel
def total_cost(
    indptr: Ints, indices: Ints, weights: Floats, zones: Ints, zone_w: Floats, home: Ints, move_cost: Floats, part: Ints
) -> float:
    """The objective: weighted remote bytes/s, each pair once, and the price of moves."""
    twice = 0.0
    moves = 0.0
    for v in range(part.size):
        a = part[v]
        for at in range(indptr[v], indptr[v + 1]):
            b = part[indices[at]]
            if a != b:
                twice += weights[at] * zone_w[zones[a], zones[b]]
        if home[v] >= 0 and home[v] != a:
            moves += move_cost[v]
    return twice / 2 + moves


@kernel
def _fits(used: Floats, limits: Floats, demand: Floats, v: int, h: int) -> bool:
    for c in range(limits.shape[1]):  # noqa: SIM110  numba knows no all()
        if used[h, c] + demand[v, c] > limits[h, c] and demand[v, c] > 0:
            return False
    return True


@kernel
def _connect(
    v: int,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    part: Ints,
    zones: Ints,
    conn: Floats,
    conn_z: Floats,
    seen: Ints,
) -> int:
    """Adds up what v exchanges with every host and zone; returns how many hosts are in ``seen``."""
    count = 0
    for at in range(indptr[v], indptr[v + 1]):
        h = part[indices[at]]
        if h < 0:
            continue
        if conn[h] == 0.0:
            seen[count] = h
            count += 1
        conn[h] += weights[at]
        conn_z[zones[h]] += weights[at]
    return count


@kernel
def _clear(count: int, zones: Ints, conn: Floats, conn_z: Floats, seen: Ints) -> None:
    for i in range(count):
        conn[seen[i]] = 0.0
        conn_z[zones[seen[i]]] = 0.0


@kernel
def _cost_at(
    v: int, h: int, conn: Floats, conn_z: Floats, zones: Ints, zone_w: Floats, home: Ints, move_cost: Floats
) -> float:
    z = zones[h]
    cost = -conn[h] * zone_w[z, z]
    for other in range(zone_w.shape[0]):
        cost += conn_z[other] * zone_w[z, other]
    if home[v] >= 0 and home[v] != h:
        cost += move_cost[v]
    return float(cost)


@kernel
def place_missing(
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    demand: Floats,
    limits: Floats,
    zones: Ints,
    zone_w: Floats,
    home: Ints,
    move_cost: Floats,
    part: Ints,
    order: Ints,
) -> None:
    """Puts tasks without a host (−1) where they cost least and still fit, else onto the relatively emptiest host."""
    n, k = part.size, limits.shape[0]
    used = np.zeros((k, demand.shape[1]))
    for v in range(n):
        if part[v] >= 0:
            for c in range(demand.shape[1]):
                used[part[v], c] += demand[v, c]
    conn, conn_z, seen = np.zeros(k), np.zeros(zone_w.shape[0]), np.empty(k, np.int64)
    for v in order:
        if part[v] >= 0:
            continue
        count = _connect(v, indptr, indices, weights, part, zones, conn, conn_z, seen)
        best, best_cost, best_level = -1, np.inf, np.inf
        roomiest, lowest = 0, np.inf
        for h in range(k):
            level = (used[h, 0] + demand[v, 0]) / limits[h, 0]
            over = max(0.0, used[h, 1] + demand[v, 1] - limits[h, 1])
            if over > 0:
                level += 1e6 + over
            if level < lowest:
                roomiest, lowest = h, level
            if not _fits(used, limits, demand, v, h):
                continue
            cost = _cost_at(v, h, conn, conn_z, zones, zone_w, home, move_cost)
            if cost < best_cost or (cost == best_cost and level < best_level):
                best, best_cost, best_level = h, cost, level
        _clear(count, zones, conn, conn_z, seen)
        if best < 0:
            best = roomiest
        part[v] = best
        for c in range(demand.shape[1]):
            used[best, c] += demand[v, c]


@kernel
def relieve(
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    demand: Floats,
    limits: Floats,
    zones: Ints,
    zone_w: Floats,
    home: Ints,
    move_cost: Floats,
    fixed: Any,
    part: Ints,
    rounds: int,
) -> bool:
    """Moves tasks off hosts that are above a limit, cheapest per load first; True when none is left above."""
    n, k = part.size, limits.shape[0]
    used = host_usage(demand, part, k)
    conn, conn_z, seen = np.zeros(k), np.zeros(zone_w.shape[0]), np.empty(k, np.int64)
    for _ in range(rounds):
        over = np.zeros(k, np.bool_)
        any_over = False
        for h in range(k):
            for c in range(demand.shape[1]):
                if used[h, c] > limits[h, c]:
                    over[h] = True
                    any_over = True
        if not any_over:
            return True
        # The hosts with most room, a few of them, as targets for tasks whose neighbours' hosts are full.
        room = np.empty(k)
        for h in range(k):
            room[h] = used[h, 0] / limits[h, 0]
        spare = np.argsort(room)[: min(k, 16)]
        members = 0
        for v in range(n):
            if over[part[v]] and not fixed[v]:
                members += 1
        who, goal, price = np.empty(members, np.int64), np.empty(members, np.int64), np.empty(members)
        at = 0
        for v in range(n):
            a = part[v]
            if not over[a] or fixed[v]:
                continue
            count = _connect(v, indptr, indices, weights, part, zones, conn, conn_z, seen)
            stay = _cost_at(v, a, conn, conn_z, zones, zone_w, home, move_cost)
            best, best_cost = -1, np.inf
            for i in range(count + spare.size):
                h = seen[i] if i < count else spare[i - count]
                if h == a or not _fits(used, limits, demand, v, h):
                    continue
                cost = _cost_at(v, h, conn, conn_z, zones, zone_w, home, move_cost)
                if cost < best_cost:
                    best, best_cost = h, cost
            _clear(count, zones, conn, conn_z, seen)
            who[at] = v
            goal[at] = best
            price[at] = (best_cost - stay) / max(demand[v, 0], 1e-300) if best >= 0 else np.inf
            at += 1
        moved = False
        for i in np.argsort(price):
            v, h = who[i], goal[i]
            if h < 0:
                break
            a = part[v]
            above = False
            for c in range(demand.shape[1]):
                above = above or used[a, c] > limits[a, c]
            if not above or not _fits(used, limits, demand, v, h):
                continue
            for c in range(demand.shape[1]):
                used[a, c] -= demand[v, c]
                used[h, c] += demand[v, c]
            part[v] = h
            moved = True
        if not moved:
            return False
    for h in range(k):
        for c in range(demand.shape[1]):
            if used[h, c] > limits[h, c]:
                return False
    return True


@kernel
def cost_change(
    v: int,
    a: int,
    h: int,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    zones: Ints,
    zone_w: Floats,
    home: Ints,
    move_cost: Floats,
    part: Ints,
    conn: Floats,
    conn_z: Floats,
    seen: Ints,
) -> float:
    """What the objective changes by when v goes from host a to host h and nothing else moves."""
    count = _connect(v, indptr, indices, weights, part, zones, conn, conn_z, seen)
    change = _cost_at(v, h, conn, conn_z, zones, zone_w, home, move_cost)
    change -= _cost_at(v, a, conn, conn_z, zones, zone_w, home, move_cost)
    _clear(count, zones, conn, conn_z, seen)
    return float(change)


@kernel
def _swap_fits(used: Floats, limits: Floats, demand: Floats, v: int, a: int, u: int, h: int) -> bool:
    """Whether v from a and u from h can change places."""
    for c in range(limits.shape[1]):
        shift = demand[v, c] - demand[u, c]
        if shift > 0 and used[h, c] + shift > limits[h, c]:
            return False
        if shift < 0 and used[a, c] - shift > limits[a, c]:
            return False
    return True


@kernel
def _best_partner(
    v: int,
    wish: int,
    wish_cost: float,
    best_cost: float,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    demand: Floats,
    limits: Floats,
    zones: Ints,
    zone_w: Floats,
    home: Ints,
    move_cost: Floats,
    fixed: Any,
    part: Ints,
    used: Floats,
    members: Ints,
    conn: Floats,
    conn_z: Floats,
    seen: Ints,
) -> int:
    """The task on the wished-for host that v had best change places with, −1 where no swap beats the best cost."""
    a, partner, tried = part[v], -1, 0
    u = members[0, wish]
    while u >= 0 and tried < SWAP_CANDIDATES:
        tried += 1
        if not fixed[u] and _swap_fits(used, limits, demand, v, a, u, wish):
            cost = wish_cost + cost_change(
                u, wish, a, indptr, indices, weights, zones, zone_w, home, move_cost, part, conn, conn_z, seen
            )
            for at in range(indptr[v], indptr[v + 1]):
                if indices[at] == u:  # what the two exchange stays remote, and both changes took it for local
                    cost += 2 * weights[at] * zone_w[zones[a], zones[wish]]
            if cost < best_cost:
                best_cost, partner = cost, u
        u = members[1, u]
    return partner


@kernel
def move_passes(
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    demand: Floats,
    limits: Floats,
    zones: Ints,
    zone_w: Floats,
    home: Ints,
    move_cost: Floats,
    fixed: Any,
    part: Ints,
    order: Ints,
    passes: int,
    swaps: bool,
) -> int:
    """Improving moves and, where a host is full, improving swaps, until a pass finds none; limits are never broken.

    A task is looked at again only after a neighbour moved. Every step lowers the objective, so it ends.
    """
    n, k = part.size, limits.shape[0]
    used, members = host_usage(demand, part, k), members_of(part, k)
    conn, conn_z, seen = np.zeros(k), np.zeros(zone_w.shape[0]), np.empty(k + 1, np.int64)
    awake = np.ones(n, np.bool_)
    steps = 0
    for _ in range(passes):
        moved = 0
        for v in order:
            if fixed[v] or not awake[v]:
                continue
            awake[v] = False
            a = part[v]
            count = _connect(v, indptr, indices, weights, part, zones, conn, conn_z, seen)
            stay = _cost_at(v, a, conn, conn_z, zones, zone_w, home, move_cost)
            slack = TOLERANCE * (abs(stay) + 1e-300)
            best, best_cost = -1, stay - slack
            wish, wish_cost = -1, stay - slack
            extra = 1 if home[v] >= 0 else 0
            for i in range(count + extra):
                h = seen[i] if i < count else home[v]
                if h == a:
                    continue
                cost = _cost_at(v, h, conn, conn_z, zones, zone_w, home, move_cost)
                if cost < wish_cost:
                    wish, wish_cost = h, cost
                if cost < best_cost and _fits(used, limits, demand, v, h):
                    best, best_cost = h, cost
            _clear(count, zones, conn, conn_z, seen)
            partner = -1
            if swaps and wish >= 0 and wish != best:
                partner = _best_partner(
                    v, wish, wish_cost, best_cost, indptr, indices, weights, demand, limits, zones, zone_w, home,
                    move_cost, fixed, part, used, members, conn, conn_z, seen,
                )  # fmt: skip
                best = wish if partner >= 0 else best
            if best < 0:
                continue
            moved += 1
            for turn in range(2 if partner >= 0 else 1):
                w, b = (v, best) if turn == 0 else (partner, a)
                transfer(w, b, part, members, used, demand)
                awake[w] = True
                for at in range(indptr[w], indptr[w + 1]):
                    awake[indices[at]] = True
        steps += moved
        if moved == 0:
            break
    return steps
