"""The thesis' cluster as a fluid: throughput of a layered topology on 80 hosts with 4 cores each, in microseconds.

A spout that emits T tuples/s gives vertex v the load T·w_v·c_v (w: base weight, every bolt gets a full copy of its
parents' output; c: seconds per tuple, times its instances where it is contentious). Tasks are dealt round-robin to the
hosts, as Storm's even scheduler does. Two limits bound T:

- an instance cannot be busy more than all of its time: T·w_v·c_v / p_v ≤ 1 for every vertex;
- a host cannot do more than its cores: Σ over its tasks of T·w_v·c_v / p_v ≤ cores·eff(n), where n tasks on a host cost
  eff(n) = 1 / (1 + κ·max(0, n/cores − 1)) in context switches.

More than ``tasks_per_host`` on a host and the workers run out of memory: no throughput, as in the thesis, whose pla
stopped after three zeros. Measured throughput and readings carry noise. What this leaves out: network (never saturated
in the thesis, Fig. 3), queues, garbage collection, students who shut down their machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.space import Knob, Space
from streamtune.autoconfig.strategies.reduced import Reduced
from streamtune.autoconfig.trial import Measurement, OperatorReading, Suggestion, Trial
from streamtune.frozen import Frozen
from streamtune.workloads.layered_topologies import UNIT_S, Topology

LARGEST_HINT = 60
MOST_TASKS = 1280
Degrees = NDArray[np.int64]


class Cluster(Frozen):
    """The thesis' machines, and how far measurements are off."""

    hosts: int = Field(default=80, ge=1, description="Machines.")
    cores: int = Field(default=4, ge=1, description="Cores of each.")
    switching: float = Field(
        default=0.02, ge=0, description="κ: what an extra task per core costs in context switches."
    )
    tasks_per_host: int = Field(default=32, ge=1, description="More run out of memory.")
    noise: float = Field(default=0.07, ge=0, description="Relative standard deviation of a measured throughput.")
    reading_noise: float = Field(default=0.05, ge=0, description="Relative standard deviation of a busy share.")


