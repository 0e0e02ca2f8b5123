"""A plan's placement on simulated hosts: which host every instance is on, and what goes from instance to instance.

Only where a plan has a placement; without one instances are dealt out evenly (see ``hosts``). Bytes are those on the
wire (``HopCost``), as calibrated on real hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Edge, Job, Plan
from streamtune.dataflow.hosts import Cluster
from streamtune.dataflow.plan import Instance
from streamtune.placement.unroll import pair_shares, record_bytes
from streamtune.placement.wire import HopCost

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Assignment:
    """Every instance on its host. ``shares`` has, per edge, the share of its records for each pair of instances."""

    job: Job
    plan: Plan
    hosts_of: Mapping[str, Ints]  # per operator: the host of each instance
    shares: tuple[Floats, ...]
    hosts: int

    @classmethod
    def of(
        cls, job: Job, plan: Plan, cluster: Cluster, is_forwarded: Sequence[bool] | Bools, hot: Sequence[float] | Floats
    ) -> Assignment:
        """``is_forwarded`` says which edges need no exchange, ``hot`` how much more the hottest instance gets."""
        placement = plan.placement or {}
        place = {name: position for position, name in enumerate(cluster.names)}
        hosts_of = {
            key: np.array([place[placement[Instance(key, number)]] for number in range(degree)], dtype=np.int64)
            for key, degree in plan.items()
        }
        spread = {
            one.id: _spread(plan[one.id], factor) for one, factor in zip(job.dataflow.operators, hot, strict=True)
        }
        even = {key: np.full(degree, 1.0 / degree) for key, degree in plan.items()}
        shares = tuple(
            pair_shares(_as_run(edge, forward), plan, spread if edge.partitioning == "hash" else even)
            for edge, forward in zip(job.dataflow.edges, is_forwarded, strict=True)
        )
        return cls(job, plan, hosts_of, shares, len(cluster.hosts))

    @cached_property
    def placed(self) -> Ints:
        """N × hosts: instances of every operator on every host."""
        counted = [np.bincount(self.hosts_of[one.id], minlength=self.hosts) for one in self.job.dataflow.operators]
        return np.array(counted, dtype=np.int64)

    @cached_property
    def remote_share(self) -> Floats:
        """E: the share of an edge's records that goes between hosts."""
        pairs = zip(self.job.dataflow.edges, self.shares, strict=True)
        return np.array(
            [
                float(shares[self.hosts_of[edge.source][:, None] != self.hosts_of[edge.target][None, :]].sum())
                / max(float(shares.sum()), 1e-300)
                for edge, shares in pairs
            ]
        )

    def channels(self, records_per_s: Floats) -> tuple[Ints, Ints, Ints, Floats, Floats]:
        """Edge, sending and receiving instance, records/s and bytes of a record of every pair that exchanges any."""
        found = []
        for position, (edge, shares) in enumerate(zip(self.job.dataflow.edges, self.shares, strict=True)):
            a, b = np.nonzero(shares)
            size = record_bytes(self.job.dataflow.operator(edge.source))
            rates = shares[a, b] * records_per_s[position]
            found.append(np.column_stack([np.full(a.size, position), a, b, rates, np.full(a.size, size)]))
        every = np.concatenate(found) if found else np.zeros((0, 5))
        edge_of, a, b = (every[:, column].astype(np.int64) for column in range(3))
        return edge_of, a, b, every[:, 3], every[:, 4]

    def traffic(self, records_per_s: Floats, cost: HopCost) -> Floats:
        """hosts × hosts: bytes/s on the wire when so many records/s go over each edge."""
        edge_of, a, b, rates, sizes = self.channels(records_per_s)
        edges = self.job.dataflow.edges
        ends = np.array(
            [
                (self.hosts_of[edges[edge].source][i], self.hosts_of[edges[edge].target][j])
                for edge, i, j in zip(edge_of.tolist(), a.tolist(), b.tolist(), strict=True)
            ],
            dtype=np.int64,
        ).reshape(-1, 2)
        return cost.between_hosts(rates, sizes, ends[:, 0], ends[:, 1], self.hosts)


def _as_run(edge: Edge, forward: bool) -> Edge:
    """Where partitioning is left open, an edge is forwarded or rebalanced by the parallelism of its ends."""
    if edge.partitioning in ("forward", "rebalance"):
        return replace(edge, partitioning="forward" if forward else "rebalance")
    return edge


def _spread(degree: int, hot: float) -> Floats:
    """Shares of keys: the first instance is the hottest, the others get the rest in equal parts."""
    if degree == 1:
        return np.ones(1)
    first = min(1.0, max(hot, 1.0) / degree)
    return np.array([first, *[(1.0 - first) / (degree - 1)] * (degree - 1)])
