"""Distances of very many shapes to a few centres, in memory that grows with shapes × centres.

``DistanceTable`` has a place for every pair of shapes: the square of their number. This has a column per centre that
was ever asked for, and answers K-means' two questions from them: which centre is nearest, by the same rule and as
exactly; and which member of a cluster most others find within τ, without all pairs of members. A cluster of many
members is first counted against a sample of them, and only the most promising ones against all: the work per member
does not grow with the number of members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamtune.similarity.distance_table import (
    PROOF_STATES,
    SURVEY_STATES,
    UNKNOWN,
    Bounded,
    DistanceTable,
    PairBounds,
    nearest_of,
    undecided,
)
from streamtune.similarity.sampling import weighted_sample

Indices = NDArray[np.int64]

# Members that all others are counted against; as many members and no more are all counted exactly.
COUNTED_MEMBERS = 2_000
# Members with the highest counts in the sample, which are then counted exactly.
FINALISTS = 50
_SLAB = 1 << 20


class SimilarWeights(Protocol):
    """For each of ``rows`` the weight of the ``columns`` within ``tau`` of it."""

    def __call__(self, rows: Indices, columns: Indices, weights: Indices, tau: int) -> Indices: ...


class CentreDistances:
    """``Distances`` of K-means for ``size`` shapes; 5 bytes per shape and centre asked for."""

    def __init__(
        self,
        size: int,
        bounds: PairBounds,
        similar: SimilarWeights,
        seed: int = 0,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._size = size
        self._bounds = bounds
        self._similar = similar
        self._seed = seed
        self._progress = progress
        self._column: dict[int, int] = {}
        self._lower: Bounded = np.zeros((size, 0), np.int16, order="F")
        self._upper: Bounded = np.zeros((size, 0), np.int16, order="F")
        self._gave_up = np.zeros((size, 0), np.bool_, order="F")

    def __len__(self) -> int:
        return self._size

    @property
    def unproven(self) -> int:
        """Pairs of a shape and a centre whose search ran out of states: their upper bound was taken."""
        return int(self._gave_up.sum())

    @property
    def exact_pairs(self) -> int:
        """Pairs of a shape and another that was a centre whose distance is known."""
        known = int(np.count_nonzero(self._lower == self._upper))
        return known - len(self._column) - self.unproven

    def is_proven(self, first: Indices, second: Indices) -> NDArray[np.bool_]:
        """Whether the distance of each shape in ``first`` to the centre in ``second`` is known, and not given up."""
        columns = self._columns(second)
        known = self._lower[first, columns] == self._upper[first, columns]
        return np.asarray(known & ~self._gave_up[first, columns])

    def nearest(self, centre_sets: Sequence[Sequence[int] | Indices]) -> list[Indices]:
        """For each set and every shape: the position in the set of the nearest centre; of equally near ones, the first.

        One set after the other: bounds of one are n × k numbers already.
        """
        return [self._nearest(np.asarray(centres, np.int64)) for centres in centre_sets]

    def _nearest(self, centres: Indices) -> Indices:
        if len(centres) == 1:
            return np.zeros(self._size, np.int64)
        self._survey(centres)
        columns = self._columns(centres)
        while True:
            rows, places, reach = undecided(self._lower[:, columns], self._upper[:, columns])
            self._progress(f"nearest of {len(centres)} centres: {len(np.unique(rows)):,} of {self._size:,} shapes open")
            if not len(rows):
                return nearest_of(self._lower[:, columns], self._upper[:, columns])
            self._search(rows, centres[places], reach)

    def exact(self, first: Indices, second: Indices) -> Indices:
        """The distance of each shape in ``first`` to the centre at the same place in ``second``."""
        self._survey(np.unique(second))
        columns = self._columns(second)
        upper = self._upper[first, columns].astype(np.int64)
        wanted = self._lower[first, columns] < upper
        self._search(first[wanted], second[wanted], upper[wanted])
        return self._upper[first, columns].astype(np.int64)

    def appearances(self, members: Indices, weights: Indices, tau: int) -> Indices:
        """C_g of Definition 2 for each of ``members``, 0 for those that a sample of the members rules out."""
        own = weights[members]
        self._progress(f"similarity centre of {len(members):,} shapes")
        if len(members) <= COUNTED_MEMBERS:
            return self._similar(members, members, own, tau)
        random = np.random.default_rng([self._seed, len(members)])
        chosen, stands_for = weighted_sample(own, COUNTED_MEMBERS, random)
        estimate = self._similar(members, members[chosen], stands_for, tau)
        finalists = np.sort(np.lexsort((np.arange(len(members)), -estimate))[:FINALISTS])
        found = np.zeros(len(members), np.int64)
        found[finalists] = self._similar(members[finalists], members, own, tau)
        return found

    def estimate(self, members: Indices) -> NDArray[np.float64]:
        """A matrix for pictures, as ``DistanceTable.estimate``; ``members`` ascend."""
        table = DistanceTable(len(members), lambda pairs, limits, states: self._bounds(members[pairs], limits, states))
        return table.estimate(np.arange(len(members)))

    def _columns(self, centres: Indices) -> Indices:
        distinct, position = np.unique(centres, return_inverse=True)
        return np.array([self._column[int(centre)] for centre in distinct], np.int64)[position]

    def _survey(self, centres: Indices) -> None:
        """A column with cheap bounds for each centre that has none."""
        new = np.array([centre for centre in centres.tolist() if centre not in self._column], np.int64)
        if not len(new):
            return
        for centre in new.tolist():
            self._column[centre] = len(self._column)
        self._lower = np.hstack([self._lower, np.zeros((self._size, len(new)), np.int16)])
        self._upper = np.hstack([self._upper, np.full((self._size, len(new)), UNKNOWN, np.int16)])
        self._gave_up = np.hstack([self._gave_up, np.zeros((self._size, len(new)), np.bool_)])
        self._upper[new, self._columns(new)] = 0  # a centre is at distance 0 from itself
        for part in _slabs(self._size * len(new)):
            place, first = np.divmod(np.arange(part.start, part.stop), self._size)
            second = new[place]
            others = first != second
            self._learn(first[others], second[others], np.full(int(others.sum()), UNKNOWN), SURVEY_STATES)

    def _search(self, first: Indices, second: Indices, limits: Indices) -> None:
        """Learn of each pair its distance, or that it is above the limit."""
        for part in _slabs(len(first)):
            self._learn(first[part], second[part], limits[part], PROOF_STATES)

    def _learn(self, first: Indices, second: Indices, limits: Indices, states: int) -> None:
        columns = self._columns(second)
        pairs = np.column_stack((np.minimum(first, second), np.maximum(first, second)))
        lower, upper = self._bounds(pairs, limits, states)
        lower = np.maximum(np.minimum(lower, UNKNOWN), self._lower[first, columns])
        upper = np.minimum(np.minimum(upper, UNKNOWN), self._upper[first, columns])
        if states > SURVEY_STATES:
            gave_up = (lower < upper) & (lower <= limits)
            self._gave_up[first, columns] |= gave_up
            lower = np.where(gave_up, upper, lower)
        self._lower[first, columns], self._upper[first, columns] = lower, upper


def _slabs(count: int) -> Iterator[slice]:
    for start in range(0, count, _SLAB):
        yield slice(start, min(count, start + _SLAB))