@dataclass(frozen=True)
class FluidCluster:
    """One topology on the cluster."""

    topology: Topology
    cluster: Cluster = field(default_factory=Cluster)

    @cached_property
    def _facts(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        topology = self.topology
        seconds = np.array(topology.units) * UNIT_S
        return np.array(topology.weights), np.maximum(seconds, 1e-6), np.array(topology.contentious)

    def throughput(self, degrees: Degrees) -> float:
        """True tuples/s of all spouts together."""
        per_spout, _ = self._solve(degrees)
        return per_spout * len(self.topology.sources)

    def _solve(self, degrees: Degrees) -> tuple[float, NDArray[np.float64]]:
        """Tuples/s of one spout, and the load of one task of each vertex at 1 tuple/s."""
        weights, seconds, contentious = self._facts
        per_task = weights * seconds * np.where(contentious, degrees, 1) / degrees
        hosts = self.cluster.hosts
        tasks = np.repeat(per_task, degrees)
        place = np.arange(len(tasks)) % hosts
        load = np.bincount(place, weights=tasks, minlength=hosts)
        count = np.bincount(place, minlength=hosts)
        if count.max() > self.cluster.tasks_per_host:
            return 0.0, per_task
        extra = np.maximum(0.0, count / self.cluster.cores - 1.0)
        room = self.cluster.cores / (1.0 + self.cluster.switching * extra)
        with np.errstate(divide="ignore"):
            return float(min(1.0 / per_task.max(), np.min(room / np.maximum(load, 1e-12)))), per_task

    def measure(self, degrees: Degrees, generator: np.random.Generator, *, observed: bool) -> Measurement:
        """One noisy run; with readings of every operator where the job can be observed."""
        per_spout, per_task = self._solve(degrees)
        noisy = max(0.0, 1.0 + self.cluster.noise * float(generator.standard_normal()))
        value = per_spout * len(self.topology.sources) * noisy
        if not observed or value <= 0:
            return Measurement(value=value, seconds=120.0)
        weights = self._facts[0]
        errors = np.exp(self.cluster.reading_noise * generator.standard_normal(len(degrees)))
        busy = np.minimum(1.0, per_spout * per_task) * errors
        operators = {
            f"v{vertex}": OperatorReading(
                rate=float(per_spout * noisy * weights[vertex]),
                busy=float(busy[vertex]),
                parallelism=int(degrees[vertex]),
            )
            for vertex in range(len(degrees))
        }
        return Measurement(value=value, seconds=120.0, operators=operators)

    # -- spaces -----------------------------------------------------------------------------------------------------

    def problem(self, *, normalised: bool, informed: bool = False) -> Problem:
        """Hints of 1 to 60. ``normalised``: the thesis' way for bo, with max-tasks as a knob that the hints are
        scaled down to; else the limit is a constraint. ``informed`` (ibo): the hints reach as far as a multiplier of
        60 takes each base weight, since max-tasks alone bounded them in the thesis; no vertex gets more than 60."""
        topology = self.topology
        names = [f"h{vertex}" for vertex in range(topology.size)]
        knobs = {
            name: Knob(
                type="int",
                low=1,
                high=LARGEST_HINT * (math.ceil(topology.weights[vertex]) if informed else 1),
                operator=f"v{vertex}",
                weight=topology.weights[vertex],
            )
            for vertex, name in enumerate(names)
        }
        if normalised:
            knobs["max_tasks"] = Knob(type="int", low=topology.size, high=MOST_TASKS)
        constraints = () if normalised else (f"{' + '.join(names)} <= {MOST_TASKS}",)
        inputs = {f"v{v}": tuple(f"v{p}" for p in parents) for v, parents in enumerate(topology.parents)}
        return Problem(space=Space(knobs=knobs, constraints=constraints), inputs=inputs, hosts=self.cluster.hosts)

    def degrees(self, knobs: Mapping[str, int | float | str | bool]) -> Degrees:
        """Instances per vertex: the hints, scaled down to max-tasks where that is a knob and they are more."""
        hints = np.array([float(knobs[f"h{vertex}"]) for vertex in range(self.topology.size)])
        if "max_tasks" in knobs:
            limit = float(knobs["max_tasks"])
            if hints.sum() > limit:
                hints = np.floor(hints * limit / hints.sum())
        return np.asarray(np.clip(hints, 1, LARGEST_HINT), dtype=np.int64)


@dataclass(frozen=True)
class Bench:
    """Measures suggestions on a fluid cluster; the noise of a trial follows from the seed and its number."""

    fluid: FluidCluster
    seed: int
    observed: bool

    def __call__(self, number: int, suggestion: Suggestion) -> Trial:
        generator = np.random.default_rng([self.seed, number, 4242])
        measured = self.fluid.measure(self.fluid.degrees(suggestion.knobs), generator, observed=self.observed)
        return Trial(number=number, knobs=suggestion.knobs, why=suggestion.why, measurements=(measured,))


def best_known(fluid: FluidCluster, *, seed: int = 0, steps: int = 3000) -> tuple[float, Degrees]:
    """The best throughput that full knowledge finds: all totals by true load with several headrooms, then climbing.

    For scoring only: it sees the hidden work of the vertices.
    """
    weights, seconds, contentious = fluid._facts
    load = weights * seconds
    best, chosen = 0.0, np.ones(len(load), np.int64)
    for rate in np.geomspace(0.02, 1.2, 160) * fluid.cluster.hosts * fluid.cluster.cores / load.sum():
        for headroom in (1.0, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 3.0):
            degrees = np.where(contentious, 1, np.maximum(1, np.ceil(rate * load * headroom))).astype(np.int64)
            if degrees.sum() <= MOST_TASKS and degrees.max() <= LARGEST_HINT:
                value = fluid.throughput(degrees)
                if value > best:
                    best, chosen = value, degrees
    best, chosen = _best_by_shares(fluid, load, best, chosen)
    generator = np.random.default_rng(seed)
    for _ in range(steps):
        moved = chosen.copy()
        picked = generator.choice(len(load), size=int(generator.integers(1, min(4, len(load)) + 1)), replace=False)
        moved[picked] += generator.integers(-2, 3, len(picked))
        moved = np.clip(moved, 1, LARGEST_HINT)
        if moved.sum() <= MOST_TASKS and (value := fluid.throughput(moved)) > best:
            best, chosen = value, moved
    return best, chosen


def _best_by_shares(
    fluid: FluidCluster, load: NDArray[np.float64], best: float, chosen: Degrees
) -> tuple[float, Degrees]:
    """All totals spread by the true shares, as ours would do if it knew them."""
    space = fluid.problem(normalised=False).space
    shares = {f"h{vertex}": float(one) for vertex, one in enumerate(load / load.sum())}
    for hosts in (None, fluid.cluster.hosts):
        reduced = Reduced.of(space, hosts)
        for total in np.geomspace(*reduced.totals, 200):
            degrees = fluid.degrees(reduced.hints_for(float(total), shares))
            degrees = np.where(fluid._facts[2], 1, degrees)
            if degrees.sum() <= MOST_TASKS and (value := fluid.throughput(degrees)) > best:
                best, chosen = value, degrees
    return best, chosen


def settled(values: Sequence[float], share: float, best: float) -> int | None:
    """The first step (from 1) whose true value is at least ``share`` of the best known, or None."""
    return next((place + 1 for place, value in enumerate(values) if value >= share * best), None)
