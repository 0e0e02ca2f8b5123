"""Our scheduler: METIS and simpler starts, then a search that knows hosts, memory, zones, pins and the cost of moving.

What it promises: the imbalance asked for is kept whenever a placement that keeps it was found (and the answer says so
where not), memory and pins always; at equal balance it is never worse than the even schedule; and tasks that run
somewhere move only if that pays off.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from streamtune.placement.balance import Balance, reachable_balance
from streamtune.placement.graph import Ints
from streamtune.placement.greedy import Greedy
from streamtune.placement.interface import surroundings, with_pins
from streamtune.placement.kernels import move_passes, relieve
from streamtune.placement.link_kernel import link_search
from streamtune.placement.problem import Placement, Problem
from streamtune.placement.search_kernel import tabu_search
from streamtune.placement.settings import OursSettings
from streamtune.placement.starts import even_start, home_start, metis_start, pieces_start
from streamtune.settings import later_seed

# A start that costs this many times the best placement so far is not worth improving: moves do not make up for it.
_HOPELESS = 1.5
# With up to this many tasks a host, looking for partners to swap with is cheap however large the graph.
_FEW_TASKS = 32
_GREEDY_CELLS = 1_000_000
# Above this many tasks the effort is better spent on two long searches than on several short ones.
_MANY_SEARCHES = 150
# With fewer changes a task, annealing for the busiest link would spoil a good start and not find back: improve only.
_STEPS_PER_TASK, _COOL = 200, 1e-6


class Ours:
    """The scheduler ``streamtune place`` uses unless told otherwise; ``ours-link`` with the other objective."""

    def __init__(self, settings: OursSettings | None = None) -> None:
        self.settings = settings or OursSettings()

    @property
    def name(self) -> str:
        return "ours" if self.settings.objective == "bytes" else "ours-link"

    def place(self, problem: Problem) -> Placement:
        start = time.perf_counter()
        balance = reachable_balance(problem)
        n, k = len(problem.graph), len(problem.hosts)
        small = n * (n + k) <= self.settings.small
        part = self._thorough(problem, balance) if small else self._fast(problem, balance)
        if self.settings.objective == "link":
            part = self._least_link(problem, balance, part)
        notes = surroundings(problem) if balance.note is None else (balance.note, *surroundings(problem))
        if self._better_to_stay(problem, part, balance):
            part = problem.home.copy()
            notes = (
                *notes,
                f"nothing moves: the gain is below {self.settings.min_gain:.0%} or does not pay for the state",
            )
        return problem.place(part, self.name, time.perf_counter() - start, notes=notes)

    def _better_to_stay(self, problem: Problem, part: Ints, balance: Balance) -> bool:
        if problem.current is None or (problem.home < 0).any() or not problem.fits(problem.home, balance.target):
            return False
        cost = problem.cost if self.settings.objective == "bytes" else problem.link_cost
        return cost(part) > cost(problem.home) * (1 - self.settings.min_gain)

    def _least_link(self, problem: Problem, balance: Balance, part: Ints) -> Ints:
        """From fewest bytes and from the even schedule to the least on the busiest link; large graphs cool at once."""
        best, best_cost = part, problem.link_cost(part)
        steps = self.settings.link_steps
        hot = self.settings.link_heat if steps >= _STEPS_PER_TASK * len(problem.graph) else _COOL
        for number, start in enumerate((part, even_start(problem))):
            if start is None or best_cost == 0:
                continue
            found = link_search(
                *problem.graph.directed, problem.demand, problem.limits(balance.target), problem.unit, *problem.prices,
                problem.pinned >= 0, with_pins(problem, start), steps, hot, self.settings.seed + number,
            )  # fmt: skip
            cost = problem.link_cost(found)
            if cost < best_cost and problem.fits(found, balance.target):
                best, best_cost = found, cost
        return best

    def _starts(self, problem: Problem, balance: Balance) -> Iterator[Ints | None]:
        limits = problem.limits(balance.target)
        yield pieces_start(problem, balance.target)
        yield home_start(problem, limits)
        yield metis_start(problem, balance.target, seed=self.settings.seed)
        yield even_start(problem)
        yield balance.part.copy()
        yield metis_start(problem, balance.target, seed=later_seed(self.settings.seed, 1), recursive=True)
        if problem.graph.adjacency.indices.size * len(problem.hosts) <= _GREEDY_CELLS:
            yield with_pins(problem, Greedy().place(problem).part)

    def _improved(
        self, problem: Problem, balance: Balance, part: Ints, *, passes: int, settle: bool
    ) -> tuple[Ints, bool]:
        """A start brought within the limits where moves (and swaps) can do that, then improved within them."""
        limits, fixed = problem.limits(balance.target), problem.pinned >= 0
        part = np.ascontiguousarray(part, dtype=np.int64).copy()
        fits = bool(relieve(*problem.graph.adjacency, problem.demand, limits, *problem.prices, fixed, part, 20))
        if not fits and settle:
            fits = problem.settled(part, balance.target, self.settings.seed)
        n = part.size
        order = np.random.default_rng(self.settings.seed).permutation(n)
        swaps = n <= self.settings.swaps_up_to or n <= _FEW_TASKS * len(problem.hosts)
        move_passes(
            *problem.graph.adjacency, problem.demand, limits, *problem.prices, fixed, part, order, passes, swaps
        )
        return part, fits

    def _fast(self, problem: Problem, balance: Balance) -> Ints:
        """For large graphs: METIS improved, or what runs today improved; the even schedule where it begins ahead."""
        target = balance.target
        whole = pieces_start(problem, target)
        if whole is not None and problem.fits(whole, target) and not problem.cost(whole):
            return whole
        best, best_cost = balance.part, np.inf
        starts = (
            metis_start(problem, target, seed=self.settings.seed),
            home_start(problem, problem.limits(target)),
            even_start(problem),
            balance.part,
        )
        for start in starts:
            if start is None or problem.cost(start) >= _HOPELESS * best_cost:
                continue
            part, fits = self._improved(problem, balance, start, passes=self.settings.passes, settle=True)
            cost = problem.cost(part)
            if fits and cost < best_cost and problem.fits(part, target):
                best, best_cost = part, cost
        return best.copy()

    def _thorough(self, problem: Problem, balance: Balance) -> Ints:
        """For small graphs: all starts improved, then tabu search from the most promising ones."""
        found: list[tuple[bool, float, Ints]] = []
        for start in self._starts(problem, balance):
            if start is None:
                continue
            part, _ = self._improved(problem, balance, start, passes=50, settle=False)
            fits = problem.fits(part, balance.target)
            if fits and problem.cost(part) == 0:
                return part
            if not any(np.array_equal(part, other) for _, _, other in found):
                found.append((not fits, problem.cost(part), part))
        found.sort(key=lambda entry: entry[:2])
        best = min((entry for entry in found if not entry[0]), key=lambda entry: entry[1], default=None)
        best_part, best_cost = (balance.part, np.inf) if best is None else (best[2], best[1])
        # Placements outside the limits are often closer to the best one than those inside: take of both.
        searches = self.settings.searches if len(problem.graph) <= _MANY_SEARCHES else min(2, self.settings.searches)
        chosen = [entry[2] for entry in sorted(found, key=lambda entry: self._promise(problem, balance, entry))]
        chosen = [best_part, *(part for part in chosen if part is not best_part)][:searches]
        for number, part in enumerate(chosen):
            result, cost = self._searched(problem, balance, part, len(chosen), number)
            if cost < best_cost:
                best_part, best_cost = result, cost
        return best_part

    @staticmethod
    def _promise(problem: Problem, balance: Balance, entry: tuple[bool, float, Ints]) -> float:
        """The cost of a start and a rough price of what it is above the limits; the smaller the better."""
        above = max(0.0, problem.imbalance_of(entry[2]) / balance.target - 1)
        return entry[1] + above * problem.graph.total_bytes_per_s / 2

    def _searched(
        self, problem: Problem, balance: Balance, part: Ints, searches: int, number: int
    ) -> tuple[Ints, float]:
        n = part.size
        adjacency = problem.graph.adjacency
        between = np.zeros((n, n))
        between[np.repeat(np.arange(n), np.diff(adjacency.indptr)), adjacency.indices] = adjacency.weights
        # Memory is looked at only where it can run out: the search is a third faster without it.
        resources = 2 if np.isfinite(problem.hosts.memory_mb).any() and problem.graph.memory_mb.any() else 1
        demand = np.ascontiguousarray(problem.demand[:, :resources])
        limits = np.ascontiguousarray(problem.limits(balance.target)[:, :resources])
        unit = np.ascontiguousarray(problem.unit[:resources])
        result, _, inside = tabu_search(
            *adjacency,
            between,
            demand,
            limits,
            unit,
            *problem.prices,
            problem.pinned >= 0,
            part,
            self.settings.effort // searches,
            self.settings.patience,
            later_seed(self.settings.seed, number),
        )
        if not inside or not problem.fits(result, balance.target):
            return part, np.inf
        return result, problem.cost(result)
