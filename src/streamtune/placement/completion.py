"""Bin completion (Korf, 2003): a complete search for a placement within limits that leave hardly any slack.

The slack of all hosts together is Σ limits − total load. A host takes a set of tasks that fills it up to the slack;
what it wastes is gone for the hosts after it. The tighter the balance, the fewer sets there are: just where moves and
swaps get stuck, it is quick. Hosts may differ in size and memory, and hold pinned tasks already.
"""

from __future__ import annotations

import numpy as np

from streamtune.placement.compilation import kernel
from streamtune.placement.graph import Floats, Ints

MOST_STEPS = 3_000_000
FOUND, NONE, GAVE_UP = 1, 0, -1


@kernel
def _fill(loads: Floats, memory: Floats, gaps: Floats, rooms: Floats, slack: float, most: int, part: Ints) -> int:
    """Depth first over (host, set of tasks); tasks by falling load, ``part`` gets positions of hosts.

    The stack holds tasks taken, and −1 where a host was closed. After all tasks that could still be taken, a host is
    closed if what it wastes is within the slack; after that, the last task taken is put back.
    """
    n, k = loads.size, gaps.size
    stack = np.empty(n + k + 1, np.int64)
    kept_slack, kept_gap, kept_room, first_of = np.empty(k), np.empty(k), np.empty(k), np.full(k + 1, -1, np.int64)
    top, host, start = 0, 0, 0
    gap, room, skipped = gaps[0], rooms[0], -1
    free_memory, room_after = memory.sum(), rooms.sum() - rooms[0]
    enough = 1e-9 * free_memory  # sums of memory are off by float noise
    for _ in range(most):
        taken = -1
        rest = 0.0
        for j in range(start, n):
            if part[j] < 0:
                rest += loads[j]
        # Hosts alike are interchangeable: they are filled in the order of their largest tasks.
        alike = host > 0 and gaps[host] == gaps[host - 1] and rooms[host] == rooms[host - 1]
        begin = start
        if first_of[host] < 0 and alike:
            begin = max(start, first_of[host - 1] + 1)
        for j in range(begin, n):
            if gap - rest > slack:
                break  # even all that is left does not fill it
            if part[j] >= 0:
                continue
            # Equal tasks are interchangeable too: the first of them stands for all.
            again = skipped >= 0 and loads[j] == loads[skipped] and memory[j] == memory[skipped]
            if loads[j] <= gap and memory[j] <= room and not again:
                taken = j
                break
            rest -= loads[j]
        if taken >= 0:
            stack[top] = taken
            top += 1
            part[taken] = host
            if first_of[host] < 0:
                first_of[host] = taken
            gap -= loads[taken]
            room -= memory[taken]
            free_memory -= memory[taken]
            start, skipped = taken + 1, -1
            continue
        if host == k - 1 and top - host == n:
            return FOUND
        if host < k - 1 and gap <= slack and free_memory <= room_after + enough:
            kept_slack[host], kept_gap[host], kept_room[host] = slack, gap, room
            slack -= max(gap, 0.0)
            stack[top] = -1
            top += 1
            host += 1
            gap, room, start, skipped = gaps[host], rooms[host], 0, -1
            first_of[host] = -1
            room_after -= rooms[host]
            continue
        while top > 0 and stack[top - 1] < 0:
            top -= 1
            room_after += rooms[host]
            host -= 1
            slack, gap, room = kept_slack[host], kept_gap[host], kept_room[host]
        if top == 0:
            return NONE
        top -= 1
        back = stack[top]
        part[back] = -1
        if first_of[host] == back:
            first_of[host] = -1
        gap += loads[back]
        room += memory[back]
        free_memory += memory[back]
        start, skipped = back + 1, back
    return GAVE_UP


def completed(
    loads: Floats, limits: Floats, memory: Floats, rooms: Floats, most_steps: int = MOST_STEPS
) -> tuple[Ints | None, bool]:
    """A placement with no host above its limit and memory; and whether the answer (also "none") is certain.

    >>> loads, none = np.array([8.0, 7, 6, 5, 4]), np.zeros(5)
    >>> completed(loads, np.array([15.0, 15.0]), none, np.array([np.inf, np.inf]))[0].tolist()
    [0, 0, 1, 1, 1]
    >>> completed(loads, np.array([14.9, 14.9]), none, np.array([np.inf, np.inf]))
    (None, True)
    >>> completed(loads, np.array([8.0, 22.0]), none, np.array([np.inf, np.inf]))[0].tolist()
    [0, 1, 1, 1, 1]
    """
    order = np.lexsort((-memory, -loads))
    # The smallest host first: it has the fewest sets. Infinite memory is as good as all there is.
    hosts = np.lexsort((rooms, limits))
    most_memory = float(memory.sum())
    rooms = np.minimum(rooms, most_memory) * (1 + 1e-12)
    noise = 1e-11 * float(limits.sum())
    slack = float(limits.sum() - loads.sum()) + noise
    if slack < 0:
        return None, True
    part = np.full(loads.size, -1, dtype=np.int64)
    arrays = (np.ascontiguousarray(values) for values in (loads[order], memory[order], limits[hosts], rooms[hosts]))
    outcome = _fill(*arrays, slack, most_steps, part)
    if outcome != FOUND:
        return None, outcome == NONE
    found = np.empty(loads.size, dtype=np.int64)
    found[order] = hosts[part]
    return found, True
