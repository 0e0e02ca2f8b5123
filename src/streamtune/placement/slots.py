"""Slot policies: how many instances of an operator each host gets when they are not placed one by one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from streamtune.dataflow.hosts import Cluster
from streamtune.errors import DataflowError

Ints = npt.NDArray[np.int64]


def spread_evenly(cluster: Cluster, degrees: npt.ArrayLike) -> Ints:
    """Instances per host for every parallelism in an array of any shape; hosts are the last axis.

    Slots are filled host after host in turn, as Flink does with ``taskmanager.load-balance.mode: slots``: the first
    instances of every operator are spread over all hosts, and a host whose slots are taken is passed over.

    >>> from streamtune.dataflow.hosts import Host
    >>> spread_evenly(Cluster((Host(cores=4), Host(cores=2))), [1, 4, 6]).tolist()
    [[1, 0], [2, 2], [4, 2]]
    """
    degrees = np.asarray(degrees, dtype=np.int64)
    if degrees.size and int(degrees.max()) > cluster.cores:
        raise DataflowError(
            f"parallelism {int(degrees.max())} needs as many cores, but the {len(cluster.hosts)} hosts have "
            f"{cluster.cores}: lower the parallelism or add hosts"
        )
    placed: Ints = _instances_by_degree(tuple(host.cores for host in cluster.hosts))[degrees]
    return placed


@lru_cache(maxsize=64)
def _instances_by_degree(cores: tuple[int, ...]) -> Ints:
    """(all cores + 1) × hosts: the instances on each host of an operator with parallelism 0, 1, 2, …"""
    turns = [place for turn in range(max(cores)) for place, own in enumerate(cores) if turn < own]
    taken = np.zeros((len(turns) + 1, len(cores)), dtype=np.int64)
    taken[np.arange(1, len(turns) + 1), turns] = 1
    counts: Ints = np.cumsum(taken, axis=0)
    return counts
