"""The hosts of ZeroTune's Table II (CloudLab), seen and unseen in training."""

from __future__ import annotations

import numpy as np

from streamtune.dataflow.hosts import Cluster, Host
from streamtune.workloads.pqp import pick

# kind → (cores, GHz, memory in GB); rs620 machines differ among themselves.
_MACHINES: dict[str, tuple[tuple[int, float, float], ...]] = {
    "m510": ((8, 2.0, 64),),
    "rs620": ((8, 2.2, 128), (10, 2.2, 384)),
    "c6420": ((32, 2.6, 384),),
    "c8220x": ((20, 2.2, 256),),
    "c8220": ((20, 2.2, 256),),
    "dss7500": ((12, 2.4, 128),),
    "c6320": ((28, 2.0, 256),),
    "rs6525": ((64, 2.8, 256),),
}
KINDS = tuple(_MACHINES)
SEEN_KINDS = ("m510", "rs620")
UNSEEN_KINDS = tuple(kind for kind in _MACHINES if kind not in SEEN_KINDS)
SEEN_WORKERS = (2, 4, 6)
UNSEEN_WORKERS = (3, 8, 10)
LINKS_GBPS = (1.0, 10.0)


def machine(kind: str, variant: int = 0, network_gbps: float = 10.0) -> Host:
    """One machine of a kind.

    >>> machine("m510").cores
    8
    """
    cores, ghz, memory_gb = _MACHINES[kind][variant]
    return Host(kind=kind, cores=cores, ghz=ghz, memory_gb=memory_gb, network_gbps=network_gbps)


def draw_cluster(
    rng: np.random.Generator,
    kinds: tuple[str, ...] = SEEN_KINDS,
    workers: tuple[int, ...] = SEEN_WORKERS,
    *,
    homogeneous: bool | None = None,
) -> Cluster:
    """Some workers of one kind (homogeneous) or each of any kind (heterogeneous), all with one link speed."""
    count, link = pick(rng, workers), pick(rng, LINKS_GBPS)
    alike = bool(rng.random() < 0.5) if homogeneous is None else homogeneous
    chosen = [pick(rng, kinds)] * count if alike else [pick(rng, kinds) for _ in range(count)]
    return Cluster.of(machine(kind, int(rng.integers(len(_MACHINES[kind]))), link) for kind in chosen)
