"""How evenly tasks can be spread at all: what keeps a placement honest about the imbalance it was asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamtune.placement.completion import completed
from streamtune.placement.graph import Floats, Ints, PlacementError
from streamtune.placement.packing import even_out, host_usage, pack
from streamtune.placement.problem import ROUNDING, Problem

# Beyond these, looking for a better balance by swaps, and by an exact method, takes too long to be of use.
_SWAP_TASKS = 5_000
_COMPLETION_TASKS = 1_000
# Tasks looked at in one complete search: a fraction of a second.
_COMPLETION_WORK = 100_000_000
_EXACT_CELLS = 1_200
_EXACT_SECONDS = 5.0
_ORDERS = 8
_HALVINGS, _CLOSE = 24, 1e-6


@dataclass(frozen=True)
class Balance:
    """The imbalance to keep, a placement that keeps it, and what there is to say when it is not the one asked for."""

    target: float
    part: Ints
    note: str | None = None


def reachable_balance(problem: Problem) -> Balance:
    """The imbalance asked for where it can be kept, otherwise the smallest that was found.

    Largest load first (Graham's LPT), then moves and swaps on the fullest host, from several orders; for small graphs
    an exact search decides what these could not.
    """
    asked = problem.imbalance
    part, reached = _packed(problem, asked)
    bound = lower_bound(problem)
    proven = False
    if reached > asked * (1 + ROUNDING) and bound < reached * (1 - ROUNDING):
        part, proven = _tightened(problem, part, max(asked, bound))
        reached = problem.imbalance_of(part)
    if reached <= asked * (1 + ROUNDING):
        return Balance(asked, part)
    if proven and bound <= asked:
        reason = "cannot be kept: a complete search found no placement that keeps it"
    elif bound > asked:
        reason = f"cannot be kept: no placement has less than {bound:.6g}{_culprit(problem, bound)}"
    else:
        reason = "was not kept: no better balance was found"
    return Balance(reached, part, f"imbalance {asked:g} {reason}; {reached:.6g} was reached")


def _tightened(problem: Problem, part: Ints, target: float) -> tuple[Ints, bool]:
    """The best balance that complete searches find, and whether it is certain that the target cannot be kept.

    First the target itself; where it is out of reach, the smallest balance that is not, by halving.
    """
    better, certain = _completed(problem, target)
    if better is not None:
        return better, False
    proven, low, reached = certain, target, problem.imbalance_of(part)
    for _ in range(_HALVINGS if certain else 0):
        if reached - low <= _CLOSE * reached:
            return part, proven
        middle = (low + reached) / 2
        better, certain = _completed(problem, middle)
        if better is not None:
            part, reached = better, problem.imbalance_of(better)
        elif certain:
            low = middle
        else:
            break
    better = _exact(problem, low)
    if better is not None and problem.imbalance_of(better) < reached:
        part = better
    return part, proven


def _culprit(problem: Problem, bound: float) -> str:
    """What to look at when a bound is in the way: the task that is larger than a fair share, where it is one."""
    place = int(problem.graph.loads.argmax())
    alone = float(problem.graph.loads[place] / problem.fair_share.max())
    return f" (task '{problem.graph.tasks[place]}' alone)" if alone >= bound * (1 - ROUNDING) else ""


def lower_bound(problem: Problem) -> float:
    """An imbalance that no placement can beat: the largest task alone, or the smallest two that must share a host."""
    if problem.graph.total_load == 0:
        return 1.0
    share = problem.fair_share[problem.usable]
    loads = np.sort(problem.graph.loads)[::-1]
    bound = max(1.0, float(loads[0] / share.max()))
    if loads.size > share.size and np.ptp(share) <= ROUNDING * share.max():
        hosts = share.size
        # Of the hosts + 1 largest tasks two must share; of the 2·hosts + 1 largest three; and so on.
        together = np.arange(1, loads.size // hosts + (loads.size % hosts > 0))
        sums = [float(loads[count * hosts - count : count * hosts + 1].sum()) for count in together[:50]]
        bound = max(bound, *(value / float(share[0]) for value in sums)) if sums else bound
        bound = max(bound, _whole_tasks_bound(loads, float(share[0]), hosts))
    return bound


def _whole_tasks_bound(loads: Floats, share: float, hosts: int) -> float:
    """When all loads are multiples of one unit, the fullest host has at least the fair share rounded up to it."""
    positive = loads[loads > 0]
    unit = float(positive.min())
    multiples = positive / unit
    if np.abs(multiples - np.round(multiples)).max() > ROUNDING or not np.isfinite(multiples).all():
        return 1.0
    total = int(np.round(multiples).sum())
    return -(-total // hosts) * unit / share


def _packed(problem: Problem, asked: float) -> tuple[Ints, float]:
    cpu = np.where(problem.usable, problem.hosts.cpu, 1e-12)
    memory = np.where(problem.usable, problem.hosts.memory_mb * (1 + ROUNDING), -1.0)
    demand = problem.demand
    tightness = demand[:, 1].sum() / memory[problem.usable].sum() if np.isfinite(memory).all() else 0.0
    best, best_imbalance = None, np.inf
    rng = np.random.default_rng(0)
    for attempt in range(_ORDERS):
        keys = demand[:, 0] if attempt % 2 == 0 or tightness == 0 else demand[:, 1]
        noise = 1.0 if attempt < 2 else rng.uniform(0.8, 1.25, keys.size)
        order = np.argsort(-keys * noise, kind="stable")
        part = pack(order, demand, cpu, memory, problem.pinned)
        if (part < 0).any():
            continue
        if len(problem.graph) <= _SWAP_TASKS:
            even_out(demand, cpu, memory, problem.pinned, part, asked, 4 * len(problem.graph))
        elif problem.imbalance_of(part) > asked:
            problem.settled(part, asked, attempt)
        reached = problem.imbalance_of(part)
        if reached < best_imbalance:
            best, best_imbalance = part, reached
        if best_imbalance <= asked or (attempt >= 1 and len(problem.graph) > _SWAP_TASKS):
            break
    if best is None:
        best = _within_memory(problem)
        best_imbalance = problem.imbalance_of(best)
    return best, best_imbalance


def _within_memory(problem: Problem) -> Ints:
    """A placement that fits the memory, however its load is spread, for graphs that packing in order failed on."""
    free, usable = problem.pinned < 0, np.flatnonzero(problem.usable)
    needs = problem.graph.memory_mb
    rooms = problem.hosts.memory_mb - host_usage(problem.demand[~free], problem.pinned[~free], len(problem.hosts))[:, 1]
    found, certain = None, False
    if len(problem.graph) <= _COMPLETION_TASKS and np.isfinite(rooms[usable]).all():
        steps = _COMPLETION_WORK // len(problem.graph)
        nothing = np.zeros(int(free.sum()))
        room = rooms[usable] * (1 + ROUNDING)
        found, certain = completed(needs[free], room, nothing, np.full(usable.size, np.inf), steps)
    if found is not None:
        part = problem.pinned.copy()
        part[free] = usable[found]
        even_out(problem.demand, problem.hosts.cpu, problem.hosts.memory_mb, problem.pinned, part, 1.0, part.size)
        return part
    best = None if certain else _exact(problem, np.inf)
    if best is None:
        known = "no placement fits" if certain else "no placement was found that fits"
        raise PlacementError(
            f"{known} the memory: tasks need {needs.sum():g} MB of {problem.hosts.memory_mb.sum():g} MB, but not in "
            "pieces that fit the hosts: add memory"
        )
    return best


def _completed(problem: Problem, target: float) -> tuple[Ints | None, bool]:
    """A complete search for a placement within the target; nothing found and nothing proven on large graphs."""
    if len(problem.graph) > _COMPLETION_TASKS:
        return None, False
    free, usable = problem.pinned < 0, np.flatnonzero(problem.usable)
    held = host_usage(problem.demand[~free], problem.pinned[~free], len(problem.hosts))
    left = (problem.limits(target) - held)[usable]
    # Where memory has no limit, none is left to look at.
    rooms = np.where(np.isinf(problem.hosts.memory_mb[usable]), np.inf, left[:, 1])
    if (left[:, 0] < 0).any() or not free.any():
        return None, bool((left[:, 0] < 0).any())
    steps = _COMPLETION_WORK // len(problem.graph)
    found, certain = completed(problem.graph.loads[free], left[:, 0], problem.graph.memory_mb[free], rooms, steps)
    if found is None:
        return None, certain
    part = problem.pinned.copy()
    part[free] = usable[found]
    return part, True


def _exact(problem: Problem, good_enough: float) -> Ints | None:
    """The best balance by MILP where the problem is small: minimise the level t so that every host stays below it."""
    n, k = len(problem.graph), len(problem.hosts)
    if n * k > _EXACT_CELLS:
        return None
    from streamtune.placement.exact import balance_by_milp

    return balance_by_milp(problem, good_enough, _EXACT_SECONDS)
