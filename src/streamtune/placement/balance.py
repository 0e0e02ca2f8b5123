"""How evenly tasks can be spread at all: what keeps a placement honest about the imbalance it was asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamtune.placement.completion import completed
from streamtune.placement.graph import Floats, Ints, PlacementError
from streamtune.placement.packing import even_out, pack
from streamtune.placement.problem import ROUNDING, Problem

# Beyond these, looking for a better balance by swaps, and by an exact method, takes too long to be of use.
_SWAP_TASKS = 5_000
_COMPLETION_TASKS = 300
_EXACT_CELLS = 1_200
_EXACT_SECONDS = 5.0
_ORDERS = 8


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
        better, proven = _completed(problem, max(asked, bound))
        if better is None and not proven:
            better = _exact(problem, max(asked, bound))
        if better is not None and problem.imbalance_of(better) < reached:
            part, reached = better, problem.imbalance_of(better)
    if reached <= asked * (1 + ROUNDING):
        return Balance(asked, part)
    if proven and bound <= asked:
        reason = "a complete search found no placement that keeps it"
    elif bound > asked:
        largest = problem.graph.tasks[int(problem.graph.loads.argmax())]
        reason = f"no placement has less than {bound:.4g} (task '{largest}' is the largest)"
    else:
        reason = "no better balance was found"
    note = f"imbalance {asked:g} cannot be kept: {reason}; {reached:.4g} was reached"
    return Balance(reached, part, note)


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
        best = _exact(problem, np.inf)
        if best is None:
            raise PlacementError(
                f"no placement was found that fits the memory: tasks need {demand[:, 1].sum():g} MB of "
                f"{problem.hosts.memory_mb.sum():g} MB, but not in pieces that fit the hosts: add memory"
            )
        best_imbalance = problem.imbalance_of(best)
    return best, best_imbalance


def _completed(problem: Problem, target: float) -> tuple[Ints | None, bool]:
    """Complete search where all hosts are alike and nothing is pinned; otherwise nothing found, nothing proven."""
    memory = problem.hosts.memory_mb
    alike = np.ptp(problem.hosts.cpu) == 0 and np.unique(memory).size == 1
    if not alike or (problem.pinned >= 0).any() or len(problem.graph) > _COMPLETION_TASKS:
        return None, False
    limit = float(problem.limits(target)[0, 0])
    return completed(problem.graph.loads, len(problem.hosts), limit, problem.graph.memory_mb, float(memory[0]))


def _exact(problem: Problem, good_enough: float) -> Ints | None:
    """The best balance by MILP where the problem is small: minimise the level t so that every host stays below it."""
    n, k = len(problem.graph), len(problem.hosts)
    if n * k > _EXACT_CELLS:
        return None
    from streamtune.placement.exact import balance_by_milp

    return balance_by_milp(problem, good_enough, _EXACT_SECONDS)
