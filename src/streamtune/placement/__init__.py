"""On which host does each task instance run? Fischer's first study: placement by graph partitioning, and beyond it."""

from streamtune.placement.even import Even
from streamtune.placement.exact import Exact
from streamtune.placement.graph import CommunicationGraph, PlacementError
from streamtune.placement.graph_file import parse_graph, read_graph
from streamtune.placement.greedy import Greedy, GreedySettings
from streamtune.placement.hosts import Host, Hosts, parse_hosts, read_hosts
from streamtune.placement.metis import Metis
from streamtune.placement.ours import Ours, OursSettings
from streamtune.placement.problem import Placement, Problem
from streamtune.placement.registry import SCHEDULERS, prepare, scheduler
from streamtune.placement.scheduler import Scheduler

__all__ = [
    "SCHEDULERS",
    "CommunicationGraph",
    "Even",
    "Exact",
    "Greedy",
    "GreedySettings",
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
