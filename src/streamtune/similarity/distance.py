"""Exact graph edit distance between dataflows: one pair, or many in one call.

The distance counts operator insertions and deletions, edge insertions and deletions, type changes and edge reversals
(StreamTune, Section IV-C), one each. It is a metric; graphs in between need not be acyclic.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamtune.dataflow import Dataflow
from streamtune.errors import StreamTuneError
from streamtune.similarity.layout import SEARCHABLE_OPERATORS, UNKNOWN, Graphs, Search, new_search
from streamtune.similarity.packed import PackedDataflows, pack
from streamtune.similarity.settings import DEFAULT_BUDGET as DEFAULT_BUDGET

"""States the search may take for one pair: a few seconds."""

BEYOND_LIMIT = -1
"""What a batch reports in the place of a distance above the limit."""

_NO_LIMIT = UNKNOWN // 2
_ROOT_ONLY = 1
_KEPT_OPERATORS = 64

Kernel = Callable[[Graphs, Search, NDArray[np.int64], int, bool, int, NDArray[np.int64]], None]


class UndecidedDistanceError(StreamTuneError):
    """The state budget ran out before the distance was known."""

    def __init__(self, lower: int, upper: int, budget: int, pair: tuple[int, int] | None = None) -> None:
        self.lower = lower
        self.upper = upper
        whose = "" if pair is None else f" of dataflows {pair[0]} and {pair[1]}"
        super().__init__(
            f"the edit distance{whose} is between {lower} and {upper}, and {budget:,} states did not settle it "
            f"(above {SEARCHABLE_OPERATORS} operators nothing is searched): raise the budget, set a limit below "
            f"{lower}, or ask for the bounds"
        )


@dataclass(frozen=True, slots=True)
class EditDistance:
    """What is known of a distance. ``upper`` is None where it was not computed because ``lower`` is above the limit."""

    lower: int
    upper: int | None
    states: int

    @property
    def exact(self) -> bool:
        return self.lower == self.upper


@dataclass(frozen=True, slots=True)
class EditDistances:
    """``EditDistance`` of many pairs, as arrays; ``upper`` is huge where it was not computed."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    states: NDArray[np.int64]

    @property
    def exact(self) -> NDArray[np.bool_]:
        return np.equal(self.lower, self.upper)

    def __getitem__(self, index: int) -> EditDistance:
        upper = int(self.upper[index])
        return EditDistance(int(self.lower[index]), None if upper == UNKNOWN else upper, int(self.states[index]))


def edit_distance(a: Dataflow, b: Dataflow, limit: int | None = None, budget: int = DEFAULT_BUDGET) -> int | None:
    """The edit distance if it is at most ``limit``, else None; never a guess.

    >>> chain = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> longer = Dataflow.from_edges(["source", "map", "map", "sink"], [(0, 1), (1, 2), (2, 3)])
    >>> edit_distance(chain, longer)  # filter and sink become map; a new sink and its edge come behind
    4
    >>> edit_distance(chain, longer, limit=2) is None
    True

    :raises UndecidedDistanceError: when ``budget`` states do not settle it.
    """
    found = edit_distance_bounds(a, b, limit, budget)
    if limit is not None and found.lower > limit:
        return None
    if not found.exact or found.upper is None:
        raise UndecidedDistanceError(found.lower, found.upper or 0, budget)
    return found.lower


def edit_distance_bounds(
    a: Dataflow, b: Dataflow, limit: int | None = None, budget: int = DEFAULT_BUDGET
) -> EditDistance:
    """Bounds of the edit distance, equal unless ``limit`` or ``budget`` ended the search.

    Pairs with more than 128 operators are not searched: their bounds come from one assignment problem.
    """
    found = measure_pairs(pack((a, b)), [(0, 1)], limit=limit, budget=budget)[0]
    return EditDistance(0, 0, found.states) if _are_large_twins(a, b, found) else found


def best_mapping(a: Dataflow, b: Dataflow, budget: int = DEFAULT_BUDGET) -> tuple[EditDistance, tuple[int | None, ...]]:
    """The cheapest mapping found, of cost ``upper``: for each operator of ``a`` its position in ``b``, or None."""
    packed = pack((a, b))
    pair = np.array([[0, 1]])
    search, result = _memory(packed.largest, len(packed.types)), np.zeros((1, 3), np.int64)
    large = packed.largest > SEARCHABLE_OPERATORS
    _kernel()(packed.graphs, search, pair, _NO_LIMIT, False, _ROOT_ONLY if large else budget, result)
    lower, upper, states = (int(value) for value in result[0])
    images = search.best[: packed.sizes.min()].tolist()
    if len(a.types) > len(b.types):  # the kernel maps the smaller one
        back = {column: row for row, column in enumerate(images)}
        images = [back.get(position) for position in range(len(a.types))]
    return EditDistance(lower, upper, states), tuple(images)


