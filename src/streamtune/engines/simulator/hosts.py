"""What hosts and chaining do to a job: slower or shared cores, shared links, fewer exchanges.

Only with a ``Cluster``; without one every instance has a reference core of its own.

- *Chaining.* Operators of one chain share a thread, so their loads add up; what a record costs to read from the network
  (``exchange_share`` of an operator's service time) is saved inside the chain.
- *Speed.* Records are dealt out evenly, so an operator is as fast as its slowest instance: clock rate times the share
  of a core that it gets.
- *Shared cores.* Where more threads want to run than a host has cores, they share (processor sharing). Shares, busy
  times and the throughput that they allow depend on each other and are iterated until they agree.
- *Links.* Where the records that cross a host's link exceed it, the readers of exchanges are slowed in proportion.
- *Placement.* A plan that says on which host every instance runs is followed: chains whose instances are apart are
  broken, links carry what really crosses them, in bytes on the wire (see ``assignment``).
- *Buffers* hold a few seconds of what really gets through, as Flink's buffer debloating sees to, not of what the reader
  could do: behind a bottleneck both differ by orders of magnitude, and so would the time that records wait.

All of it is worked out for the mean rates whenever plan or rates change; the compiled time step knows nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Job
from streamtune.dataflow.chaining import chained, forwarded, heads_of
from streamtune.dataflow.hosts import Cluster
from streamtune.engines.simulator.assignment import Assignment
from streamtune.engines.simulator.host_kernel import settle
from streamtune.engines.simulator.settings import HostSettings
from streamtune.placement.slots import spread_evenly

if TYPE_CHECKING:
    from streamtune.engines.simulator.model import Topology

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BYTES_PER_FIELD = {"int": 8.0, "long": 8.0, "double": 8.0, "row": 16.0, "string": 24.0}
_BYTES_PER_RECORD = 16.0
_DEFAULT_WIDTH = 3.0
_BYTES_PER_GBIT = 125e6
_ROUNDS = 60


@dataclass(frozen=True)
class OnHosts:
    """A plan on its hosts, for given source rates: N operators, E edges."""

    capacity: Floats  # N: records/s, sharing included
    arriving: Floats  # N: records/s that get through to it
    heads: Ints  # N: position of the operator that heads the chain
    service_s: Floats  # N: per record, on its slowest instance
    flush_s: Floats  # E: mean wait for a network buffer and time on the wire; 0 inside a chain


@dataclass(frozen=True)
class Demand:
    """What the sources ask of N operators, and what these could do on reference cores of their own."""

    capacity: Floats  # N: records/s
    service_s: Floats  # N: per record
    degrees: Ints  # N: parallelism
    arriving: Floats  # N: records/s
    emitted: Floats  # N: records/s


def put_on_hosts(
    job: Job,
    topology: Topology,
    asked: Demand,
    cluster: Cluster,
    settings: HostSettings,
    assignment: Assignment | None = None,
) -> OnHosts:
    """Chain, place, and let everything that shares a thread, a core or a link settle."""
    flow, degrees = job.dataflow, asked.degrees
    positions = np.arange(len(flow.operators))
    inside, is_forwarded = chained(flow, degrees), forwarded(flow, degrees)
    is_local = is_forwarded
    if assignment is not None:
        is_local = assignment.remote_share == 0
        inside = inside & is_local
    heads = heads_of(flow, inside)
    saved = np.where(heads != positions, 1.0 - settings.exchange_share, 1.0)
    own = asked.arriving / (asked.capacity / saved)
    load: Floats = np.bincount(heads, weights=own, minlength=len(heads)).astype(np.float64)[heads]
    if assignment is None:
        placed = spread_evenly(cluster, degrees)
        link = _link_limit(asked, topology, _record_bytes(job), placed, is_local, cluster)
    else:
        placed = assignment.placed
        crossing = assignment.traffic(asked.emitted[[a for a, _ in topology.edges]], settings.wire)
        link = _carried(crossing.sum(axis=1), crossing.sum(axis=0), cluster)
    ends = np.array(topology.edges, dtype=np.int64).reshape(-1, 2)
    speed, through = settle(
        topology.order,
        topology.in_start,
        topology.in_edges,
        topology.out_start,
        topology.out_edges,
        ends[:, 0].copy(),
        ends[:, 1].copy(),
        load,
        heads,
        asked.emitted,
        placed,
        np.array([host.speed for host in cluster.hosts]),
        np.array([float(host.cores) for host in cluster.hosts]),
        link,
        _ROUNDS,
    )
    served = np.where(load > 0, asked.arriving / np.where(load > 0, load, 1.0), asked.capacity) * speed
    if link < 1.0:
        reads_exchange = np.isin(positions, ends[~is_local, 1])
        served = np.where(reads_exchange, np.minimum(served, asked.arriving * link), served)
    return OnHosts(
        capacity=np.maximum(served, 1e-9),
        arriving=asked.arriving * through,
        heads=heads,
        service_s=asked.service_s * saved / speed,
        flush_s=_flush(
            asked, asked.emitted * through, topology, _record_bytes(job), inside, is_forwarded, is_local, settings
        ),
    )


def _record_bytes(job: Job) -> Floats:
    """Size of a record that each operator emits."""
    return np.array(
        [
            _BYTES_PER_RECORD
            + (operator.tuple_width_out or operator.tuple_width_in or _DEFAULT_WIDTH)
            * _BYTES_PER_FIELD.get(operator.tuple_type or "row", 16.0)
            for operator in job.dataflow.operators
        ]
    )


def _link_limit(
    asked: Demand, topology: Topology, record_bytes: Floats, placed: Ints, is_local: Bools, cluster: Cluster
) -> float:
    """The share of the demand that the links can carry; 1 where they do not limit it."""
    leaving = np.zeros(len(cluster.hosts))
    arriving = np.zeros(len(cluster.hosts))
    for position, (a, b) in enumerate(topology.edges):
        if is_local[position]:
            continue
        traffic = asked.emitted[a] * record_bytes[a]
        sent, read = placed[a] / asked.degrees[a], placed[b] / asked.degrees[b]
        leaving += traffic * sent * (1.0 - read)
        arriving += traffic * read * (1.0 - sent)
    return _carried(leaving, arriving, cluster)


def _carried(leaving: Floats, arriving: Floats, cluster: Cluster) -> float:
    """The share of these bytes/s that the links carry; 1 where they do not limit it."""
    link = np.array([host.network_gbps * _BYTES_PER_GBIT for host in cluster.hosts])
    busiest = float((np.maximum(leaving, arriving) / link).max())
    return 1.0 / busiest if busiest > 1.0 else 1.0


def _flush(
    asked: Demand,
    sent: Floats,
    topology: Topology,
    record_bytes: Floats,
    inside: Bools,
    is_forwarded: Bools,
    is_local: Bools,
    settings: HostSettings,
) -> Floats:
    """Mean wait for a network buffer: half of what it takes ``sent`` records/s to fill one, or of the longest wait.

    Every pair of instances has a channel of its own, so that more parallelism fills buffers more slowly.
    """
    waits = np.zeros(len(inside))
    for position, (a, b) in enumerate(topology.edges):
        if inside[position]:
            continue
        channels = asked.degrees[a] if is_forwarded[position] else asked.degrees[a] * asked.degrees[b]
        per_channel = sent[a] * record_bytes[a] / channels
        fill_s = settings.buffer_bytes / per_channel if per_channel > 0 else np.inf
        waits[position] = min(settings.flush_s, fill_s) / 2 + (0.0 if is_local[position] else settings.hop_s)
    return waits
