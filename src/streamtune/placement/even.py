"""Storm's even scheduler: deals the task instances out to the hosts in turn, whatever they do."""

from __future__ import annotations

import time

import numpy as np

from streamtune.placement.interface import findings, with_pins
from streamtune.placement.problem import Placement, Problem


class Even:
    """Round-robin over the hosts: in the order of the task ids, as Storm deals its sorted executors, or shuffled.

    With as many instances of every operator as hosts, the sorted order puts instance i of all operators together.

    >>> from streamtune.placement import CommunicationGraph, Hosts
    >>> graph = CommunicationGraph.of(["a", "b", "c"], [1, 1, 1])
    >>> Even().place(Problem(graph, Hosts.equal(2))).assignment
    {'a': 'h0', 'b': 'h1', 'c': 'h0'}
    """

    def __init__(self, *, shuffled: bool = False, seed: int = 0) -> None:
        self.shuffled = shuffled
        self.seed = seed

    @property
    def name(self) -> str:
        return "even-random" if self.shuffled else "even"

    def place(self, problem: Problem) -> Placement:
        start = time.perf_counter()
        count = len(problem.graph)
        order = np.random.default_rng(self.seed).permutation(count) if self.shuffled else np.arange(count)
        part = np.empty(count, dtype=np.int64)
        part[order] = np.arange(count) % len(problem.hosts)
        part = with_pins(problem, part)
        return problem.place(part, self.name, time.perf_counter() - start, notes=findings(problem, part))
