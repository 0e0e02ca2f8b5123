"""Graph kernels that must be fast at a million tasks: pieces, merging of parallel edges, packing, moves over hosts.

Compiled by numba once per machine and kept on disk. Shapes: n tasks, k hosts, two resources (load and memory).
The cost of task v on host h is Σ over its neighbours' hosts g of bytes · weight(zone of h, zone of g), 0 for g = h, plus
the price of moving it when h is not where it runs today.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from streamtune.placement.compilation import kernel

from streamtune.placement.graph import Floats, Ints

TOLERANCE = 1e-9
SWAP_CANDIDATES = 64


@kernel
def connected_pieces(indptr: Ints, indices: Ints) -> Ints:
    """The number of each vertex's connected piece, in order of the first vertex."""
    n = indptr.size - 1
    piece = np.full(n, -1, np.int64)
    stack = np.empty(n, np.int64)
    count = 0
    for start in range(n):
        if piece[start] >= 0:
            continue
        piece[start] = count
        stack[0] = start
        top = 1
        while top > 0:
            top -= 1
            v = stack[top]
            for at in range(indptr[v], indptr[v + 1]):
                u = indices[at]
                if piece[u] < 0:
                    piece[u] = count
                    stack[top] = u
                    top += 1
        count += 1
    return piece


@kernel
def merge_rows(indptr: Ints, columns: Ints, weights: Floats) -> tuple[Ints, Ints, Floats]:
    """Compressed rows in which every column is there once, its weights added up."""
    n = indptr.size - 1
    out_ptr = np.zeros(n + 1, np.int64)
    out_col = np.empty(columns.size, np.int64)
    out_w = np.empty(columns.size, np.float64)
    place = np.full(n, -1, np.int64)
    at = 0
    for v in range(n):
        start = at
        for j in range(indptr[v], indptr[v + 1]):
            u = columns[j]
            if place[u] >= start:
                out_w[place[u]] += weights[j]
            else:
                place[u] = at
                out_col[at] = u
                out_w[at] = weights[j]
                at += 1
        out_ptr[v + 1] = at
    return out_ptr, out_col[:at].copy(), out_w[:at].copy()


@kernel
def host_usage(demand: Floats, part: Ints, k: int) -> Floats:
    """What the tasks on every host need of each resource (k × 2)."""
    used = np.zeros((k, demand.shape[1]))
    for v in range(part.size):
        for c in range(demand.shape[1]):
            used[part[v], c] += demand[v, c]
    return used


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
    for c in range(limits.shape[1]):
        if used[h, c] + demand[v, c] > limits[h, c] and demand[v, c] > 0:
            return False
    return True


