"""Distances that are computed on demand, only as exactly as the question needs, and never twice.

Clustering asks two questions: which of these is nearest, and is this one within τ? Neither needs the distance of every
pair. The table keeps a lower and an upper bound per pair, starts with what the root of the search gives for a few
microseconds (a *survey*), and then raises only those bounds that could still change an answer: no search goes far
beyond the distance to the nearest. The answers are those of a full matrix of exact distances; a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamtune.similarity.distance import measure_pairs
from streamtune.similarity.packed import PackedDataflows

Indices = NDArray[np.int64]
Pairs = NDArray[np.int64]  # M × 2, the smaller index first
Bounds = tuple[NDArray[np.int64], NDArray[np.int64]]  # lower and upper, M each
Bounded = NDArray[np.int16]  # shapes × centres: lower or upper bounds

# Larger than the distance of any two realistic dataflows, small enough for 16 bits.
UNKNOWN = 30_000
SURVEY_STATES = 1
# Some tenth of a second: what is left after it are pairs of large and unlike shapes, seldom nearest to each other.
PROOF_STATES = 20_000
# How far one step of a search for the nearest goes: the cost of a search grows steeply with its depth.
_STEP = 4
_SLAB = 1 << 20


class PairBounds(Protocol):
    """Bounds of the distances of pairs; equal bounds are the distance.

    Bounds that differ mean that the distance is above the pair's limit (then the lower one is, too), or that the search
    ran out of ``states``.
    """

    def __call__(self, pairs: Pairs, limits: Indices, states: int) -> Bounds: ...


def packed_bounds(packed: PackedDataflows, pairs: Pairs, limits: Indices, states: int) -> Bounds:
    """``PairBounds`` by the compiled search: one call of the kernel per different limit."""
    lower, upper = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    for limit in np.unique(limits):
        chosen = limits == limit
        found = measure_pairs(packed, pairs[chosen], limit=int(limit), budget=states)
        lower[chosen], upper[chosen] = found.lower, found.upper
    return lower, upper


def rivals(lower: Bounded, upper: Bounded) -> NDArray[np.bool_]:
    """Which centres (columns) may still be nearest to which shape (row)."""
    return np.asarray(lower <= upper.min(axis=1, keepdims=True))


def nearest_of(lower: Bounded, upper: Bounded) -> Indices:
    """The first column that may be nearest to each row: the nearest one where nothing is undecided."""
    return np.asarray(np.argmax(rivals(lower, upper), axis=1))


def undecided(lower: Bounded, upper: Bounded) -> tuple[Indices, Indices, Indices]:
    """Pairs (row, column) to search next, and how far. None where all rivals are known, or only one is left."""
    rival = rivals(lower, upper)
    wanted = rival & (lower < upper) & (rival.sum(axis=1, keepdims=True) > 1)
    # From the lowest bound upwards: what lies above the reach cannot win before this is settled.
    reach = np.minimum(lower.min(axis=1) + _STEP, upper.min(axis=1))
    rows, columns = np.nonzero(wanted & (lower <= reach[:, None]))
    return rows, columns, reach[rows].astype(np.int64)


class DistanceTable:
    """What is known of the distances between ``size`` shapes; it takes 6 · size² bytes.

    >>> line = lambda pairs, limits, states: (abs(pairs[:, 0] - pairs[:, 1]),) * 2
    >>> table = DistanceTable(10, line)
    >>> table.nearest([[2, 7]])[0].tolist()
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    """

    def __init__(self, size: int, bounds: PairBounds) -> None:
        self._bounds = bounds
        self._lower = np.zeros((size, size), np.int16)
        self._upper = np.full((size, size), UNKNOWN, np.int16)
        np.fill_diagonal(self._upper, 0)
        self._surveyed = np.zeros((size, size), np.int16)
        self._unproven = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._lower)

    @property
    def unproven(self) -> int:
        """Pairs whose search ran out of states: the upper bound is taken for their distance, which may be less."""
        return len(self._unproven)

    @property
    def exact_pairs(self) -> int:
        """Pairs of different shapes whose distance is known."""
        known = np.count_nonzero(self._lower == self._upper) - len(self)
        return int(known) // 2 - self.unproven

    def is_proven(self, first: Indices, second: Indices) -> NDArray[np.bool_]:
        """Whether the distance of each pair is known, and not merely the upper bound of a search that was given up."""
        known = self._lower[first, second] == self._upper[first, second]
        return np.asarray(known & ~np.isin(self._keys(first, second), self._unproven))

    def survey(self, members: Indices | None = None) -> None:
        """Cheap bounds for all pairs of ``members`` (all shapes if not given) that have none yet."""
        chosen = np.arange(len(self)) if members is None else members
        for rows in np.array_split(chosen, max(1, len(chosen) ** 2 // _SLAB)):
            first, second = np.meshgrid(rows, chosen, indexing="ij")
            self._look_at(first.ravel(), second.ravel())

    def nearest(self, centre_sets: Sequence[Sequence[int] | Indices]) -> list[Indices]:
        """For each set and every shape: the position in the set of the nearest centre; of equally near ones, the first.

        Many sets at once, because few large batches of pairs spread better than many small ones.
        """
        everything = np.arange(len(self))
        sets = [np.asarray(centres, np.int64) for centres in centre_sets]
        several = [centres for centres in sets if len(centres) > 1]
        if several:
            columns = np.unique(np.concatenate(several))
            self._look_at(np.tile(everything, len(columns)), np.repeat(columns, len(everything)))
        open_sets = several
        while open_sets:
            asked = [self._undecided(centres) for centres in open_sets]
            open_sets = [centres for centres, (rows, _, _) in zip(open_sets, asked, strict=True) if len(rows)]
            self._search(*(np.concatenate(parts) for parts in zip(*asked, strict=True)))
        return [nearest_of(self._lower[:, centres], self._upper[:, centres]) for centres in sets]

    def _undecided(self, centres: Indices) -> tuple[Indices, Indices, Indices]:
        rows, columns, reach = undecided(self._lower[:, centres], self._upper[:, centres])
        return rows, centres[columns], reach

    def exact(self, first: Indices, second: Indices) -> Indices:
        """The distance of each shape in ``first`` to the one at the same place in ``second``."""
        self._look_at(first, second)
        upper = self._upper[first, second].astype(np.int64)
        wanted = self._lower[first, second] < upper
        self._search(first[wanted], second[wanted], upper[wanted])
        return self._upper[first, second].astype(np.int64)

    def within(self, members: Indices, tau: int) -> NDArray[np.bool_]:
        """Definition 1 for all of ``members``: is the distance of i and j at most ``tau``?"""
        rows, columns = np.meshgrid(members, members, indexing="ij")
        wanted = (self._lower[rows, columns] <= tau) & (self._upper[rows, columns] > tau) & (rows < columns)
        self._search(rows[wanted], columns[wanted], np.full(int(wanted.sum()), tau))
        return np.asarray(self._upper[rows, columns] <= tau)

    def appearances(self, members: Indices, weights: Indices, tau: int) -> Indices:
        """C_g of Definition 2 for each of ``members``: the weight of those within ``tau`` of it, its own included."""
        return np.asarray(self.within(members, tau) @ weights[members])

    def rough(self, first: Indices, second: Indices) -> Indices:
        """Distances as the survey saw them: cheap, and the same whatever has been searched since."""
        self._look_at(first, second)
        return self._surveyed[first, second].astype(np.int64)

    def estimate(self, members: Indices) -> NDArray[np.float64]:
        """A matrix for pictures: distances where they are known, else the middle between the bounds."""
        self.survey(members)
        block = np.ix_(members, members)
        return (self._lower[block].astype(np.float64) + self._upper[block]) / 2

    def _look_at(self, first: Indices, second: Indices) -> None:
        """Survey the pairs of which nothing is known."""
        new = self._upper[first, second] == UNKNOWN
        keys = np.unique(self._keys(first[new], second[new]))
        for part in np.array_split(keys, max(1, -(-len(keys) // _SLAB))):
            if len(part):
                pairs = self._pairs(part)
                lower, upper = self._bounds(pairs, np.full(len(pairs), UNKNOWN), SURVEY_STATES)
                self._store(pairs, lower, upper)
                first, second = pairs[:, 0], pairs[:, 1]
                self._surveyed[first, second] = self._surveyed[second, first] = (lower + upper) // 2

    def _search(self, first: Indices, second: Indices, limits: Indices) -> None:
        """Learn of each pair its distance, or that it is above the limit."""
        if not len(first):
            return
        keys, position = np.unique(self._keys(first, second), return_inverse=True)
        pairs = self._pairs(keys)
        highest = np.zeros(len(pairs), np.int64)
        np.maximum.at(highest, position, limits)
        lower, upper = self._bounds(pairs, highest, PROOF_STATES)
        upper = np.minimum(upper, self._upper[pairs[:, 0], pairs[:, 1]])
        gave_up = (lower < upper) & (lower <= highest)
        self._unproven = np.union1d(self._unproven, keys[gave_up])
        self._store(pairs, np.where(gave_up, upper, lower), upper)

    def _store(self, pairs: Pairs, lower: NDArray[np.int64], upper: NDArray[np.int64]) -> None:
        first, second = pairs[:, 0], pairs[:, 1]
        low = np.maximum(np.minimum(lower, UNKNOWN), self._lower[first, second])
        high = np.minimum(np.minimum(upper, UNKNOWN), self._upper[first, second])
        self._lower[first, second] = self._lower[second, first] = low
        self._upper[first, second] = self._upper[second, first] = high

    def _keys(self, first: Indices, second: Indices) -> Indices:
        """One number per unordered pair."""
        return np.minimum(first, second) * len(self) + np.maximum(first, second)

    def _pairs(self, keys: Indices) -> Pairs:
        return np.column_stack(np.divmod(keys, len(self)))
