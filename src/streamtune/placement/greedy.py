"""The traffic-based online scheduler of Aniello, Baldoni and Querzoni (DEBS 2013), the thesis' "Greedy".

Pairs of instances are taken by falling traffic. A new pair goes together to the least loaded host. Otherwise the
at most three hosts that matter (the two that hold an instance, and the least loaded one) give nine ways to put the two,
and the one with the least traffic between hosts wins. α bounds the instances on a host between an equal number (0)
and nearly all (1), γ its load to γ times the mean. β would choose how many of the machines are used; one worker per
machine, as in the thesis, leaves it without effect. A new schedule is applied only if it saves more than the threshold.
"""

from __future__ import annotations

import math
import time

import numpy as np

from streamtune.placement.compilation import kernel
from streamtune.placement.graph import Floats, Ints
from streamtune.placement.interface import findings, with_pins
from streamtune.placement.problem import Placement, Problem
from streamtune.placement.settings import GreedyPlacementSettings


@kernel
def _least(size: Ints, load: Floats, count: int, more: float, most: int, most_load: float) -> int:
    best = -1
    for h in range(size.size):
        if size[h] + count <= most and load[h] + more <= most_load and (best < 0 or load[h] < load[best]):
            best = h
    return best


@kernel
def _exchange(v: int, h: int, indptr: Ints, indices: Ints, weights: Floats, part: Ints) -> float:
    """What v would send to and get from other hosts if it were on h; partners without a host do not count yet."""
    remote = 0.0
    for at in range(indptr[v], indptr[v + 1]):
        other = part[indices[at]]
        if other >= 0 and other != h:
            remote += weights[at]
    return remote


@kernel
def _place_pairs(
    first: Ints,
    second: Ints,
    traffic: Floats,
    loads: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    k: int,
    most: int,
    most_load: float,
    relax: bool,
) -> tuple[Ints, int]:
    n = loads.size
    part = np.full(n, -1, np.int64)
    size, load = np.zeros(k, np.int64), np.zeros(k)
    stuck = 0
    candidates = np.empty(3, np.int64)
    for pair in range(first.size):
        a, b = first[pair], second[pair]
        old_a, old_b = part[a], part[b]
        count = 0
        if old_a < 0 and old_b < 0:
            both = _least(size, load, 2, loads[a] + loads[b], most, most_load)
            if both >= 0:
                candidates[0] = both
                count = 1
            else:
                one = _least(size, load, 1, loads[a], most, most_load)
                other = _least(size, load, 1, loads[b], most, most_load)
                if one >= 0:
                    candidates[count] = one
                    count += 1
                if other >= 0 and other != one:
                    candidates[count] = other
                    count += 1
                # The least loaded host may have room for one of them alone: the second least takes the other.
                if one >= 0:
                    size[one] += 1
                    load[one] += loads[a]
                    next_one = _least(size, load, 1, loads[b], most, most_load)
                    size[one] -= 1
                    load[one] -= loads[a]
                    if next_one >= 0 and next_one != one and next_one != other:
                        candidates[count] = next_one
                        count += 1
        else:
            if old_a >= 0:
                candidates[count] = old_a
                count += 1
            if old_b >= 0 and old_b != old_a:
                candidates[count] = old_b
                count += 1
            emptiest = _least(size, load, 1, max(loads[a], loads[b]), most, most_load)
            if emptiest >= 0 and emptiest != old_a and emptiest != old_b:
                candidates[count] = emptiest
                count += 1
        if old_a >= 0:
            size[old_a] -= 1
            load[old_a] -= loads[a]
        if old_b >= 0:
            size[old_b] -= 1
            load[old_b] -= loads[b]
        part[a], part[b] = -1, -1
        best_a, best_b, best = -1, -1, np.inf
        for i in range(count):
            h = candidates[i]
            if size[h] + 1 > most or load[h] + loads[a] > most_load:
                continue
            remote_a = _exchange(a, h, indptr, indices, weights, part)
            for j in range(count):
                g = candidates[j]
                with_a = 1 if g == h else 0
                if size[g] + with_a + 1 > most or load[g] + with_a * loads[a] + loads[b] > most_load:
                    continue
                remote = remote_a + _exchange(b, g, indptr, indices, weights, part)
                if g != h:
                    remote += traffic[pair]
                if remote < best:
                    best_a, best_b, best = h, g, remote
        if best_a < 0:
            stuck += 1
            if not relax:
                return part, stuck
            best_a = old_a if old_a >= 0 else _least(size, load, 1, 0.0, most, np.inf)
            if best_a < 0:
                best_a = _least(size, load, 1, 0.0, n, np.inf)
            size[best_a] += 1
            load[best_a] += loads[a]
            best_b = old_b if old_b >= 0 else _least(size, load, 1, 0.0, most, np.inf)
            if best_b < 0:
                best_b = _least(size, load, 1, 0.0, n, np.inf)
            size[best_a] -= 1
            load[best_a] -= loads[a]
        part[a], part[b] = best_a, best_b
        size[best_a] += 1
        load[best_a] += loads[a]
        size[best_b] += 1
        load[best_b] += loads[b]
    return part, stuck


