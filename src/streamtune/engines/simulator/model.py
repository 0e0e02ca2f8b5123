"""A job with its physics as arrays, and the state that the time steps change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Job, Plan
from streamtune.dataflow.chaining import forwarded
from streamtune.dataflow.hosts import Cluster
from streamtune.dataflow.physics import OperatorPhysics, true_ratios
from streamtune.engines.simulator.assignment import Assignment
from streamtune.engines.simulator.hosts import Demand, OnHosts, put_on_hosts
from streamtune.engines.simulator.kernel import EMITTED, TAKEN, run_steps
from streamtune.engines.simulator.settings import SimulatorSettings
from streamtune.errors import EngineError
from streamtune.readings.demand import input_rates

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_CHUNK_STEPS = 600


@dataclass(frozen=True)
class Topology:
    """The shape of a job: indices only, the same under every plan and rate."""

    order: Ints
    in_start: Ints
    in_edges: Ints
    out_start: Ints
    out_edges: Ints
    is_source: npt.NDArray[np.bool_]
    period_s: Floats
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, job: Job) -> Topology:
        flow = job.dataflow
        edges = flow.edge_indices
        in_start, in_edges = _group([target for _, target in edges], len(flow.operators))
        out_start, out_edges = _group([source for source, _ in edges], len(flow.operators))
        # Count windows fire for every key at its own moment: together they emit evenly, so they have no period.
        periods = [
            operator.window.period if operator.window is not None and operator.window.policy == "time" else 0.0
            for operator in flow.operators
        ]
        return cls(
            order=np.array([flow.index[key] for key in reversed(flow.order)], dtype=np.int64),
            in_start=in_start,
            in_edges=in_edges,
            out_start=out_start,
            out_edges=out_edges,
            is_source=np.array([operator.is_source for operator in flow.operators], dtype=np.bool_),
            period_s=np.array(periods),
            edges=edges,
        )


def _group(keys: list[int], size: int) -> tuple[Ints, Ints]:
    """Edge positions grouped by operator, as CSR."""
    by_key = np.argsort(np.array(keys, dtype=np.int64), kind="stable").astype(np.int64)
    counts = np.bincount(np.array(keys, dtype=np.int64), minlength=size)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), by_key


def physics_in_order(job: Job, physics: Mapping[str, OperatorPhysics] | None) -> list[OperatorPhysics]:
    """The physics of every operator, or an error that says which one is missing."""
    if physics is None:
        raise EngineError(f"job '{job.name}' has no physics: the simulator needs it to run a job; add it to the spec")
    missing = [key for key in job.dataflow.index if key not in physics]
    if missing:
        raise EngineError(f"job '{job.name}' has no physics for operator '{missing[0]}': add it to the spec")
    return [physics[operator.id] for operator in job.dataflow.operators]


@dataclass
class Totals:
    """What was measured since the last reset; times are of the hottest subtask."""

    sums: Floats
    queue_sum: Floats
    lag_sum: Floats
    flow: Floats
    elapsed_s: float = 0.0


@dataclass
class Simulation:
    """One running job: physics, plan, rates and the state of its buffers.

    >>> from streamtune.dataflow import Dataflow, Job
    >>> flow = Dataflow.from_edges(["source", "sink"], [(0, 1)])
    >>> source = flow.operators[0].model_copy(update={"rate": 100.0})
    >>> job = Job("tiny", Dataflow((source, flow.operators[1]), flow.edges))
    >>> physics = {key: OperatorPhysics(service_us=1000) for key in ("op0", "op1")}
    >>> simulation = Simulation(job, physics, job.initial_plan, SimulatorSettings.exact(), seed=1)
    >>> simulation.advance(10.0)
    >>> round(float(simulation.totals.sums[0, TAKEN]))
    1000
    """

    job: Job
    physics: Mapping[str, OperatorPhysics]
    plan: Plan
    settings: SimulatorSettings
    seed: int
    now_s: float = 0.0
    cluster: Cluster | None = None
    on_hosts: OnHosts | None = field(init=False, default=None)
    assignment: Assignment | None = field(init=False, default=None)
    started_s: float = field(init=False, default=0.0)
    down_until_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.truth = physics_in_order(self.job, self.physics)
        self.topology = Topology.of(self.job)
        self._random = np.random.default_rng(self.seed)
        size, edges = len(self.truth), len(self.topology.edges)
        self.queue = np.zeros(edges)
        self.lag = np.zeros(size)
        self._drift = np.zeros(size)
        self.gathered = np.zeros(size)
        self.to_fire = np.zeros(size)
        self.selectivity = np.array([truth.selectivity for truth in self.truth])
        shares = (self.physics[edge.source].shares.get(edge.target, 1.0) for edge in self.job.dataflow.edges)
        self.edge_share = np.fromiter(shares, dtype=np.float64, count=edges)
        self._fire_share = np.array(
            [
                truth.fire_share if period > 0 else 0.0
                for truth, period in zip(self.truth, self.topology.period_s, strict=True)
            ]
        )
        self.set_rates(self.job.source_rates)
        self._apply(self.plan)
        self.reset_totals()

    def reset_totals(self) -> None:
        size, edges = len(self.truth), len(self.topology.edges)
        self.totals = Totals(np.zeros((size, 4)), np.zeros(edges), np.zeros(size), np.zeros(edges))

    def set_rates(self, rates: Mapping[str, float]) -> None:
        self.job.check_rates(rates)
        self.rates = dict(rates)
        self._source_rate = np.array([rates.get(operator.id, 0.0) for operator in self.job.dataflow.operators])
        if self.on_hosts is not None:
            self._apply(self.plan)  # what threads share depends on the rates

    def _apply(self, plan: Plan) -> None:
        self.job.check_plan(plan)
        self.plan = plan
        degrees = [plan[operator.id] for operator in self.job.dataflow.operators]
        pairs = list(zip(self.truth, degrees, strict=True))
        self.equipped = self._equipped(plan)
        self.capacity = np.array([truth.capacity_per_s(degree) for truth, degree in pairs]) * self.equipped
        self.hot_factor = np.array([truth.hot_factor(degree) for truth, degree in pairs])
        if self.cluster is not None:
            self.on_hosts = self._put_on(self.cluster, degrees)
            self.capacity = self.on_hosts.capacity
        readers = np.array([target for _, target in self.topology.edges], dtype=np.int64)
        self._room = self.settings.buffer_s * self.capacity[readers] if len(readers) else np.zeros(0)
        if self.on_hosts is not None and len(readers):
            self._room = self._room_on(self.on_hosts)
        # The mean of the many records served in one step varies less than one record does: cv/√n.
        served_per_step = np.maximum(1.0, self.settings.step_s * self.capacity / np.array(degrees, dtype=np.float64))
        own = np.array([truth.cv for truth in self.truth]) ** 2 / served_per_step
        self._fast_cv = np.sqrt(np.where(self.settings.hiccup_cv > 0, own, 0.0) + self.settings.hiccup_cv**2)

    def _equipped(self, plan: Plan) -> Floats:
        """Mean speed of every operator's instances at the sizes that the plan chooses; 1 where it chooses none."""
        sizes = plan.resources or {}
        pairs = zip(self.job.dataflow.operators, self.truth, strict=True)
        return np.array([truth.equipped(sizes[one.id]) if one.id in sizes else 1.0 for one, truth in pairs])

    def _put_on(self, cluster: Cluster, degrees: list[int]) -> OnHosts:
        cluster.check_plan(self.plan)
        selectivity = dict(zip(self.job.dataflow.index, self.selectivity.tolist(), strict=True))
        ratios = true_ratios(self.job.dataflow, self.physics)
        rates = input_rates(self.job.dataflow, selectivity, self.rates, ratios)
        arriving = np.array([rates[operator.id] for operator in self.job.dataflow.operators])
        asked = Demand(
            capacity=self.capacity,
            service_s=np.array([truth.service_us for truth in self.truth]) / 1e6 / self.equipped,
            degrees=np.array(degrees, dtype=np.int64),
            arriving=arriving,
            emitted=arriving * self.selectivity,
        )
        self.assignment = None
        if self.plan.placement is not None:
            is_forwarded = forwarded(self.job.dataflow, asked.degrees)
            self.assignment = Assignment.of(self.job, self.plan, cluster, is_forwarded, self.hot_factor)
        return put_on_hosts(self.job, self.topology, asked, cluster, self.settings.hosts, self.assignment)

    def _room_on(self, on_hosts: OnHosts) -> Floats:
        """Buffers hold seconds of what gets through; behind a window, more than one firing of it."""
        ends = np.array(self.topology.edges, dtype=np.int64).reshape(-1, 2)
        seconds = np.maximum(self.settings.buffer_s, 1.5 * self.topology.period_s[ends[:, 0]])
        passing = (on_hosts.arriving * self.selectivity)[ends[:, 0]]
        room: Floats = seconds * np.maximum(passing, 1e-9)
        return room

    def start(self, downtime_s: float) -> None:
        """(Re)start: nothing flows for ``downtime_s``, then the operators warm up."""
        self.down_until_s = self.now_s + downtime_s
        self.started_s = self.down_until_s

    def rescale(self, plan: Plan, downtime_s: float) -> None:
        """Stop after the records in flight, as a savepoint does, and start again; windows keep their contents."""
        drained_s = self._drain()
        self._apply(plan)
        self._drift[:] = 0.0
        self.start(downtime_s + drained_s)

    def _drain(self) -> float:
        """Serve everything in flight while the sources are stopped; returns how long that takes."""
        longest_s = 0.0
        topology = self.topology
        for v in topology.order[::-1]:
            incoming = topology.in_edges[topology.in_start[v] : topology.in_start[v + 1]]
            taken = float(self.queue[incoming].sum())
            emitted = float(self.to_fire[v]) * float(self.selectivity[v])
            self.to_fire[v] = 0.0
            self.totals.flow[incoming] += self.queue[incoming]
            self.queue[incoming] = 0.0
            if topology.period_s[v] > 0:
                self.gathered[v] += taken
            else:
                emitted += taken * float(self.selectivity[v])
            outgoing = topology.out_edges[topology.out_start[v] : topology.out_start[v + 1]]
            self.queue[outgoing] += emitted * self.edge_share[outgoing]
            self.totals.sums[v, TAKEN] += taken
            self.totals.sums[v, EMITTED] += emitted
            longest_s = max(longest_s, taken / float(self.capacity[v]))
        return longest_s

    def advance(self, seconds: float) -> None:
        """Let simulated time pass."""
        down_s = min(seconds, max(0.0, self.down_until_s - self.now_s))
        if down_s > 0:
            limit = np.where(self._source_rate > 0, self.settings.backlog_s * np.maximum(self._source_rate, 1e-12), 0.0)
            self.lag = np.minimum(self.lag + self._source_rate * down_s, limit)
            self.totals.lag_sum += self.lag * down_s
            self.now_s += down_s
            self.totals.elapsed_s += down_s
        steps = round((seconds - down_s) / self.settings.step_s)
        while steps > 0:
            chunk = min(steps, _CHUNK_STEPS)
            self._run(chunk)
            steps -= chunk

    def _run(self, steps: int) -> None:
        settings, topology = self.settings, self.topology
        varies = settings.hiccup_cv > 0 or settings.drift_cv > 0 or settings.rate_cv > 0
        shape = (steps, 3, len(self.truth))
        run_steps(
            self._random.standard_normal(shape) if varies else np.zeros(shape),
            settings.step_s,
            self.now_s - self.started_s,
            settings.warmup_s,
            settings.warmup_slowdown,
            topology.order,
            self.capacity,
            self.selectivity,
            self.hot_factor,
            self._fast_cv,
            settings.drift_cv,
            math.exp(-settings.step_s / settings.drift_s),
            self._source_rate,
            topology.is_source,
            settings.rate_cv,
            settings.backlog_s,
            topology.period_s,
            self._fire_share,
            topology.in_start,
            topology.in_edges,
            topology.out_start,
            topology.out_edges,
            self.edge_share,
            self._room,
            self.queue,
            self.lag,
            self._drift,
            self.gathered,
            self.to_fire,
            self.totals.sums,
            self.totals.queue_sum,
            self.totals.lag_sum,
            self.totals.flow,
        )
        self.now_s += steps * settings.step_s
        self.totals.elapsed_s += steps * settings.step_s
