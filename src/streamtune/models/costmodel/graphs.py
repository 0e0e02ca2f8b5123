"""``PlanGraphs``: the parallel graphs of many plans, flat, so that a batch is a few slices (ZeroTune Section III-C2).

Nodes are operators and hosts. Edges are the dataflow, all pairs of hosts of one cluster (kept implicitly: a message
over a complete graph is a mean over the cluster), and placements: an operator with instances on a host, and how many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from streamtune.models.costmodel.columns import PlanColumns

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
class Level:
    """The operators of one depth in the dataflow, from ``first`` to ``end`` in a batch that is sorted by depth."""

    first: int
    end: int
    source: torch.Tensor  # of the edges into this level: position in the batch
    target: torch.Tensor  # of the same edges: position in this level
    reader: torch.Tensor  # of the edges out of this level: position behind it
    reader_of: torch.Tensor  # position in this level of each operator, then of the source of each edge out of it

    @property
    def size(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class PlanBatch:
    """Some plans as tensors; operators are sorted by level."""

    operators: torch.Tensor  # N × F
    rates: torch.Tensor  # N: records/s of a source, 0 elsewhere
    hosts: torch.Tensor  # H × F
    placed_operator: torch.Tensor  # L
    placed_host: torch.Tensor  # L
    share: torch.Tensor  # L: of the operator's instances that are on the host
    load: torch.Tensor  # L: instances per core of the host
    plan_of_operator: torch.Tensor  # N
    plan_of_host: torch.Tensor  # H
    is_last: torch.Tensor  # N: it has no reader
    by_group: tuple[torch.Tensor, ...]  # positions of the operators of each group
    group_order: torch.Tensor  # N: from the order of ``by_group`` back to that of the batch
    levels: tuple[Level, ...]
    plans: int


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
        edges = place[chosen.edges]
        operator, host, instances = chosen.placements
        is_last = np.ones(len(origin), dtype=np.bool_)
        is_last[edges[0]] = False
        plan_of = np.repeat(np.arange(chosen.plans), np.diff(chosen.starts))[origin]
        groups = chosen.groups[origin]
        by_group = [np.flatnonzero(groups == group) for group in range(len(GROUPS))]
        return PlanBatch(
            operators=torch.from_numpy(chosen.operators[origin]),
            rates=torch.from_numpy(chosen.rates[origin]),
            hosts=torch.from_numpy(chosen.hosts),
            placed_operator=torch.from_numpy(place[operator]),
            placed_host=torch.from_numpy(host.copy()),
            share=torch.from_numpy((instances / chosen.degrees[operator]).astype(np.float32)),
            load=torch.from_numpy((instances / chosen.cores[host]).astype(np.float32)),
            plan_of_operator=torch.from_numpy(plan_of),
            plan_of_host=torch.from_numpy(np.repeat(np.arange(chosen.plans), np.diff(chosen.host_starts))),
            is_last=torch.from_numpy(is_last),
            by_group=tuple(torch.from_numpy(index) for index in by_group),
            group_order=torch.from_numpy(np.argsort(np.concatenate(by_group), kind="stable")),
            levels=_batch_levels(chosen.levels[origin], edges),
            plans=chosen.plans,
        )


def _batch_levels(levels: Ints, edges: Ints) -> tuple[Level, ...]:
    """The levels of operators that are sorted by level."""
    deepest = int(levels[-1]) if len(levels) else -1
    starts = np.searchsorted(levels, np.arange(deepest + 2))
    into = edges[:, np.argsort(edges[1], kind="stable")]
    out_of = edges[:, np.argsort(edges[0], kind="stable")]
    into_starts, out_starts = np.searchsorted(into[1], starts), np.searchsorted(out_of[0], starts)
    found = []
    for depth in range(deepest + 1):
        first, end = int(starts[depth]), int(starts[depth + 1])
        entering = into[:, into_starts[depth] : into_starts[depth + 1]]
        leaving = out_of[:, out_starts[depth] : out_starts[depth + 1]]
        found.append(
            Level(
                first=first,
                end=end,
                source=torch.from_numpy(entering[0].copy()),
                target=torch.from_numpy(entering[1] - first),
                reader=torch.from_numpy(leaving[1] - end),
                reader_of=torch.from_numpy(np.concatenate([np.arange(end - first), leaving[0] - first])),
            )
        )
    return tuple(found)


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
