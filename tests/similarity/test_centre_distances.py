"""Very many shapes: the answers of the table of all pairs, from a column per centre and a sample of members."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from similarity.families import planted
from streamtune.similarity import centre_distances, edit_distance, pack
from streamtune.similarity.centre_distances import CentreDistances
from streamtune.similarity.distance_table import UNKNOWN, DistanceTable, packed_bounds
from streamtune.similarity.kmeans import WeightedShapes, kmeans, kmeans_from
from streamtune.similarity.sampling import weighted_sample
from streamtune.similarity.settings import KMeansSettings
from streamtune.similarity.similar_weights import similar_weights

Matrix = NDArray[np.int64]


class Line:
    """Shapes on a line. A survey is off by up to ``slack`` on either side; a search cuts off at its limit."""

    def __init__(self, points: list[int], slack: int) -> None:
        self.matrix = np.abs(np.subtract.outer(points, points))
        self.slack = slack
        self.asked: set[tuple[int, int]] = set()
        self.counted = 0

    def bounds(self, pairs: Matrix, limits: Matrix, states: int) -> tuple[Matrix, Matrix]:
        assert (pairs[:, 0] < pairs[:, 1]).all()
        self.asked.update(map(tuple, pairs.tolist()))
        true = self.matrix[pairs[:, 0], pairs[:, 1]]
        if states == 1:
            return np.maximum(true - self.slack, 1), true + self.slack
        beyond = true > limits
        return np.where(beyond, limits + 1, true), np.where(beyond, UNKNOWN, true)

    def similar(self, rows: Matrix, columns: Matrix, weights: Matrix, tau: int) -> Matrix:
        self.counted += len(rows) * len(columns)
        return np.asarray((self.matrix[np.ix_(rows, columns)] <= tau) @ weights)


points = st.lists(st.integers(0, 300), min_size=3, max_size=30, unique=True)


@given(points, st.integers(0, 30), st.data())
def test_the_nearest_centre_and_its_distance_are_those_of_all_pairs(
    places: list[int], slack: int, data: st.DataObject
) -> None:
    line = Line(places, slack)
    table = CentreDistances(len(places), line.bounds, line.similar)
    index = st.integers(0, len(places) - 1)
    everything = np.arange(len(places))
    for _ in range(3):
        centres = np.array(data.draw(st.lists(index, min_size=1, max_size=5, unique=True)))
        nearest = table.nearest([centres])[0]
        assert nearest.tolist() == line.matrix[:, centres].argmin(axis=1).tolist()
        own = centres[nearest]
        assert table.exact(everything, own).tolist() == line.matrix[everything, own].tolist()
        assert table.is_proven(everything, own).all()
    assert table.unproven == 0


def test_only_pairs_with_a_centre_are_looked_at() -> None:
    line = Line(list(range(0, 4000, 10)), 3)
    table = CentreDistances(400, line.bounds, line.similar)
    table.nearest([[5, 200, 390]])
    assert len(line.asked) <= 3 * 400
    assert {5, 200, 390} >= {first for first, second in line.asked if second not in (5, 200, 390)}


def test_a_search_that_is_given_up_counts_with_its_upper_bound() -> None:
    def never(pairs: Matrix, _limits: Matrix, _states: int) -> tuple[Matrix, Matrix]:
        true = np.abs(pairs[:, 0] - pairs[:, 1])
        return np.maximum(true - 1, 1), true + 1

    table = CentreDistances(10, never, Line([0], 0).similar)
    assert table.exact(np.array([4]), np.array([0])).tolist() == [5]
    assert (table.unproven, table.is_proven(np.array([4]), np.array([0])).tolist()) == (1, [False])


def test_weight_within_tau_is_that_of_all_distances() -> None:
    flows, _ = planted(seed=3, families=3, members=12)
    packed, weights = pack(flows), np.arange(1, len(flows) + 1)
    rows, columns = np.arange(0, len(flows), 2), np.arange(1, len(flows))
    expected = [
        sum(int(weights[b]) for b in columns if edit_distance(flows[a], flows[b], limit=3) is not None) for a in rows
    ]
    assert similar_weights(packed, rows, columns, weights[columns], tau=3).tolist() == expected
    assert len(set(expected)) > 3


def test_in_a_large_cluster_the_centre_is_found_without_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centre_distances, "COUNTED_MEMBERS", 60)
    monkeypatch.setattr(centre_distances, "FINALISTS", 10)
    random = np.random.default_rng(5)
    line = Line(sorted(random.choice(20_000, 1500, replace=False).tolist()), 0)
    weights = random.integers(1, 50, 1500)
    members = np.arange(0, 1500, 2)
    table = CentreDistances(1500, line.bounds, line.similar)
    found = table.appearances(members, weights, 2000)
    true = (line.matrix[np.ix_(members, members)] <= 2000) @ weights[members]
    best = int(np.argmax(found))
    assert found[best] == true[best]  # the finalists are counted exactly
    assert true[best] >= 0.95 * true.max()
    assert line.counted == len(members) * (60 + 10) < len(members) ** 2 / 10
    monkeypatch.setattr(centre_distances, "COUNTED_MEMBERS", len(members))
    assert table.appearances(members, weights, 2000).tolist() == true.tolist()


def test_clusters_from_the_same_centres_are_the_same() -> None:
    flows, _ = planted(seed=11, families=4, members=10)
    shapes = WeightedShapes.of({flow.canonical_form: number % 7 + 1 for number, flow in enumerate(flows)})
    by_form = {flow.canonical_form: flow for flow in flows}
    packed = pack(by_form[form] for form in shapes.forms)
    bounds = partial(packed_bounds, packed)
    exact = kmeans(shapes, DistanceTable(len(shapes), bounds), 4, KMeansSettings(restarts=4))
    table = CentreDistances(len(shapes), bounds, partial(similar_weights, packed))
    found = kmeans_from(exact.centres, shapes, table, KMeansSettings().tau, 5)
    assert (found.centres, found.inertia, found.stable) == (exact.centres, exact.inertia, True)
    assert found.assignment.tolist() == exact.assignment.tolist()
    assert found.distances.tolist() == exact.distances.tolist()
    alone = kmeans_from(exact.centres, shapes, table, KMeansSettings().tau, 0)
    assert (alone.iterations, alone.stable, alone.inertia) == (0, False, exact.inertia)


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=200), st.integers(2, 40), st.integers(0, 9))
def test_a_sample_has_its_size_and_stands_for_all(weights: list[int], size: int, seed: int) -> None:
    all_weights = np.array(weights)
    chosen, stands_for = weighted_sample(all_weights, size, np.random.default_rng(seed))
    assert len(chosen) == len(set(chosen.tolist())) == min(size, len(weights))
    assert (np.diff(chosen) > 0).all()
    assert (stands_for >= all_weights[chosen]).all()
    # Each weight is off by half at most, from being made whole.
    assert abs(int(stands_for.sum()) - int(all_weights.sum())) <= len(chosen)
    certain = all_weights > all_weights.sum() / size
    assert np.isin(np.flatnonzero(certain), chosen).all()