@kernel
def _connect(
    v: int, indptr: Ints, indices: Ints, weights: Floats, part: Ints, zones: Ints, conn: Floats, conn_z: Floats, seen: Ints
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
    return cost


@kernel
def pack(order: Ints, demand: Floats, cpu: Floats, memory: Floats, pinned: Ints) -> Ints:
    """Longest task first onto the host that is relatively emptiest after it, within memory; −1 where none has room.

    A heap over relative load finds the emptiest host; hosts that lack the memory are put aside for this task only.
    """
    n, k = demand.shape[0], cpu.size
    part = np.full(n, -1, np.int64)
    load = np.zeros(k)
    left = memory.copy()
    for v in range(n):
        if pinned[v] >= 0:
            part[v] = pinned[v]
            load[pinned[v]] += demand[v, 0]
            left[pinned[v]] -= demand[v, 1]
    exact = k <= 256
    heap = np.argsort(load / cpu)
    for v in order:
        if part[v] >= 0:
            continue
        best = -1
        if exact:
            best_level = np.inf
            for h in range(k):
                level = (load[h] + demand[v, 0]) / cpu[h]
                if level < best_level and left[h] >= demand[v, 1]:
                    best, best_level = h, level
        elif left[heap[0]] >= demand[v, 1]:
            best = heap[0]
        else:
            best_level = np.inf
            for h in range(k):
                if load[h] / cpu[h] < best_level and left[h] >= demand[v, 1]:
                    best, best_level = h, load[h] / cpu[h]
        if best < 0:
            continue
        part[v] = best
        load[best] += demand[v, 0]
        left[best] -= demand[v, 1]
        if not exact:
            at = 0
            while heap[at] != best:
                at += 1
            while True:
                child = 2 * at + 1
                if child >= k:
                    break
                if child + 1 < k and load[heap[child + 1]] / cpu[heap[child + 1]] < load[heap[child]] / cpu[heap[child]]:
                    child += 1
                if load[heap[child]] / cpu[heap[child]] >= load[heap[at]] / cpu[heap[at]]:
                    break
                heap[at], heap[child] = heap[child], heap[at]
                at = child
    return part


@kernel
def even_out(demand: Floats, cpu: Floats, memory: Floats, pinned: Ints, part: Ints, target: float, rounds: int) -> float:
    """Moves and swaps that lower the relatively fullest host; returns the largest load over the fair share.

    Stops as soon as ``target`` is met.
    """
    n, k = demand.shape[0], cpu.size
    used = host_usage(demand, part, k)
    share = 0.0
    for v in range(n):
        share += demand[v, 0]
    share /= cpu.sum()
    if share == 0.0:
        return 1.0
    for _ in range(rounds):
        top = 0
        for h in range(k):
            if used[h, 0] / cpu[h] > used[top, 0] / cpu[top]:
                top = h
        level = used[top, 0] / cpu[top]
        if level <= target * share * (1 + 1e-12):
            break
        best_peak = level * (1 - 1e-12)
        best_v, best_u, best_h = -1, -1, -1
        for v in range(n):
            if part[v] != top or pinned[v] >= 0:
                continue
            for h in range(k):
                if h == top or used[h, 1] + demand[v, 1] > memory[h]:
                    continue
                peak = max((used[h, 0] + demand[v, 0]) / cpu[h], (used[top, 0] - demand[v, 0]) / cpu[top])
                if peak < best_peak:
                    best_peak, best_v, best_u, best_h = peak, v, -1, h
            for u in range(n):
                h = part[u]
                if h == top or pinned[u] >= 0 or demand[u, 0] >= demand[v, 0]:
                    continue
                if used[h, 1] + demand[v, 1] - demand[u, 1] > memory[h]:
                    continue
                if used[top, 1] + demand[u, 1] - demand[v, 1] > memory[top]:
                    continue
                shift = demand[v, 0] - demand[u, 0]
                peak = max((used[h, 0] + shift) / cpu[h], (used[top, 0] - shift) / cpu[top])
                if peak < best_peak:
                    best_peak, best_v, best_u, best_h = peak, v, u, h
        if best_v < 0:
            break
        for c in range(2):
            used[top, c] -= demand[best_v, c]
            used[best_h, c] += demand[best_v, c]
        part[best_v] = best_h
        if best_u >= 0:
            for c in range(2):
                used[best_h, c] -= demand[best_u, c]
                used[top, c] += demand[best_u, c]
            part[best_u] = top
    worst = 0.0
    for h in range(k):
        worst = max(worst, used[h, 0] / cpu[h] / share)
    return worst


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
    used = host_usage(demand, part, k)
    conn, conn_z, seen = np.zeros(k), np.zeros(zone_w.shape[0]), np.empty(k + 1, np.int64)
    conn2, conn2_z, seen2 = np.zeros(k), np.zeros(zone_w.shape[0]), np.empty(k + 1, np.int64)
    head, after, before = np.full(k, -1, np.int64), np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    if swaps:
        for v in range(n):
            h = part[v]
            after[v] = head[h]
            if head[h] >= 0:
                before[head[h]] = v
            head[h] = v
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
                u = head[wish]
                tried = 0
                while u >= 0 and tried < SWAP_CANDIDATES:
                    tried += 1
                    if not fixed[u]:
                        room = True
                        for c in range(demand.shape[1]):
                            shift = demand[v, c] - demand[u, c]
                            if shift > 0 and used[wish, c] + shift > limits[wish, c]:
                                room = False
                            if shift < 0 and used[a, c] - shift > limits[a, c]:
                                room = False
                        if room:
                            number = _connect(u, indptr, indices, weights, part, zones, conn2, conn2_z, seen2)
                            change = _cost_at(u, a, conn2, conn2_z, zones, zone_w, home, move_cost)
                            change -= _cost_at(u, wish, conn2, conn2_z, zones, zone_w, home, move_cost)
                            _clear(number, zones, conn2, conn2_z, seen2)
                            between = 0.0
                            for at in range(indptr[v], indptr[v + 1]):
                                if indices[at] == u:
                                    between = weights[at]
                            cost = wish_cost + change + 2 * between * zone_w[zones[a], zones[wish]]
                            if cost < best_cost:
                                best, best_cost, partner = wish, cost, u
                    u = after[u]
            if best < 0:
                continue
            moved += 1
            for turn in range(2 if partner >= 0 else 1):
                w, b = (v, best) if turn == 0 else (partner, a)
                old = part[w]
                if swaps:
                    if before[w] >= 0:
                        after[before[w]] = after[w]
                    else:
                        head[old] = after[w]
                    if after[w] >= 0:
                        before[after[w]] = before[w]
                    before[w] = -1
                    after[w] = head[b]
                    if head[b] >= 0:
                        before[head[b]] = w
                    head[b] = w
                for c in range(demand.shape[1]):
                    used[old, c] -= demand[w, c]
                    used[b, c] += demand[w, c]
                part[w] = b
                awake[w] = True
                for at in range(indptr[w], indptr[w + 1]):
                    awake[indices[at]] = True
        steps += moved
        if moved == 0:
            break
    return steps