def edit_distances(
    packed: PackedDataflows, pairs: ArrayLike, limit: int | None = None, budget: int = DEFAULT_BUDGET
) -> NDArray[np.int64]:
    """The edit distance of each pair (i, j), ``BEYOND_LIMIT`` where it is above ``limit``.

    :raises UndecidedDistanceError: when ``budget`` states do not settle one of them.
    """
    found = measure_pairs(packed, pairs, limit=limit, budget=budget)
    beyond = found.lower > (_NO_LIMIT if limit is None else limit)
    _refuse_undecided(found, ~beyond & ~found.exact, pairs, budget)
    return np.where(beyond, BEYOND_LIMIT, found.lower)


def within(packed: PackedDataflows, pairs: ArrayLike, tau: int, budget: int = DEFAULT_BUDGET) -> NDArray[np.bool_]:
    """Whether the edit distance of each pair (i, j) is at most ``tau``: faster than asking for the distance.

    :raises UndecidedDistanceError: when ``budget`` states do not settle one of them.
    """
    found = measure_pairs(packed, pairs, limit=tau, verify=True, budget=budget)
    similar = found.upper <= tau
    _refuse_undecided(found, ~similar & (found.lower <= tau), pairs, budget)
    return similar


def measure_pairs(
    packed: PackedDataflows,
    pairs: ArrayLike,
    *,
    limit: int | None = None,
    verify: bool = False,
    budget: int = DEFAULT_BUDGET,
) -> EditDistances:
    """Bounds of many distances; with ``verify`` only as tight as it takes to compare them with ``limit``."""
    checked = _checked_pairs(packed, pairs)
    if budget < 1 or (limit is not None and limit < 0):
        raise StreamTuneError(f"a limit cannot be negative and a budget not below 1, but got {limit} and {budget}")
    threshold = _NO_LIMIT if limit is None else min(limit, _NO_LIMIT)
    if packed.largest <= SEARCHABLE_OPERATORS:
        return _measure(packed, checked, threshold, verify, budget)
    large = (packed.sizes[checked] > SEARCHABLE_OPERATORS).any(axis=1)
    result = EditDistances(*(np.zeros(len(checked), np.int64) for _ in range(3)))
    for chosen, states in ((~large, budget), (large, _ROOT_ONLY)):
        part = _measure(packed, checked[chosen], threshold, verify, states)
        result.lower[chosen], result.upper[chosen], result.states[chosen] = part.lower, part.upper, part.states
    return result


def _measure(
    packed: PackedDataflows, pairs: NDArray[np.int64], threshold: int, verify: bool, budget: int
) -> EditDistances:
    """One call of the kernel."""
    result = np.zeros((len(pairs), 3), np.int64)
    if len(pairs):
        size = int(packed.sizes[pairs].max())
        _kernel()(packed.graphs, _memory(size, len(packed.types)), pairs, threshold, verify, budget, result)
    return EditDistances(result[:, 0], result[:, 1], result[:, 2])


@cache
def _kernel() -> Kernel:
    """The compiled search; the first call waits for it to be compiled, or read from numba's cache."""
    from streamtune.similarity.compilation import announced

    with announced():
        from streamtune.similarity.kernels import many_bounds
    return many_bounds


def _memory(size: int, types: int) -> Search:
    """Memory for a search; up to 64 operators one is kept, because a small search takes less time than a new one."""
    capacity = max(16, -(-size // 16) * 16)
    if capacity > _KEPT_OPERATORS:
        return new_search(size, types, size + 1 if size <= SEARCHABLE_OPERATORS else 1)
    if (capacity, types) not in _kept.searches:
        _kept.searches[capacity, types] = new_search(capacity, types, capacity + 1)
    return _kept.searches[capacity, types]


class _KeptMemory(threading.local):
    """One set per thread, since the kernel runs without the interpreter lock."""

    def __init__(self) -> None:
        self.searches: dict[tuple[int, int], Search] = {}


_kept = _KeptMemory()


def _checked_pairs(packed: PackedDataflows, pairs: ArrayLike) -> NDArray[np.int64]:
    checked = np.ascontiguousarray(pairs, np.int64).reshape(-1, 2)
    if checked.size and not (checked.min() >= 0 and checked.max() < len(packed)):
        raise StreamTuneError(
            f"pairs must name dataflows 0 to {len(packed) - 1}, but got {checked.min()} to {checked.max()}"
        )
    return checked


def _refuse_undecided(found: EditDistances, undecided: NDArray[np.bool_], pairs: ArrayLike, budget: int) -> None:
    if undecided.any():
        index = int(undecided.argmax())
        first, second = np.asarray(pairs).reshape(-1, 2)[index]
        raise UndecidedDistanceError(
            int(found.lower[index]), int(found.upper[index]), budget, (int(first), int(second))
        )


def _are_large_twins(a: Dataflow, b: Dataflow, found: EditDistance) -> bool:
    """Isomorphic, where no search was made that would have found it."""
    too_large = max(len(a.types), len(b.types)) > SEARCHABLE_OPERATORS
    return too_large and found.lower == 0 and not found.exact and a.canonical_form == b.canonical_form
