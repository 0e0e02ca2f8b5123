"""``Scheduler``: the one interface of all placement methods, and the baselines' common manners."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from streamtune.placement.graph import Ints
from streamtune.placement.problem import ROUNDING, Problem
from streamtune.placement.problem import Placement as Placement


class Scheduler(Protocol):
    """Decides on which host every task runs."""

    @property
    def name(self) -> str: ...

    def place(self, problem: Problem) -> Placement: ...


def with_pins(problem: Problem, part: Ints) -> Ints:
    """What a scheduler that knows no pins decided, with the pinned tasks put where the user wants them."""
    return np.where(problem.pinned >= 0, problem.pinned, part)


def findings(problem: Problem, part: Ints) -> tuple[str, ...]:
    """What is to be said about a placement whose scheduler keeps neither balance nor memory by itself."""
    notes = []
    reached = problem.imbalance_of(part)
    if reached > problem.imbalance * (1 + 2 * ROUNDING):
        notes.append(
            f"imbalance {problem.imbalance:g} was not kept: {reached:.4g} was reached (scheduler 'ours' looks harder)"
        )
    over = np.flatnonzero(problem.host_memory(part) > problem.hosts.memory_mb * (1 + ROUNDING))
    if over.size:
        notes.append(
            f"the memory of {over.size} hosts is exceeded, first '{problem.hosts.names[over[0]]}': it is not looked at"
        )
    return (*notes, *surroundings(problem))


def surroundings(problem: Problem) -> tuple[str, ...]:
    """What is worth saying about the hosts whichever scheduler decided."""
    notes = []
    idle = [name for name, usable in zip(problem.hosts.names, problem.usable, strict=True) if not usable]
    if idle:
        notes.append(f"no task fits the memory of {len(idle)} hosts, which stay empty: {', '.join(idle[:5])}")
    if len(problem.graph) < len(problem.hosts):
        notes.append(f"there are more hosts ({len(problem.hosts)}) than tasks ({len(problem.graph)}): some stay empty")
    if problem.vanished:
        notes.append(f"hosts that are gone: {', '.join(problem.vanished[:5])}; their tasks have to move")
    return tuple(notes)
