"""K-means over dataflow DAGs with graph edit distance (StreamTune Section IV-C).

The data points are the distinct shapes of a history, each with a weight: the runs that have it. The paper's three steps
are (1) random initial centres, (2) every DAG to its nearest centre, (3) the similarity centre of every cluster
(Definition 2) as its new centre, and back to (2) until the centres stay. By default the initial centres are spread out
as in k-means++ (Arthur and Vassilvitskii, 2007), because random ones can miss one of many families. A similarity
centre does not minimise the distances that assignment minimises, so the iteration may run in circles: it then ends at
the best point of the circle.

All ties, of distance or of appearance count, go to the smaller canonical form. Neither the order of the shapes nor the
number of machines that computed the distances can show in the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamtune.errors import StreamTuneError
from streamtune.similarity.distance_table import DistanceTable
from streamtune.similarity.settings import Init, KMeansSettings

Indices = NDArray[np.int64]


class Distances(Protocol):
    """What an iteration of K-means asks of the distances between shapes; ``DistanceTable`` says what each means."""

    def nearest(self, centre_sets: Sequence[Sequence[int] | Indices]) -> list[Indices]: ...

    def exact(self, first: Indices, second: Indices) -> Indices: ...

    def appearances(self, members: Indices, weights: Indices, tau: int) -> Indices: ...


class ClusteringError(StreamTuneError):
    """A clustering that is not possible."""


@dataclass(frozen=True)
class WeightedShapes:
    """Distinct shapes by canonical form, ascending, and how many data points each stands for."""

    forms: tuple[str, ...]
    weights: Indices

    @classmethod
    def of(cls, runs: Mapping[str, int]) -> WeightedShapes:
        """
        >>> WeightedShapes.of({"source,sink|0>1": 3, "sink|": 1}).forms
        ('sink|', 'source,sink|0>1')
        """
        forms = tuple(sorted(runs))
        return cls(forms, np.array([runs[form] for form in forms], np.int64))

    def __len__(self) -> int:
        return len(self.forms)

    def part(self, chosen: Indices, weights: Indices) -> WeightedShapes:
        """Some of the shapes, in their order, with weights of their own."""
        return WeightedShapes(tuple(self.forms[index] for index in chosen), weights)


@dataclass(frozen=True)
class Clusters:
    """A partition of the shapes; cluster 0 has the most runs. Inertia is the sum of runs × squared distance."""

    centres: tuple[int, ...]
    assignment: Indices
    distances: Indices
    inertia: int
    iterations: int = 0
    stable: bool = False

    @property
    def k(self) -> int:
        return len(self.centres)


def similarity_centre_of(members: Indices, weights: Indices, table: Distances, tau: int) -> int:
    """Definition 2: the member that appears most often in the similarity searches of all members.

    C_g = Σ_g' [ged(g, g') ≤ τ], where a shape that stands for w DAGs counts w times. Of equals, the smallest index.
    """
    return int(members[np.argmax(table.appearances(members, weights, tau))])


def kmeans(shapes: WeightedShapes, table: DistanceTable, k: int, settings: KMeansSettings | None = None) -> Clusters:
    """The best of several seeded starts with k clusters."""
    check_k(shapes, k)
    return _best_of_each(shapes, table, [k], settings or KMeansSettings())[0]


def kmeans_from(
    centres: Sequence[int], shapes: WeightedShapes, table: Distances, tau: int, max_iterations: int
) -> Clusters:
    """K-means from given centres; ``max_iterations`` of 0 assigns every shape once and moves no centre."""
    return _best(_walk([_Way(centres, max_iterations)], shapes, table, tau))


def check_k(shapes: WeightedShapes, k: int) -> None:
    """Refuse what cannot be clustered."""
    if not len(shapes):
        raise ClusteringError("there is nothing to cluster: the history has no runs")
    if not 1 <= k <= len(shapes):
        raise ClusteringError(
            f"k must be between 1 and the number of distinct dataflow shapes, {len(shapes)}, but got {k}"
        )


@dataclass(frozen=True)
class Elbow:
    """The clusters at the elbow, and the mean squared distance of a run to its centre for k = 1, 2, …"""

    clusters: Clusters
    curve: tuple[float, ...]


def kmeans_with_elbow(shapes: WeightedShapes, table: DistanceTable, settings: KMeansSettings | None = None) -> Elbow:
    """K-means for every k up to ``max_k``, and the one at the elbow.

    Never more clusters than it takes to have every shape within τ of its centre: by Definition 1 they are all similar
    then, and there is nothing left to tell apart.
    """
    settings = settings or KMeansSettings()
    check_k(shapes, 1)
    tried = _best_of_each(shapes, table, range(1, min(settings.max_k, len(shapes)) + 1), settings)
    curve = tuple(float(clusters.inertia / shapes.weights.sum()) for clusters in tried)
    enough = next((clusters.k for clusters in tried if clusters.distances.max() <= settings.tau), len(tried))
    return Elbow(tried[min(elbow(curve), enough) - 1], curve)


# A curve that leaves its chord by less than this share of its height, on a log scale, has no elbow.
LEAST_BEND = 0.1


def elbow(curve: Sequence[float]) -> int:
    """The k at which the mean squared distance to the centre, over k = 1, 2, …, bends most (Ketchen and Shook, 1996).

    The curve is log(1 + value), since what matters is the share of the distance that one more cluster takes away: on a
    linear scale two families far apart hide all others. Both axes are scaled to [0, 1]; the elbow is the point furthest
    below the chord from the first point to the last (Satopää et al., *Finding a "Kneedle" in a Haystack*, 2011). A
    curve that rises somewhere, because K-means finds no global optimum, is replaced by its running minimum. Of equal
    points the smaller k wins. Where no point lies more than a tenth below the chord there is no elbow, and one cluster.

    >>> elbow([100, 40, 4, 3.5, 3, 2.8])
    3
    >>> elbow([3, 2.5, 2.1, 1.7, 1.4, 1.1])
    1
    """
    values = np.log1p(np.minimum.accumulate(np.asarray(curve, np.float64)))
    if len(values) < 2 or values[0] == values[-1]:
        return 1
    height = (values - values[-1]) / (values[0] - values[-1])
    chord = 1 - np.arange(len(values)) / (len(values) - 1)
    # Rounded, so that float noise does not decide between equal points.
    below = np.round(chord - height, 9)
    return int(np.argmax(below)) + 1 if below.max() > LEAST_BEND else 1


def _best_of_each(
    shapes: WeightedShapes, table: DistanceTable, ks: Sequence[int], settings: KMeansSettings
) -> list[Clusters]:
    """For each k the best of its starts. All starts go side by side, so that their distances are asked for together."""
    # With one cluster, or one shape in each, every start ends at the same place.
    starts = [(k, start) for k in ks for start in range(1 if k in (1, len(shapes)) else settings.restarts)]
    draws = [_Draw(k, np.random.default_rng([settings.seed, k, start])) for k, start in starts]
    ways = [_Way(initial, settings.max_iterations) for initial in _initial_centres(shapes, table, draws, settings.init)]
    results = _walk(ways, shapes, table, settings.tau)
    return [_best([each for each in results if each.k == k]) for k in ks]


def _walk(ways: Sequence[_Way], shapes: WeightedShapes, table: Distances, tau: int) -> list[Clusters]:
    """Assign and update until every way has ended; the clusters at all the points where they may end."""
    while going := [way for way in ways if not way.ended]:
        for way, nearest in zip(going, table.nearest([way.centres for way in going]), strict=True):
            members = [np.flatnonzero(nearest == number) for number in range(len(way.centres))]
            way.go_to([similarity_centre_of(group, shapes.weights, table, tau) for group in members])
    ends = [(end, way) for way in ways for end in way.circle]
    found = _clusters_at([end for end, _ in ends], shapes, table)
    return [
        replace(clusters, iterations=len(way.visited), stable=way.is_stable)
        for clusters, (_, way) in zip(found, ends, strict=True)
    ]


def _best(found: Sequence[Clusters]) -> Clusters:
    return min(found, key=lambda each: (each.inertia, sorted(each.centres)))


@dataclass
class _Draw:
    """Initial centres being drawn."""

    k: int
    random: np.random.Generator
    centres: list[int] = field(default_factory=list)


def _initial_centres(
    shapes: WeightedShapes, table: DistanceTable, draws: Sequence[_Draw], init: Init
) -> list[list[int]]:
    """K different shapes each: drawn by weight, or (k-means++) by weight × squared distance to those drawn before."""
    weights = shapes.weights.astype(np.float64)
    everything = np.arange(len(shapes))
    if init == "random":
        shares = weights / weights.sum()
        return [draw.random.choice(everything, draw.k, replace=False, p=shares).tolist() for draw in draws]
    for draw in draws:
        pull = weights
        roughly = np.full(len(shapes), np.inf)
        while len(draw.centres) < draw.k:
            drawn = int(draw.random.choice(everything, p=pull / pull.sum()))
            draw.centres.append(drawn)
            roughly = np.minimum(roughly, table.rough(everything, np.full(len(shapes), drawn)))
            pull = weights * roughly**2
    return [draw.centres for draw in draws]


class _Way:
    """The centres that one start has visited; it ends when they stay, when they repeat, or after too many steps."""

    def __init__(self, centres: Sequence[int], max_iterations: int) -> None:
        self.visited: list[tuple[int, ...]] = []
        self.centres: tuple[int, ...] = tuple(sorted(int(centre) for centre in centres))
        self._max_iterations = max_iterations

    def go_to(self, centres: Sequence[int]) -> None:
        self.visited.append(self.centres)
        self.centres = tuple(sorted(centres))

    @property
    def has_come_back(self) -> bool:
        return self.centres in self.visited

    @property
    def ended(self) -> bool:
        return self.has_come_back or len(self.visited) == self._max_iterations

    @property
    def circle(self) -> list[tuple[int, ...]]:
        """The states that repeat forever: a single one if stable. If there are none, the state where it stopped."""
        return self.visited[self.visited.index(self.centres) :] if self.has_come_back else [self.centres]

    @property
    def is_stable(self) -> bool:
        return self.has_come_back and len(self.circle) == 1


def _clusters_at(centre_sets: Sequence[Sequence[int]], shapes: WeightedShapes, table: Distances) -> list[Clusters]:
    """Every shape with its nearest centre, for many sets of centres; clusters numbered by runs, largest first."""
    everything = np.arange(len(shapes))
    positions = table.nearest(centre_sets)
    ends = [np.asarray(centres)[nearest] for centres, nearest in zip(centre_sets, positions, strict=True)]
    distances = table.exact(np.tile(everything, len(ends)), np.concatenate(ends)).reshape(len(ends), -1)
    result = []
    for centres, nearest, row in zip(centre_sets, positions, distances, strict=True):
        runs = np.bincount(nearest, weights=shapes.weights, minlength=len(centres))
        order = np.lexsort((np.asarray(centres), -runs))
        rank = np.argsort(order)
        numbered = tuple(int(centres[position]) for position in order)
        result.append(Clusters(numbered, rank[nearest], row, int((shapes.weights * row**2).sum())))
    return result
