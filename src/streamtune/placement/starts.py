"""Where our search begins: METIS on the hosts as they are, whole connected pieces, and what the baselines say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from streamtune.placement.even import Even
from streamtune.placement.graph import Adjacency, Floats, Ints, compressed
from streamtune.placement.interface import with_pins
from streamtune.placement.kernels import place_missing
from streamtune.placement.metis_library import partition
from streamtune.placement.packing import even_out, pack
from streamtune.placement.problem import ROUNDING, Problem

_MOST_PIECES_TO_EVEN_OUT = 5_000
_MOST_HOSTS_TO_MATCH = 2_000


def metis_start(problem: Problem, target: float, *, seed: int = 0, recursive: bool = False) -> Ints | None:
    """METIS over the usable hosts, by size, with memory as a second constraint where there is any; zone after zone."""
    usable = np.flatnonzero(problem.usable)
    if len(problem.graph) <= usable.size:
        return None
    part = np.empty(len(problem.graph), dtype=np.int64)
    zones = problem.hosts.zones[usable]
    split = partial(_split, problem, target, seed, recursive)
    everything, whole = np.arange(len(problem.graph)), problem.graph.adjacency
    if np.unique(zones).size == 1:
        part[:] = usable[split(whole, everything, list(usable[:, None]))]
        return keep_homes(problem, with_pins(problem, part))
    # First into zones by their sizes, then each zone's tasks onto its hosts.
    groups = [usable[zones == zone] for zone in np.unique(zones)]
    zone_of = split(whole, everything, groups)
    for number, hosts in enumerate(groups):
        inside = np.flatnonzero(zone_of == number)
        if inside.size <= hosts.size:
            part[inside] = hosts[: inside.size]
        else:
            part[inside] = hosts[split(subgraph(whole, inside), inside, list(hosts[:, None]))]
    return with_pins(problem, part)


def _split(
    problem: Problem,
    target: float,
    seed: int,
    recursive: bool,
    adjacency: Adjacency,
    tasks: Ints,
    groups: Sequence[Ints],
) -> Ints:
    """Parts for groups of hosts, with the share of load (and memory) that belongs to each."""
    sizes = np.array([problem.hosts.cpu[group].sum() for group in groups])
    room = np.array([problem.hosts.memory_mb[group].sum() for group in groups])
    weights, shares, imbalance = problem.demand[tasks, :1], sizes[:, None], np.array([target])
    memory = float(problem.demand[tasks, 1].sum())
    if memory > 0 and np.isfinite(room).all():
        weights, shares = problem.demand[tasks], np.column_stack([sizes, room])
        imbalance = np.array([target, max(1.001, room.sum() / memory)])
    wanted = None if np.ptp(shares, axis=0).max() == 0 else shares
    return partition(
        adjacency, weights, len(groups), shares=wanted, imbalance=imbalance, recursive=recursive, seed=seed
    )


def subgraph(adjacency: Adjacency, tasks: Ints) -> Adjacency:
    """What the given tasks exchange among themselves."""
    count = adjacency.indptr.size - 1
    place = np.full(count, -1, dtype=np.int64)
    place[tasks] = np.arange(tasks.size)
    owner = place[np.repeat(np.arange(count), np.diff(adjacency.indptr))]
    target = place[adjacency.indices]
    kept = (owner >= 0) & (target >= 0)
    return compressed(tasks.size, owner[kept], target[kept], adjacency.weights[kept])


def keep_homes(problem: Problem, part: Ints) -> Ints:
    """The same parts under other hosts' names, so that as little state as possible has to move.

    Only where hosts are alike: the assignment problem over what stays (Hungarian method).
    """
    k, home = len(problem.hosts), problem.home
    alike = np.ptp(problem.hosts.cpu) == 0 and np.unique(problem.hosts.memory_mb).size == 1
    if not alike or (home < 0).all() or k > _MOST_HOSTS_TO_MATCH or (problem.pinned >= 0).any():
        return part
    from scipy.optimize import linear_sum_assignment

    known = home >= 0
    stays = np.zeros((k, k))
    np.add.at(stays, (part[known], home[known]), problem.move_cost[known])
    rows, columns = linear_sum_assignment(-stays)
    name = np.empty(k, dtype=np.int64)
    name[rows] = columns
    return name[part]


def pieces_start(problem: Problem, target: float) -> Ints | None:
    """Whole connected pieces on the hosts: no remote byte at all, where they can be packed within the limits."""
    pieces = problem.graph.pieces
    count = int(pieces.max()) + 1
    if count < 2:
        return None
    demand = np.column_stack([np.bincount(pieces, weights=problem.demand[:, c], minlength=count) for c in (0, 1)])
    pinned = _pins_of_pieces(problem, pieces, count)
    if pinned is None:
        return None
    cpu = np.where(problem.usable, problem.hosts.cpu, 1e-12)
    memory = np.where(problem.usable, problem.hosts.memory_mb * (1 + ROUNDING), -1.0)
    demand = np.ascontiguousarray(demand, dtype=np.float64)
    part = pack(np.argsort(-demand[:, 0], kind="stable"), demand, cpu, memory, pinned)
    if (part < 0).any():
        return None
    if count <= _MOST_PIECES_TO_EVEN_OUT:
        even_out(demand, cpu, memory, pinned, part, target, 4 * count)
    return keep_homes(problem, part[pieces])


def _pins_of_pieces(problem: Problem, pieces: Ints, count: int) -> Ints | None:
    pinned = np.full(count, -1, dtype=np.int64)
    for task in np.flatnonzero(problem.pinned >= 0):
        piece, host = pieces[task], problem.pinned[task]
        if pinned[piece] not in (-1, host):
            return None
        pinned[piece] = host
    return pinned


def home_start(problem: Problem, limits: Floats) -> Ints | None:
    """What runs today, with tasks that lost their host put where they cost least."""
    if (problem.home < 0).all():
        return None
    part = with_pins(problem, problem.home)
    order = np.argsort(-problem.graph.loads, kind="stable")
    place_missing(*problem.graph.adjacency, problem.demand, limits, *problem.prices, part, order)
    return part


def even_start(problem: Problem) -> Ints | None:
    """Storm's even schedule, dealt to the usable hosts."""
    if not problem.usable.all():
        return None
    return Even().place(replace(problem, current=None)).part.copy()
