"""What is measured on real hosts: fixed before any of it is run.

Three sets of cases. ``CALIBRATION`` runs on two to four hosts; the model of a hop is fitted to it, and for Flink to
what ran of ``THESIS`` on four hosts too (the first two repetitions). ``BLIND`` has tuple sizes, depths and seeds that
occur nowhere else; it is run on ten hosts after the model was frozen. ``BLIND_AGAIN`` is the same for Flink's second
model, whose form was chosen after its first blind check had been looked at. ``THESIS`` are the thesis' topologies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field

from streamtune.experiments.placement.flows import task_flows
from streamtune.frozen import Frozen
from streamtune.placement.fluid import TaskFlows
from streamtune.workloads.placement_topologies import OpenGovData, Topology, opengov, parallel, payload, reference

SCHEDULERS = ("even-sorted", "even-random", "greedy", "metis", "ours")
# For the throughput of what crosses the network whatever one does: ours at even's balance, and by the busiest link.
LINK_SCHEDULERS = {"opengov": ("ours-as-even", "ours-link", "ours-link-as-even")}


@dataclass(frozen=True)
class Design:
    """A topology for any number of hosts; ``seed`` is that of the first repetition."""

    name: str
    build: Callable[[int, int], Topology]
    seed: int = 0
    slower: float = 1.0

    def flows(self, hosts: int, repetition: int = 0) -> TaskFlows:
        return task_flows(self.build(hosts, self.seed + repetition))


def _lines(depth: int, tuple_bytes: float) -> Callable[[int, int], Topology]:
    return lambda hosts, _seed: payload(hosts, depth=depth, tuple_bytes=tuple_bytes)


def _opengov(hosts: int, seed: int) -> Topology:
    return opengov(hosts, OpenGovData(seed=seed))


def _stages(stages: int, tuple_bytes: float) -> Callable[[int, int], Topology]:
    return lambda hosts, _seed: reference(hosts, stages=stages, tuple_bytes=tuple_bytes)


# (design, scheduler): what tells apart bytes per tuple, per byte and per message.
CALIBRATION: tuple[tuple[Design, str], ...] = (
    (Design("lines-16", _lines(3, 16)), "even-sorted"),
    (Design("lines-3072", _lines(3, 3072)), "even-sorted"),
    (Design("lines-16-slow", _lines(3, 16), slower=0.02), "even-sorted"),
    (Design("lines-400", _lines(3, 400), seed=50), "even-random"),
    (Design("stages-24", _stages(4, 24)), "even-sorted"),
    (Design("stages-24-slow", _stages(4, 24), slower=0.05), "even-sorted"),
    (Design("opengov-50", _opengov, seed=50), "even-random"),
    (Design("opengov-51", _opengov, seed=51), "ours"),
)
# Flink's messages on one connection share acknowledgements: many slow channels between two hosts tell how far.
FLINK_CALIBRATION: tuple[tuple[Design, str], ...] = (
    (Design("stages7-12-slow", _stages(7, 12), slower=0.16), "even-sorted"),
    (Design("stages7-12-slower", _stages(7, 12), slower=0.05), "even-sorted"),
    (Design("stages2-12-slow", _stages(2, 12), slower=0.05), "even-sorted"),
    (Design("lines7-16-slow", _lines(7, 16), seed=52, slower=0.05), "even-random"),
    (Design("opengov-52-slow", _opengov, seed=52, slower=0.1), "even-random"),
    (Design("opengov-53-slow", _opengov, seed=53, slower=0.3), "greedy"),
)
BLIND = (
    Design("lines-700", _lines(5, 700), seed=70),
    Design("stages-40", _stages(6, 40), seed=70),
    Design("opengov-70", _opengov, seed=70),
)
BLIND_AGAIN = (
    Design("lines-250", _lines(4, 250), seed=90),
    Design("stages-100", _stages(5, 100), seed=90),
    Design("opengov-90", _opengov, seed=90),
)
FITTED_REPETITIONS = 2
THESIS = (
    Design("payload", _lines(7, 3072)),
    Design("opengov", _opengov, seed=80),
    Design("reference", _stages(7, 12)),
    Design("parallel", lambda hosts, _seed: parallel(hosts)),
)


class RealPlacementStudy(Frozen):
    """How long and how large; small enough for two cores."""

    calibrate_on: int = Field(default=4, ge=2, description="Hosts on which the cost of a hop is measured.")
    check_on: tuple[int, ...] = Field(default=(4, 10), description="Hosts on which the thesis' topologies run.")
    blind_on: int = Field(default=10, ge=2, description="Hosts of the blind check.")
    designs: tuple[str, ...] = Field(default=tuple(one.name for one in THESIS), description="Topologies to run.")
    timely_on: tuple[int, ...] = Field(default=(10, 20), description="The same for Timely.")
    timely_designs: tuple[str, ...] = Field(default=("payload", "opengov"), description="Run there, once.")
    rate: float = Field(default=1500.0, gt=0, description="Most tuples/s of one spout when bytes are measured.")
    hops_per_s: float = Field(default=20_000.0, gt=0, description="Most tuples/s handed over, all tasks together.")
    bytes_per_s: float = Field(default=16e6, gt=0, description="Most bytes/s handed over, all tasks together.")
    seconds: float = Field(default=6.0, gt=0, description="How long spouts emit in the long run.")
    short_share: float = Field(default=0.25, gt=0, lt=1, description="The short run over the long one.")
    repetitions: int = Field(default=3, ge=1, description="Each with its own random schedule, METIS seed and data.")
    bandwidths: tuple[float, ...] = Field(default=(10.0, 50.0, 250.0), description="Mbit/s of the curve.")
    most_bandwidths: int = Field(default=2, ge=1, description="Of the curve on more hosts than calibrated on.")
    curve_designs: tuple[str, ...] = Field(default=("payload", "opengov"), description="Of the curve.")
    probe: int = Field(default=200, ge=1, description="Tuples of one spout in the short run of a throughput.")
    curve_seconds: float = Field(default=2.0, gt=0, description="Least seconds between both runs of a throughput.")
    free_mbit_per_s: float = Field(default=2000.0, gt=0, description="A link that does not limit the rate.")
    timeout_s: float = Field(default=180.0, gt=0, description="For one run.")

    def thesis(self, engine: str) -> tuple[Design, ...]:
        names = self.designs if engine == "flink" else self.timely_designs
        return tuple(design for design in THESIS if design.name in names)

    def hosts_for(self, engine: str) -> tuple[int, ...]:
        return self.check_on if engine == "flink" else self.timely_on


QUICK_REAL = RealPlacementStudy(
    check_on=(4,), timely_on=(4,), timely_designs=("payload",), blind_on=4, designs=("payload",),
    curve_designs=("payload",), repetitions=1, seconds=3.0, bandwidths=(30.0,),
)  # fmt: skip
