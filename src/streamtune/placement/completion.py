"""Bin completion (Korf, 2003): a complete search for a tight balance on equal hosts.

The slack of all hosts together is k · limit − total load. A host takes the largest task left and a set of others
that fills it up to the slack; what it wastes is gone for the hosts after it. The tighter the balance, the fewer sets
there are: just where moves and swaps get stuck, it is quick.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streamtune.placement.graph import Floats, Ints

MOST_STEPS = 300_000


class _GaveUpError(Exception):
    """The search took more steps than it may."""


class _Completion:
    def __init__(self, loads: Floats, hosts: int, limit: float, memory: Floats, room: float) -> None:
        self.order = np.argsort(-loads, kind="stable")
        self.loads = loads[self.order].tolist()
        self.memory = memory[self.order].tolist()
        self.hosts, self.limit, self.room = hosts, limit, room
        self.steps = 0
        self.chosen: list[list[int]] = []

    def search(self) -> bool | None:
        """True when found, False when there is none, None when it gave up."""
        # The last host has to waste all that is left: float noise must not close it.
        noise = 1e-11 * self.hosts * self.limit
        slack = self.hosts * self.limit - sum(self.loads) + noise
        if slack < 0:
            return False
        try:
            return self._fill(list(range(len(self.loads))), self.hosts, slack)
        except _GaveUpError:
            return None

    def _fill(self, left: list[int], hosts: int, slack: float) -> bool:
        if not left:
            return True
        if hosts == 0:
            return False
        first = left[0]
        load, memory = self.loads[first], self.memory[first]
        if load > self.limit or memory > self.room:
            return False
        for others in self._sets(left, 1, self.limit - load, self.room - memory, slack):
            taken = [first, *others]
            waste = self.limit - sum(self.loads[item] for item in taken)
            inside = set(taken)
            self.chosen.append(taken)
            if self._fill([item for item in left if item not in inside], hosts - 1, slack - waste):
                return True
            self.chosen.pop()
        return False

    def _sets(self, left: list[int], start: int, gap: float, room: float, slack: float) -> Iterator[list[int]]:
        """Sets of the items from ``start`` on that leave a gap of at most the slack, fullest choices first."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise _GaveUpError
        before = -1.0
        remaining = sum(self.loads[item] for item in left[start:])
        for place in range(start, len(left)):
            if gap - remaining > slack:
                return  # even all that is left does not fill it
            item = left[place]
            load = self.loads[item]
            remaining -= load
            # Equal tasks are interchangeable: the first of them stands for all (memory must be equal too).
            if load > gap or self.memory[item] > room or (load == before and self.room == np.inf):
                continue
            before = load
            for rest in self._sets(left, place + 1, gap - load, room - self.memory[item], slack):
                yield [item, *rest]
        if gap <= slack:
            yield []


def completed(loads: Floats, hosts: int, limit: float, memory: Floats, room: float) -> tuple[Ints | None, bool]:
    """A placement on equal hosts with no load above ``limit``; and whether the answer (also "none") is certain.

    >>> completed(np.array([8.0, 7, 6, 5, 4]), 2, 15.0, np.zeros(5), np.inf)[0].tolist()
    [0, 0, 1, 1, 1]
    >>> completed(np.array([8.0, 7, 6, 5, 4]), 2, 14.9, np.zeros(5), np.inf)
    (None, True)
    """
    search = _Completion(loads, hosts, limit, memory, room)
    outcome = search.search()
    if not outcome:
        return None, outcome is not None
    part = np.zeros(loads.size, dtype=np.int64)
    for host, items in enumerate(search.chosen):
        part[search.order[items]] = host
    return part, True
