"""What the simulator reports: Flink's metrics, with the documented error of measured useful time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from streamtune.dataflow import Observation, OperatorMetrics
from streamtune.dataflow.observation import EdgeMetrics, InstancePairMetrics
from streamtune.dataflow.plan import Instance
from streamtune.engines.simulator.host_latency import latency_on_hosts_ms
from streamtune.engines.simulator.kernel import BLOCKED, BUSY, EMITTED, TAKEN
from streamtune.engines.simulator.model import Floats, Simulation

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def observation_of(simulation: Simulation, random: np.random.Generator) -> Observation:
    """The totals since the last reset as an ``Observation``."""
    totals, job = simulation.totals, simulation.job
    elapsed_s = totals.elapsed_s
    blocked_ms = 1000 * totals.sums[:, BLOCKED] / elapsed_s
    busy_max_ms = 1000 * totals.sums[:, BUSY] / elapsed_s
    busy_ms = _with_error(busy_max_ms / simulation.hot_factor, blocked_ms, simulation, random)
    operators = {}
    for position, operator in enumerate(job.dataflow.operators):
        busy, blocked = float(busy_ms[position]), float(blocked_ms[position])
        hottest = min(busy * float(simulation.hot_factor[position]), max(busy, 1000 - blocked))
        taken = float(totals.sums[position, TAKEN]) / elapsed_s
        operators[operator.id] = OperatorMetrics(
            parallelism=simulation.plan[operator.id],
            records_in_per_s=taken,
            records_out_per_s=float(totals.sums[position, EMITTED]) / elapsed_s,
            busy_ms_per_s=busy,
            idle_ms_per_s=max(0.0, 1000 - busy - blocked),
            backpressured_ms_per_s=blocked,
            busy_max_ms_per_s=hottest,
            cpu_load=min(1.0, busy / 1000),
            lag_records=float(simulation.lag[position]) if operator.is_source else None,
        )
    sources = simulation.topology.is_source
    return Observation(
        observed_at=EPOCH + timedelta(seconds=simulation.now_s),
        window_s=elapsed_s,
        source_rates=dict(simulation.rates),
        operators=operators,
        edges=tuple(
            EdgeMetrics(
                source=edge.source,
                target=edge.target,
                records_per_s=operators[edge.source].records_out_per_s * float(share),
            )
            for edge, share in zip(job.dataflow.edges, simulation.edge_share, strict=True)
        ),
        latency_ms=_latency_ms(simulation),
        throughput_per_s=float(totals.sums[sources, EMITTED].sum()) / elapsed_s,
        instance_pairs=_instance_pairs(simulation),
        hosts={} if simulation.plan.placement is None else {str(one): host for one, host in _placement(simulation)},
    )


def _placement(simulation: Simulation) -> list[tuple[Instance, str]]:
    return list((simulation.plan.placement or {}).items())


def _instance_pairs(simulation: Simulation) -> tuple[InstancePairMetrics, ...]:
    """What went from instance to instance, under a plan with a placement.

    Bytes are what a pair puts on the wire, or would if it were on two hosts: the weights that a placement needs.
    """
    assignment, totals = simulation.assignment, simulation.totals
    if assignment is None:
        return ()
    edge_of, a, b, rates, sizes = assignment.channels(totals.flow / totals.elapsed_s)
    wire = simulation.settings.hosts.wire.per_second(rates, sizes)
    edges = simulation.job.dataflow.edges
    return tuple(
        InstancePairMetrics(
            source=edges[edge].source,
            target=edges[edge].target,
            source_instance=i,
            target_instance=j,
            records_per_s=rate,
            bytes_per_s=sent,
        )
        for edge, i, j, rate, sent in zip(
            edge_of.tolist(), a.tolist(), b.tolist(), rates.tolist(), wire.tolist(), strict=True
        )
    )


def traffic_between_hosts(simulation: Simulation) -> Floats:
    """hosts × hosts: bytes/s on the wire over the window that was measured; none without a placement."""
    assignment, totals = simulation.assignment, simulation.totals
    if assignment is None:
        return np.zeros((0, 0))
    return assignment.traffic(totals.flow / totals.elapsed_s, simulation.settings.hosts.wire)


def _with_error(true_ms: Floats, blocked_ms: Floats, simulation: Simulation, random: np.random.Generator) -> Floats:
    """Reported busy time; drawn per operator so that a job's other operators do not change its noise."""
    error = simulation.settings.error
    bias = np.array([error.bias(kind) for kind in simulation.job.dataflow.types])
    noise = error.noise_sigma * random.standard_normal(len(bias))
    reported: Floats = np.clip(true_ms * (1 + bias) * (1 + noise), 0.0, np.maximum(0.0, 1000 - blocked_ms))
    return reported


def _latency_ms(simulation: Simulation) -> float:
    """Mean end-to-end latency of the slowest path: waiting (Little's law), service, and half a window's period."""
    if simulation.on_hosts is not None:
        return latency_on_hosts_ms(simulation, simulation.on_hosts)
    totals, topology = simulation.totals, simulation.topology
    elapsed_s = totals.elapsed_s
    service_s = np.array([truth.service_us for truth in simulation.truth]) / 1e6
    reached = np.zeros(len(service_s))
    for v in topology.order[::-1]:
        own_s = service_s[v] + topology.period_s[v] / 2
        if topology.is_source[v]:
            rate = totals.sums[v, TAKEN] / elapsed_s
            reached[v] = own_s + (totals.lag_sum[v] / elapsed_s / rate if rate > 0 else 0.0)
            continue
        slowest = 0.0
        for edge in topology.in_edges[topology.in_start[v] : topology.in_start[v + 1]]:
            rate = totals.flow[edge] / elapsed_s
            waiting_s = totals.queue_sum[edge] / elapsed_s / rate if rate > 0 else 0.0
            slowest = max(slowest, float(reached[topology.edges[edge][0]] + waiting_s))
        reached[v] = slowest + own_s
    return float(reached.max() * 1000)
