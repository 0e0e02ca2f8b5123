"""End-to-end latency on hosts (ZeroTune Definition 1): processing, network, and waiting of every kind.

The fluid knows queues of records that cannot be served yet, but not the queueing of single records in front of an
instance that is busy most of the time, nor windows that count; both are added here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamtune.engines.simulator.hosts import OnHosts
from streamtune.engines.simulator.kernel import BUSY, TAKEN

if TYPE_CHECKING:
    from streamtune.engines.simulator.model import Simulation

Floats = npt.NDArray[np.float64]

# Beyond this share of busy time the queue is one of the fluid's, which is bounded by its buffers.
_BUSIEST = 0.97


def latency_on_hosts_ms(simulation: Simulation, on_hosts: OnHosts) -> float:
    """Mean latency of the slowest path from a source to the end.

    A path sums, per operator: waiting in front of an instance, service, waiting in a window; per edge: the queue that
    backpressure builds (Little's law), and the network buffer and wire unless both ends are chained.
    """
    totals, topology = simulation.totals, simulation.topology
    elapsed_s = totals.elapsed_s
    own_s = on_hosts.service_s + _queueing_s(simulation, on_hosts) + _window_wait_s(simulation)
    reached = np.zeros(len(own_s))
    # A record emitted in one step is taken in the next at the earliest: an artefact of the time step, not a wait.
    step_s = simulation.settings.step_s
    for v in topology.order[::-1]:
        if topology.is_source[v]:
            rate = totals.sums[v, TAKEN] / elapsed_s
            # A generator that is held back makes no more records than its backlog: none is older than that.
            behind_s = totals.lag_sum[v] / elapsed_s / rate if rate > 0 else 0.0
            reached[v] = own_s[v] + min(behind_s, simulation.settings.backlog_s)
            continue
        slowest = 0.0
        for edge in topology.in_edges[topology.in_start[v] : topology.in_start[v + 1]]:
            rate = totals.flow[edge] / elapsed_s
            queued_s = max(0.0, totals.queue_sum[edge] / elapsed_s / rate - step_s) if rate > 0 else 0.0
            slowest = max(slowest, float(reached[topology.edges[edge][0]] + queued_s + on_hosts.flush_s[edge]))
        reached[v] = slowest + own_s[v]
    return float(reached.max() * 1000)


def _queueing_s(simulation: Simulation, on_hosts: OnHosts) -> Floats:
    """Mean wait in front of an instance with random arrivals (Pollaczek–Khinchine); one queue per chain.

    W = ρ / (1 − ρ) · S · (1 + cv²) / 2 with S the time that a record keeps its instance busy.
    """
    totals = simulation.totals
    degrees = np.array([simulation.plan[operator.id] for operator in simulation.job.dataflow.operators])
    busy = np.minimum(_BUSIEST, totals.sums[:, BUSY] / totals.elapsed_s / simulation.hot_factor)
    arriving = totals.sums[:, TAKEN] / totals.elapsed_s
    per_record_s = np.divide(busy * degrees, arriving, out=np.zeros(len(busy)), where=arriving > 0)
    cv = np.array([truth.cv for truth in simulation.truth])
    wait = busy / (1 - busy) * per_record_s * (1 + cv**2) / 2
    return np.where(on_hosts.heads == np.arange(len(wait)), wait, 0.0)


def _window_wait_s(simulation: Simulation) -> Floats:
    """Half a period of a time window; half of what it takes an instance's windows to fill when they count.

    A window that does not fill while it is watched has made its records wait for as long as that.
    """
    totals, waits = simulation.totals, simulation.topology.period_s / 2
    for position, operator in enumerate(simulation.job.dataflow.operators):
        if operator.window is not None and operator.window.policy == "count":
            arriving = totals.sums[position, TAKEN] / totals.elapsed_s / simulation.plan[operator.id]
            half = (operator.window.period - 1) / 2
            waits[position] = min(totals.elapsed_s, half / arriving) if arriving > 0 else totals.elapsed_s
    return waits
