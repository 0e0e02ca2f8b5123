"""``PlanGraphs``: the parallel graphs of many plans, flat, so that a batch is a few slices (ZeroTune Section III-C2).

Nodes are operators and hosts. Edges are the dataflow, all pairs of hosts of one cluster (kept implicitly: a message
over a complete graph is a mean over the cluster), and placements: an operator with instances on a host, and how many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from streamtune.costmodel.columns import PlanColumns

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

# One encoder per group of operator types; the last takes whatever has no encoder of its own.
GROUPS = ("source", "filter", "join", "aggregate", "other")
_GROUP_OF = {"source": 0, "filter": 1, "join": 2, "window_join": 2, "aggregate": 3, "window_aggregate": 3}


def group_of(kind: str) -> int:
    """Position in ``GROUPS`` of the encoder for an operator type.

    >>> GROUPS[group_of("window_join")], GROUPS[group_of("sink")]
    ('join', 'other')
    """
    return _GROUP_OF.get(kind, len(GROUPS) - 1)


@dataclass(frozen=True)
class PlanBatch:
    """Some plans as tensors. Operators are sorted by level, their depth in the dataflow, and edges by their target.

    ``level_starts[k]`` is the first operator of level k, ``edge_starts[k]`` the first edge into it. ``origin`` has the
    position of each operator before sorting.
    """

    operators: torch.Tensor  # N × F
    groups: torch.Tensor  # N
    rates: torch.Tensor  # N: records/s of a source, 0 elsewhere
    hosts: torch.Tensor  # H × F
    edges: torch.Tensor  # 2 × E
    placed_operator: torch.Tensor  # L
    placed_host: torch.Tensor  # L
    share: torch.Tensor  # L: of the operator's instances that are on the host
    load: torch.Tensor  # L: instances per core of the host
    plan_of_operator: torch.Tensor  # N
    plan_of_host: torch.Tensor  # H
    is_last: torch.Tensor  # N: nobody reads it
    level_starts: tuple[int, ...]
    edge_starts: tuple[int, ...]
    plans: int
    origin: Ints  # N


@dataclass(frozen=True)
class PlanGraphs:
    """R plans; positions in edges and placements count over all of them."""

    operators: Floats  # N × F
    groups: Ints  # N
    rates: Floats  # N
    levels: Ints  # N
    hosts: Floats  # H × F
    edges: Ints  # 2 × E
    placements: Ints  # 3 × L: operator, host, instances
    degrees: Ints  # N
    cores: Floats  # H
    starts: Ints  # R + 1
    host_starts: Ints  # R + 1
    edge_starts: Ints  # R + 1
    placement_starts: Ints  # R + 1

    @classmethod
    def of(cls, columns: PlanColumns, operators: Floats, hosts: Floats, groups: Ints) -> PlanGraphs:
        starts, host_starts = _starts(columns.sizes), _starts(columns.host_counts)
        edges = columns.edges + np.repeat(starts[:-1], columns.edge_counts)
        shift = np.stack([starts[:-1], host_starts[:-1], np.zeros(columns.plans, dtype=np.int64)])
        return cls(
            operators=operators,
            groups=groups.astype(np.int64),
            rates=columns.numbers["event_rate"].astype(np.float32),
            levels=_levels(edges, len(operators)),
            hosts=hosts.astype(np.float32),
            edges=edges,
            placements=columns.placements + np.repeat(shift, columns.placement_counts, axis=1),
            degrees=columns.numbers["parallelism"].astype(np.int64),
            cores=columns.hosts["cores"].astype(np.float32),
            starts=starts,
            host_starts=host_starts,
            edge_starts=_starts(columns.edge_counts),
            placement_starts=_starts(columns.placement_counts),
        )

    @property
    def plans(self) -> int:
        return len(self.starts) - 1

    def select(self, plans: npt.ArrayLike) -> PlanGraphs:
        """Some of the plans, in the order given."""
        plans = np.asarray(plans, dtype=np.int64)
        operators, sizes = _slices(self.starts, plans)
        hosts, host_counts = _slices(self.host_starts, plans)
        edges, edge_counts = _slices(self.edge_starts, plans)
        placements, placement_counts = _slices(self.placement_starts, plans)
        starts, host_starts = _starts(sizes), _starts(host_counts)
        shift, host_shift = starts[:-1] - self.starts[plans], host_starts[:-1] - self.host_starts[plans]
        moved = np.stack([shift, host_shift, np.zeros(len(plans), dtype=np.int64)])
        return PlanGraphs(
            operators=self.operators[operators],
            groups=self.groups[operators],
            rates=self.rates[operators],
            levels=self.levels[operators],
            hosts=self.hosts[hosts],
            edges=self.edges[:, edges] + np.repeat(shift, edge_counts),
            placements=self.placements[:, placements] + np.repeat(moved, placement_counts, axis=1),
            degrees=self.degrees[operators],
            cores=self.cores[hosts],
            starts=starts,
            host_starts=host_starts,
            edge_starts=_starts(edge_counts),
            placement_starts=_starts(placement_counts),
        )

    def batch(self, plans: npt.ArrayLike | None = None) -> PlanBatch:
        """Some plans (all by default) as tensors."""
        chosen = self if plans is None else self.select(plans)
        origin = np.argsort(chosen.levels, kind="stable")
        place = np.empty_like(origin)
        place[origin] = np.arange(len(origin))
        levels = chosen.levels[origin]
        edges = place[chosen.edges]
        edges = edges[:, np.argsort(edges[1], kind="stable")]
        deepest = int(levels[-1]) if len(levels) else 0
        level_starts = np.searchsorted(levels, np.arange(deepest + 2))
        edge_starts = np.searchsorted(edges[1], level_starts)
        operator, host, instances = chosen.placements
        is_last = np.ones(len(origin), dtype=np.bool_)
        is_last[edges[0]] = False
        plan_of = np.repeat(np.arange(chosen.plans), np.diff(chosen.starts))[origin]
        return PlanBatch(
            operators=torch.from_numpy(chosen.operators[origin]),
            groups=torch.from_numpy(chosen.groups[origin]),
            rates=torch.from_numpy(chosen.rates[origin]),
            hosts=torch.from_numpy(chosen.hosts),
            edges=torch.from_numpy(np.ascontiguousarray(edges)),
            placed_operator=torch.from_numpy(place[operator]),
            placed_host=torch.from_numpy(host.copy()),
            share=torch.from_numpy((instances / chosen.degrees[operator]).astype(np.float32)),
            load=torch.from_numpy((instances / chosen.cores[host]).astype(np.float32)),
            plan_of_operator=torch.from_numpy(plan_of),
            plan_of_host=torch.from_numpy(np.repeat(np.arange(chosen.plans), np.diff(chosen.host_starts))),
            is_last=torch.from_numpy(is_last),
            level_starts=tuple(level_starts.tolist()),
            edge_starts=tuple(edge_starts.tolist()),
            plans=chosen.plans,
            origin=origin,
        )


def _starts(counts: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _slices(starts: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """Positions of everything that belongs to the chosen plans, and how much belongs to each."""
    counts = starts[chosen + 1] - starts[chosen]
    first = np.repeat(starts[chosen] - _starts(counts)[:-1], counts)
    return first + np.arange(int(counts.sum())), counts


def _levels(edges: Ints, size: int) -> Ints:
    """Length of the longest path to each operator."""
    levels = np.zeros(size, dtype=np.int64)
    for _ in range(size):
        deeper = levels.copy()
        np.maximum.at(deeper, edges[1], levels[edges[0]] + 1)
        if np.array_equal(deeper, levels):
            break
        levels = deeper
    return levels