@kernel
def _fill_empty(part: Ints, k: int, indptr: Ints, indices: Ints, weights: Floats) -> None:
    """Every empty host gets the placed instance whose move adds least traffic, from a host that has more than one."""
    size = np.zeros(k, np.int64)
    for v in range(part.size):
        if part[v] >= 0:
            size[part[v]] += 1
    for h in range(k):
        if size[h] > 0:
            continue
        pick, least = -1, np.inf
        for v in range(part.size):
            if part[v] < 0 or size[part[v]] < 2:
                continue
            more = _exchange(v, h, indptr, indices, weights, part) - _exchange(
                v, part[v], indptr, indices, weights, part
            )
            if more < least:
                pick, least = v, more
        if pick < 0:
            return
        size[part[pick]] -= 1
        part[pick] = h
        size[h] = 1


class Greedy:
    """Aniello's online heuristic."""

    name = "greedy"

    def __init__(self, settings: GreedyPlacementSettings | None = None) -> None:
        self.settings = settings or GreedyPlacementSettings()

    def place(self, problem: Problem) -> Placement:
        start = time.perf_counter()
        part, notes = self._schedule(problem)
        part = with_pins(problem, part)
        if problem.current is not None and (problem.home >= 0).all() and not self._worth_it(problem, part):
            part = problem.home.copy()
            notes = (*notes, f"kept what runs: the new schedule saves less than {self.settings.threshold:.0%}")
        return problem.place(part, self.name, time.perf_counter() - start, notes=(*notes, *findings(problem, part)))

    def _schedule(self, problem: Problem) -> tuple[Ints, tuple[str, ...]]:
        graph, k = problem.graph, len(problem.hosts)
        adjacency = graph.adjacency
        owner = np.repeat(np.arange(len(graph)), np.diff(adjacency.indptr))
        once = owner < adjacency.indices
        first, second, traffic = owner[once], adjacency.indices[once], adjacency.weights[once]
        order = np.argsort(-traffic, kind="stable")
        fewest = math.ceil(len(graph) / k)
        most = fewest + math.ceil(self.settings.alpha * max(0, len(graph) - k + 1 - fewest))
        most_load = self.settings.gamma * graph.total_load / k * (1 + 1e-12)
        part, stuck = _place_pairs(
            first[order],
            second[order],
            traffic[order],
            graph.loads,
            *adjacency,
            k,
            most,
            most_load,
            self.settings.relax,
        )
        if stuck and not self.settings.relax:
            part = problem.home.copy() if (problem.home >= 0).all() else np.arange(len(graph)) % k
            return part, ("no allowed way to place a pair was left: the old schedule stays, as in the original",)
        _fill_empty(part, k, *adjacency)
        silent = np.flatnonzero(part < 0)
        # The thesis' fix: instances without traffic are spread evenly, the emptiest hosts first.
        counts = np.bincount(part[part >= 0], minlength=k)
        for v in silent:
            host = int(counts.argmin())
            part[v] = host
            counts[host] += 1
        return part, (f"{stuck} pairs had no allowed place and went by count alone",) if stuck else ()

    def _worth_it(self, problem: Problem, part: Ints) -> bool:
        before = problem.place(problem.home, self.name, 0.0).remote_bytes_per_s
        after = problem.place(part, self.name, 0.0).remote_bytes_per_s
        overloaded = problem.imbalance_of(problem.home) > self.settings.gamma
        return overloaded or (after <= before * (1 - self.settings.threshold) and after < before)
