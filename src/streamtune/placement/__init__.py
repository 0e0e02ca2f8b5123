"""On which host does each task instance run? Fischer's first study: placement by graph partitioning, and beyond it.

Names are loaded when they are used: the kernels behind them need numba, and other rooms want this one's light modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamtune.placement.even import Even as Even
    from streamtune.placement.exact import Exact as Exact
    from streamtune.placement.graph import CommunicationGraph as CommunicationGraph
    from streamtune.placement.graph import PlacementError as PlacementError
    from streamtune.placement.graph_file import parse_graph as parse_graph
    from streamtune.placement.graph_file import read_graph as read_graph
    from streamtune.placement.greedy import Greedy as Greedy
    from streamtune.placement.greedy import GreedySettings as GreedySettings
    from streamtune.placement.hosts import Host as Host
    from streamtune.placement.hosts import Hosts as Hosts
    from streamtune.placement.hosts import parse_hosts as parse_hosts
    from streamtune.placement.hosts import read_hosts as read_hosts
    from streamtune.placement.interface import Scheduler as Scheduler
    from streamtune.placement.metis import Metis as Metis
    from streamtune.placement.ours import Ours as Ours
    from streamtune.placement.ours import OursSettings as OursSettings
    from streamtune.placement.problem import Placement as Placement
    from streamtune.placement.problem import Problem as Problem
    from streamtune.placement.registry import SCHEDULERS as SCHEDULERS
    from streamtune.placement.registry import prepare as prepare
    from streamtune.placement.registry import scheduler as scheduler

_HOMES = {
    "even": ("Even",),
    "exact": ("Exact",),
    "graph": ("CommunicationGraph", "PlacementError"),
    "graph_file": ("parse_graph", "read_graph"),
    "greedy": ("Greedy", "GreedySettings"),
    "hosts": ("Host", "Hosts", "parse_hosts", "read_hosts"),
    "interface": ("Scheduler",),
    "metis": ("Metis",),
    "ours": ("Ours", "OursSettings"),
    "problem": ("Placement", "Problem"),
    "registry": ("SCHEDULERS", "prepare", "scheduler"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'streamtune.placement' has no attribute '{name}'")
    return getattr(import_module(f"streamtune.placement.{_HOME[name]}"), name)
