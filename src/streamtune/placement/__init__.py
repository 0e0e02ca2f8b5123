"""On which host does each task instance run? Fischer's first study: placement by graph partitioning, and beyond it.

Names are loaded when they are used: the kernels behind them need numba, and other rooms want this one's light modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.placement.even import Even
    from streamtune.placement.exact import Exact
    from streamtune.placement.graph import CommunicationGraph, PlacementError
    from streamtune.placement.graph_file import parse_graph, read_graph
    from streamtune.placement.greedy import Greedy
    from streamtune.placement.hosts import Host, Hosts, parse_hosts, read_hosts
    from streamtune.placement.interface import Scheduler
    from streamtune.placement.metis import Metis
    from streamtune.placement.ours import Ours
    from streamtune.placement.problem import Placement, Problem
    from streamtune.placement.registry import SCHEDULERS, prepare, scheduler
    from streamtune.placement.settings import GreedyPlacementSettings, OursSettings
else:
    __getattr__ = lazily(
        __name__,
        {
            "even": ("Even",),
            "exact": ("Exact",),
            "graph": ("CommunicationGraph", "PlacementError"),
            "graph_file": ("parse_graph", "read_graph"),
            "greedy": ("Greedy",),
            "hosts": ("Host", "Hosts", "parse_hosts", "read_hosts"),
            "interface": ("Scheduler",),
            "metis": ("Metis",),
            "ours": ("Ours",),
            "settings": ("GreedyPlacementSettings", "OursSettings"),
            "problem": ("Placement", "Problem"),
            "registry": ("SCHEDULERS", "prepare", "scheduler"),
        },
    )

__all__ = [
    "SCHEDULERS",
    "CommunicationGraph",
    "Even",
    "Exact",
    "Greedy",
    "GreedyPlacementSettings",
    "Host",
    "Hosts",
    "Metis",
    "Ours",
    "OursSettings",
    "Placement",
    "PlacementError",
    "Problem",
    "Scheduler",
    "parse_graph",
    "parse_hosts",
    "prepare",
    "read_graph",
    "read_hosts",
    "scheduler",
]
