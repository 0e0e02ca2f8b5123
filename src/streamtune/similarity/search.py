"""Similarity search and similarity centre: Definitions 1 and 2 of the StreamTune paper (Section IV-C)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamtune.dataflow import Dataflow
from streamtune.errors import StreamTuneError
from streamtune.similarity.distance import DEFAULT_BUDGET, within
from streamtune.similarity.packed import PackedDataflows, pack

_PAIRS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Shapes:
    """Dataflows grouped by shape, that is by canonical form.

    ``first[s]`` is the first dataflow of shape s, ``shape_of[d]`` the shape of dataflow d.
    """

    first: NDArray[np.int64]
    shape_of: NDArray[np.int64]

    def totals(self, weights: ArrayLike | None = None) -> NDArray[np.float64]:
        """The weight of each shape: how many dataflows have it, or the sum of theirs."""
        each = _weights(weights, len(self.shape_of))
        return np.bincount(self.shape_of, each, minlength=len(self.first)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class SimilarPairs:
    """All pairs of distinct shapes at an edit distance of at most ``tau``, each once and with the smaller one first.

    Dataflows of one shape are at distance 0 and need no pair.
    """

    tau: int
    shapes: Shapes
    pairs: NDArray[np.int64]

    def appearances(self, weights: ArrayLike | None = None) -> NDArray[np.float64]:
        """C_g of Definition 2 for each shape: the weight of all dataflows that find it, its own included."""
        totals = self.shapes.totals(weights)
        found = totals.copy()
        np.add.at(found, self.pairs[:, 0], totals[self.pairs[:, 1]])
        np.add.at(found, self.pairs[:, 1], totals[self.pairs[:, 0]])
        return found


@dataclass(frozen=True, slots=True)
class SimilarityCentre:
    """The dataflow (by its position) that appears most often in the similarity searches of all of them."""

    position: int
    appearances: float


def distinct_shapes(packed: PackedDataflows) -> Shapes:
    """Group dataflows by isomorphism: equal fingerprints are only a hint, distance 0 is the proof."""
    fingerprints = packed.fingerprints()
    _, first, shape_of = np.unique(fingerprints, return_index=True, return_inverse=True)
    twins = np.flatnonzero(first[shape_of] != np.arange(len(packed)))
    suspects = np.column_stack((first[shape_of[twins]], twins))
    leader = np.arange(len(packed))
    leader[twins] = np.where(within(packed, suspects, 0), suspects[:, 0], twins)
    # Two shapes with one fingerprint have never been met; if they are, each unlike dataflow stays a shape of its own.
    heads, positions = np.unique(leader, return_inverse=True)
    return Shapes(heads, positions)


def similar_pairs(dataflows: Sequence[Dataflow], tau: int, budget: int = DEFAULT_BUDGET) -> SimilarPairs:
    """Definition 1 for all dataflows at once: which shapes are within ``tau`` edit operations of each other.

    >>> chain = Dataflow.from_edges(["source", "sink"], [(0, 1)])
    >>> loose = Dataflow.from_edges(["source", "sink"], [])
    >>> similar_pairs([chain, loose, chain], tau=1).pairs.tolist()
    [[0, 1]]
    """
    return similar_packed_pairs(pack(dataflows), tau, budget)


def similar_packed_pairs(packed: PackedDataflows, tau: int, budget: int = DEFAULT_BUDGET) -> SimilarPairs:
    """``similar_pairs`` for dataflows that are packed already."""
    shapes = distinct_shapes(packed)
    similar = [block[within(packed, shapes.first[block], tau, budget)] for block in _blocks(len(shapes.first))]
    return SimilarPairs(tau, shapes, np.concatenate([*similar, np.zeros((0, 2), np.int64)]))


def similarity_centre(
    dataflows: Sequence[Dataflow], tau: int, weights: ArrayLike | None = None, budget: int = DEFAULT_BUDGET
) -> SimilarityCentre:
    """Definition 2, Eq. 7: the dataflow that most others find within ``tau``; the earliest one of several.

    ``weights`` says how often each dataflow occurs, once if not given.
    """
    if not dataflows:
        raise StreamTuneError(
            "no dataflows were given, and the similarity centre of none is not defined: give at least one"
        )
    found = similar_pairs(dataflows, tau, budget)
    appearances = found.appearances(weights)
    best = np.flatnonzero(appearances == appearances.max())
    position = int(found.shapes.first[best].min())
    return SimilarityCentre(position, float(appearances.max()))


def _blocks(count: int) -> Iterator[NDArray[np.int64]]:
    """All pairs (i, j) with i < j, a bounded number of them at a time."""
    start = 0
    while start < count - 1:
        stop = start + 1
        pairs = count - 1 - start
        while stop < count - 1 and pairs + count - 1 - stop <= _PAIRS_AT_ONCE:
            pairs += count - 1 - stop
            stop += 1
        rows = np.arange(start, stop)
        lengths = count - 1 - rows
        # The k-th pair of a row is (row, row + 1 + k), and k counts on from where the row begins in the block.
        shift = rows + 1 - (np.cumsum(lengths) - lengths)
        yield np.column_stack((np.repeat(rows, lengths), np.arange(pairs) + np.repeat(shift, lengths)))
        start = stop


def _weights(weights: ArrayLike | None, count: int) -> NDArray[np.float64]:
    if weights is None:
        return np.ones(count)
    checked = np.asarray(weights, np.float64)
    if checked.shape != (count,) or not np.isfinite(checked).all() or (checked < 0).any():
        raise StreamTuneError(f"weights must be {count} finite numbers of at least 0, but got {weights!r}")
    return checked
