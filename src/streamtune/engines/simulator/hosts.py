"""What hosts and chaining do to a job: slower or shared cores, shared links, fewer exchanges.

Only with a ``Cluster``; without one every instance has a reference core of its own, as before.

- *Chaining.* Operators of one chain share a thread, so their loads add up; what a record costs to read from the network
  (``exchange_share`` of an operator's service time) is saved inside the chain.
- *Speed.* Records are dealt out evenly, so an operator is as fast as its slowest instance: clock rate times the share
  of a core that it gets.
- *Shared cores.* Where more threads want to run than a host has cores, they share (processor sharing). Shares, busy
  times and the throughput that they allow depend on each other and are iterated until they agree.
- *Links.* Where the records that cross a host's link exceed it, the readers of exchanges are slowed in proportion.

All of it is worked out for the mean rates whenever plan or rates change; the compiled time step knows nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import Field

from streamtune.dataflow import Job
from streamtune.dataflow.chaining import chain_heads, chained, forwarded
from streamtune.dataflow.hosts import Cluster
from streamtune.dataflow.operator import Frozen

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_BYTES_PER_FIELD = {"int": 8.0, "long": 8.0, "double": 8.0, "row": 16.0, "string": 24.0}
_BYTES_PER_RECORD = 16.0
_DEFAULT_WIDTH = 3.0
_BYTES_PER_GBIT = 125e6
_ROUNDS = 60


class HostSettings(Frozen):
    """The costs of exchanges between instances; the defaults of times and sizes are Flink's."""

    exchange_share: float = Field(default=0.25, ge=0, lt=1, description="part of a service time that chaining saves")
    flush_s: float = Field(default=0.1, ge=0, description="longest that a record waits for its network buffer to fill")
    buffer_bytes: float = Field(default=32768.0, gt=0, description="size of a network buffer")
    hop_s: float = Field(default=0.0003, ge=0, description="time on the wire between two hosts")


@dataclass(frozen=True)
class OnHosts:
    """A plan on its hosts, for given source rates: N operators, E edges, H hosts."""

    capacity: Floats  # N: records/s, sharing included
    speed: Floats  # N: of the slowest instance, reference core = 1
    heads: Ints  # N: position of the operator that heads the chain
    service_s: Floats  # N: per record, at that speed
    flush_s: Floats  # E: mean wait for a network buffer and time on the wire; 0 inside a chain


def put_on_hosts(
    job: Job,
    capacity: Floats,
    service_s: Floats,
    degrees: Ints,
    demand: Floats,
    emitted: Floats,
    cluster: Cluster,
    settings: HostSettings,
) -> OnHosts:
    """``capacity`` and ``service_s`` on reference cores; ``demand`` and ``emitted`` are what the sources ask for."""
    flow = job.dataflow
    heads = chain_heads(flow, degrees)
    inside = chained(flow, degrees)
    saved = np.where(heads != np.arange(len(heads)), 1.0 - settings.exchange_share, 1.0)
    capacity, service_s = capacity / saved, service_s * saved
    load: Floats = np.bincount(heads, weights=demand / capacity, minlength=len(heads)).astype(np.float64)[heads]
    placed = cluster.instances(degrees)
    link = _link_limit(job, degrees, emitted, placed, inside, cluster)
    speed = _settled_speed(load, heads, placed, cluster, link)
    served = np.where(load > 0, demand / np.where(load > 0, load, 1.0), capacity) * speed
    reads_exchange = np.zeros(len(heads), dtype=np.bool_)
    for (_, target), is_inside in zip(flow.edge_indices, inside, strict=True):
        reads_exchange[target] |= not is_inside
    served = np.where(reads_exchange & (link < 1.0), np.minimum(served, demand * link), served)
    return OnHosts(
        capacity=np.maximum(served, 1e-9),
        speed=speed,
        heads=heads,
        service_s=service_s / speed,
        flush_s=_flush(job, degrees, emitted, inside, settings),
    )


def _settled_speed(load: Floats, heads: Ints, placed: Ints, cluster: Cluster, link: float) -> Floats:
    """Speed of every operator when threads, cores and throughput agree.

    With s the share of a core on each host and x the share of the offered records that gets through: the busiest chain
    limits x, x makes the other chains busy, busy threads share the cores.
    """
    clock = np.array([host.speed for host in cluster.hosts])
    cores = np.array([float(host.cores) for host in cluster.hosts])
    is_head = heads == np.arange(len(heads))
    used = placed > 0
    share = np.ones(len(clock))
    speed = np.ones(len(heads))
    for _ in range(_ROUNDS):
        speed = np.where(used, clock * share, np.inf).min(axis=1)
        passing = min(1.0, link, float((speed / np.maximum(load, 1e-12)).min()))
        busy = np.minimum(1.0, passing * load / speed)
        wanted = (placed * (busy * is_head)[:, None]).sum(axis=0)
        settled = np.minimum(1.0, cores / np.maximum(wanted, 1e-12))
        if np.abs(settled - share).max() < 1e-6:
            break
        share = np.sqrt(share * settled)  # halfway, in logarithms: the plain step can swing
    return speed


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
    job: Job, degrees: Ints, emitted: Floats, placed: Ints, inside: npt.NDArray[np.bool_], cluster: Cluster
) -> float:
    """The share of the offered records that the links can carry; 1 or more means that they are no limit."""
    leaving = np.zeros(len(cluster.hosts))
    arriving = np.zeros(len(cluster.hosts))
    size = _record_bytes(job)
    is_local = forwarded(job.dataflow, degrees)
    for position, (a, b) in enumerate(job.dataflow.edge_indices):
        if inside[position] or is_local[position]:
            continue
        traffic = emitted[a] * size[a]
        sent, read = placed[a] / degrees[a], placed[b] / degrees[b]
        leaving += traffic * sent * (1.0 - read)
        arriving += traffic * read * (1.0 - sent)
    link = np.array([host.network_gbps * _BYTES_PER_GBIT for host in cluster.hosts])
    busiest = float((np.maximum(leaving, arriving) / link).max())
    return 1.0 / busiest if busiest > 1.0 else 1.0


def _flush(job: Job, degrees: Ints, emitted: Floats, inside: npt.NDArray[np.bool_], settings: HostSettings) -> Floats:
    """Mean wait for a network buffer: half of what it takes to fill one, or of the longest wait allowed.

    Every pair of instances has a channel of its own, so that more parallelism fills buffers more slowly.
    """
    size = _record_bytes(job)
    is_local = forwarded(job.dataflow, degrees)
    waits = np.zeros(len(inside))
    for position, (a, b) in enumerate(job.dataflow.edge_indices):
        if inside[position]:
            continue
        channels = degrees[a] if is_local[position] else degrees[a] * degrees[b]
        per_channel = emitted[a] * size[a] / channels
        fill_s = settings.buffer_bytes / per_channel if per_channel > 0 else np.inf
        waits[position] = min(settings.flush_s, fill_s) / 2 + (0.0 if is_local[position] else settings.hop_s)
    return waits
