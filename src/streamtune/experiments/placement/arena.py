"""What the experiments share: topologies on hosts, schedulers by name, repetitions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from pydantic import Field

from streamtune.experiments.placement.flows import task_flows
from streamtune.frozen import Frozen
from streamtune.placement import Even, Greedy, Hosts, Metis, Placement, Problem, Scheduler, scheduler
from streamtune.placement.fluid import FluidHosts, FluidRun, HostLimits, TaskFlows
from streamtune.placement.problem import DEFAULT_IMBALANCE
from streamtune.placement.wire import HopCost
from streamtune.workloads.placement_topologies import OpenGovData, Topology, opengov, topology

# Cuts can only be compared at equal balance: ours-equal is ours allowed the imbalance that METIS reached, ours-as-even
# that of the sorted even schedule. ours-link looks at the busiest link instead of all bytes: for throughput.
SCHEDULERS = ("even-sorted", "even-random", "greedy", "metis", "ours", "ours-equal", "ours-as-even")
WITH_LINK = (*SCHEDULERS, "ours-link", "ours-link-as-even")
THROTTLED = "reference"


class PlacementStudy(Frozen):
    """How large the study is. Chosen before it runs."""

    hosts: tuple[int, ...] = Field(default=(10, 20, 30, 40, 50, 60, 70, 80), description="Cluster sizes (Fig. 7).")
    ends: tuple[int, ...] = Field(default=(10, 80), description="Cluster sizes of Fig. 6 and 9.")
    repetitions: int = Field(default=3, ge=1, description="Each with its own random schedule, METIS seed and data.")
    mbit_per_s: float = Field(default=1000.0, gt=0, description="The thesis' links.")
    bandwidths: tuple[float, ...] = Field(default=(10, 30, 100, 300, 1000, 3000, 10000), description="Mbit/s.")
    tuple_sizes: tuple[float, ...] = Field(default=(16, 112, 1024, 3072, 10240, 30720), description="Bytes (Fig. 10).")
    tuple_size_hosts: int = Field(default=40, ge=2, description="Cluster size of Fig. 10.")
    effort: float = Field(default=1.0, gt=0, description="How much harder than usual ours looks: as users run it.")
    cost: HopCost = Field(default_factory=HopCost, description="What a hop costs, as calibrated.")


QUICK = PlacementStudy(
    hosts=(4, 10),
    ends=(4, 10),
    repetitions=2,
    bandwidths=(10, 100, 1000),
    tuple_sizes=(16, 3072),
    tuple_size_hosts=6,
    effort=1.0,
)


@dataclass(frozen=True)
class Case:
    """One topology on a number of hosts, in one repetition."""

    topology: str
    hosts: int
    repetition: int = 0


def build(case: Case) -> Topology:
    """The topology of a case; OpenGov draws its data from the repetition."""
    if case.topology == "opengov":
        return opengov(case.hosts, OpenGovData(seed=case.repetition))
    return topology(case.topology, case.hosts)


def chosen(name: str, repetition: int, effort: float) -> Scheduler:
    """A scheduler with the seed of its repetition."""
    if name == "even-random":
        return Even(shuffled=True, seed=repetition)
    if name in ("metis", "metis-vol", "metis-recursive"):
        return Metis(volume=name == "metis-vol", recursive=name == "metis-recursive", seed=repetition)
    if name == "greedy":
        return Greedy()
    return scheduler(name, effort)


@lru_cache(maxsize=4096)
def placed(case: Case, name: str, effort: float) -> tuple[TaskFlows, Placement]:
    """What a scheduler makes of a case. As in the thesis, its schedulers see tuples counted; ours sees their bytes."""
    flows = task_flows(build(case))
    return flows, place_flows(flows, case.hosts, name, case.repetition, effort)


def place_flows(flows: TaskFlows, hosts: int, name: str, repetition: int = 0, effort: float = 1.0) -> Placement:
    """Flows on equal hosts by a scheduler of the study."""
    counted = Problem(flows.graph(counted=True), Hosts.equal(hosts))
    if not name.startswith("ours"):
        return chosen(name, repetition, effort).place(counted)
    imbalance = DEFAULT_IMBALANCE
    if name == "ours-equal":
        imbalance = max(imbalance, Metis(seed=repetition).place(counted).imbalance)
    if name.endswith("-as-even"):
        imbalance = max(imbalance, Even().place(counted).imbalance)
    which = "ours-link" if name.startswith("ours-link") else "ours"
    ours = chosen(which, repetition, effort if which == "ours" else 1.0)
    return ours.place(Problem(flows.graph(), Hosts.equal(hosts), imbalance))


def run(
    case: Case, name: str, scale: PlacementStudy, mbit_per_s: float | None = None, *, together: bool = False
) -> FluidRun:
    """The job under a scheduler's placement: at its own rate if it throttles itself, else as fast as it can."""
    flows, found = placed(case, name, scale.effort)
    limits = HostLimits(mbit_per_s=mbit_per_s or scale.mbit_per_s)
    hosts = FluidHosts(flows, case.hosts, limits, scale.cost)
    return hosts.run(found.part, unlimited=case.topology != THROTTLED, together=together)


def at_fixed_rate(case: Case, name: str, scale: PlacementStudy) -> FluidRun:
    """The job at the rate its spouts want, over links that do not limit it: what bytes per tuple are measured at."""
    flows, found = placed(case, name, scale.effort)
    limits = HostLimits(mbit_per_s=1e9, cores=1e6)
    return FluidHosts(flows, case.hosts, limits, scale.cost).run(found.part)


def spread(values: list[float]) -> float:
    """(max − min) / mean in percent: the thesis' min-max-spread."""
    mean = float(np.mean(values))
    return 100 * (max(values) - min(values)) / mean if mean else 0.0


def change(value: float, base: float) -> float | None:
    """Percent against a base; None where the base is nothing."""
    return 100 * (value / base - 1) if base else None
