"""The schedulers by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from streamtune.placement.compilation import announced
from streamtune.placement.even import Even
from streamtune.placement.exact import Exact
from streamtune.placement.flink import FlinkDefault
from streamtune.placement.graph import CommunicationGraph, PlacementError
from streamtune.placement.greedy import Greedy
from streamtune.placement.hosts import Hosts
from streamtune.placement.interface import Scheduler
from streamtune.placement.metis import Metis
from streamtune.placement.ours import Ours
from streamtune.placement.problem import Problem
from streamtune.placement.settings import OursSettings

SCHEDULERS: dict[str, Callable[[], Scheduler]] = {
    "ours": Ours,
    "ours-link": partial(Ours, OursSettings(objective="link")),
    "even": Even,
    "even-random": partial(Even, shuffled=True),
    "greedy": Greedy,
    "metis": Metis,
    "metis-vol": partial(Metis, volume=True),
    "metis-recursive": partial(Metis, recursive=True),
    "flink": FlinkDefault,
    "exact": Exact,
}
MOST_EFFORT = 10_000.0
_ALIASES = {"even-sorted": "even", "default": "even", "random": "even-random", "milp": "exact"}


def scheduler(name: str, effort: float = 1.0) -> Scheduler:
    """The scheduler of that name; ``effort`` is how many times harder than usual ours looks.

    >>> scheduler("metis").name
    'metis'
    """
    known = _ALIASES.get(name, name)
    if known not in SCHEDULERS:
        raise PlacementError(f"no scheduler '{name}': choose one of {', '.join(SCHEDULERS)}")
    if not 0 < effort <= MOST_EFFORT:
        raise PlacementError(f"effort must be above 0 and at most {MOST_EFFORT:g}, but got {effort:g}")
    if known in ("ours", "ours-link") and effort != 1:
        usual = OursSettings(objective="bytes" if known == "ours" else "link")
        return Ours(
            usual.model_copy(
                update={
                    "effort": int(usual.effort * effort),
                    "patience": int(usual.patience * effort) + 1,
                    "link_steps": int(usual.link_steps * effort) + 1,
                }
            )
        )
    return SCHEDULERS[known]()


@lru_cache(maxsize=1)
def prepare() -> None:
    """Have the kernels compiled or read from disk, so that timings are about placing alone."""
    announced(_warm_up)


def _warm_up() -> None:
    edges = [(0, 1, 3.0), (1, 2, 1.0), (2, 3, 3.0), (3, 4, 1.0), (4, 5, 3.0)]
    graph = CommunicationGraph.of([f"t{place}" for place in range(6)], [1.0, 2, 1, 2, 1, 2], edges)
    current = {"t0": "h0", "t1": "h0", "t2": "h1"}
    for settings in (OursSettings(effort=1000), OursSettings(small=0)):
        Ours(settings).place(Problem(graph, Hosts.equal(3), 1.0, current=current))
    pair = CommunicationGraph.of(["a", "b", "c", "d"], [1.0] * 4, [(0, 1, 1.0), (2, 3, 1.0)])
    Ours().place(Problem(pair, Hosts.equal(2)))
    Ours(OursSettings(objective="link", link_steps=100)).place(Problem(graph, Hosts.equal(3)))
    Greedy().place(Problem(graph, Hosts.equal(3)))
    tight = Problem(graph, Hosts.equal(3))
    tight.settled(np.array([0, 0, 0, 0, 1, 2]), 1.0)
