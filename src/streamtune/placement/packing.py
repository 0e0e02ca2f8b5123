"""Kernels that know loads and hosts but no traffic: how evenly can tasks be packed?"""

from __future__ import annotations

import numpy as np

from streamtune.placement.compilation import kernel
from streamtune.placement.graph import Floats, Ints


@kernel
def host_usage(demand: Floats, part: Ints, k: int) -> Floats:
    """What the tasks on every host need of each resource (k × 2)."""
    used = np.zeros((k, demand.shape[1]))
    for v in range(part.size):
        for c in range(demand.shape[1]):
            used[part[v], c] += demand[v, c]
    return used


@kernel
def members_of(part: Ints, k: int) -> Ints:
    """The tasks of every host as doubly linked lists: row 0 has the first task of a host, 1 the next, 2 the one before.

    Rows are max(n, k) long; −1 ends a list.
    """
    members = np.full((3, max(part.size, k)), -1, np.int64)
    for v in range(part.size):
        h = part[v]
        members[1, v] = members[0, h]
        if members[0, h] >= 0:
            members[2, members[0, h]] = v
        members[0, h] = v
    return members


@kernel
def transfer(v: int, b: int, part: Ints, members: Ints, used: Floats, demand: Floats) -> None:
    """Task v goes to host b: its place in the lists, what the hosts use, and the placement itself."""
    a, after, before = part[v], members[1, v], members[2, v]
    if before >= 0:
        members[1, before] = after
    else:
        members[0, a] = after
    if after >= 0:
        members[2, after] = before
    members[2, v] = -1
    members[1, v] = members[0, b]
    if members[0, b] >= 0:
        members[2, members[0, b]] = v
    members[0, b] = v
    for c in range(demand.shape[1]):
        used[a, c] -= demand[v, c]
        used[b, c] += demand[v, c]
    part[v] = b


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
                if (
                    child + 1 < k
                    and load[heap[child + 1]] / cpu[heap[child + 1]] < load[heap[child]] / cpu[heap[child]]
                ):
                    child += 1
                if load[heap[child]] / cpu[heap[child]] >= load[heap[at]] / cpu[heap[at]]:
                    break
                heap[at], heap[child] = heap[child], heap[at]
                at = child
    return part


@kernel
def even_out(
    demand: Floats, cpu: Floats, memory: Floats, pinned: Ints, part: Ints, target: float, rounds: int
) -> float:
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
