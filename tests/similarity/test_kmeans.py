"""K-means over shapes: exact answers from a lazy table, ties by canonical form, planted families found again."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from similarity.families import planted
from streamtune.dataflow import Dataflow
from streamtune.similarity import edit_distance, pack, similarity_centre
from streamtune.similarity.distance_table import UNKNOWN, DistanceTable, packed_bounds
from streamtune.similarity.kmeans import (
    ClusteringError,
    WeightedShapes,
    elbow,
    kmeans,
    kmeans_with_elbow,
    similarity_centre_of,
)
from streamtune.similarity.settings import KMeansSettings

Matrix = NDArray[np.int64]


def metric(points: list[int], slack: int = 0) -> tuple[DistanceTable, Matrix, list[int]]:
    """Shapes on a line. A survey is off by up to ``slack`` on either side; a search cuts off at its limit."""
    matrix = np.abs(np.subtract.outer(points, points))
    asked: list[int] = []

    def bounds(pairs: Matrix, limits: Matrix, states: int) -> tuple[Matrix, Matrix]:
        true = matrix[pairs[:, 0], pairs[:, 1]]
        if states == 1:
            return np.maximum(true - slack, 1), true + slack
        asked.append(len(pairs))
        beyond = true > limits
        return np.where(beyond, limits + 1, true), np.where(beyond, UNKNOWN, true)

    return DistanceTable(len(points), bounds), matrix, asked


def shapes_of(weights: list[int]) -> WeightedShapes:
    return WeightedShapes.of({f"form-{number:03d}": weight for number, weight in enumerate(weights)})


distinct_points = st.lists(st.integers(0, 200), min_size=2, max_size=25, unique=True)


@given(distinct_points, st.integers(0, 30), st.data())
def test_lazy_answers_are_those_of_the_full_matrix(points: list[int], slack: int, data: st.DataObject) -> None:
    table, matrix, _ = metric(points, slack)
    index = st.integers(0, len(points) - 1)
    for _ in range(4):
        sets = data.draw(st.lists(st.lists(index, min_size=1, max_size=6, unique=True), min_size=1, max_size=3))
        for centres, found in zip(sets, table.nearest(sets), strict=True):
            # np.argmin takes the first of equals, which is what the table promises.
            assert found.tolist() == matrix[:, centres].argmin(axis=1).tolist()
        tau = data.draw(st.integers(0, 60))
        members = np.array(data.draw(st.lists(index, min_size=1, unique=True)))
        assert (table.within(members, tau) == (matrix[np.ix_(members, members)] <= tau)).all()
        first, second = np.array(data.draw(st.lists(st.tuples(index, index), min_size=1))).T
        assert table.exact(first, second).tolist() == matrix[first, second].tolist()
    assert table.unproven == 0


def test_known_distances_are_not_asked_for_again() -> None:
    table, _, asked = metric([0, 3, 50, 54, 100], slack=20)
    table.nearest([[0, 2], [1, 4]])
    table.exact(np.arange(5), np.zeros(5, np.int64))
    before = len(asked)
    table.nearest([[0, 2], [1, 4]])
    table.exact(np.zeros(5, np.int64), np.arange(5))
    assert before > 0
    assert len(asked) == before


def test_far_rivals_are_not_searched() -> None:
    # Survey bounds are true ± 2: for each point only its own end of the line can be nearest, so nothing is undecided.
    table, _, asked = metric([0, 1, 2, 3, 100, 101, 102, 103], slack=2)
    table.nearest([[0, 4]])
    assert asked == []


def test_a_search_that_gives_up_is_counted_and_its_upper_bound_used() -> None:
    table = DistanceTable(3, lambda pairs, _limits, _states: (np.full(len(pairs), 2), np.full(len(pairs), 6)))
    assert table.exact(np.array([0, 0]), np.array([1, 2])).tolist() == [6, 6]
    assert table.unproven == 2
    assert table.exact_pairs == 0
    assert table.is_proven(np.array([0, 2, 1]), np.array([1, 0, 1])).tolist() == [False, False, True]


@given(distinct_points, st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_order_of_the_shapes_does_not_matter(points: list[int], k: int, random: st.DrawFn) -> None:
    runs = {f"{point:03d}": point % 7 + 1 for point in points}
    shuffled = list(runs.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    results = []
    for mapping in (runs, dict(shuffled)):
        shapes = WeightedShapes.of(mapping)
        table, _, _ = metric([int(form) for form in shapes.forms], slack=3)
        found = kmeans(shapes, table, min(k, len(shapes)), KMeansSettings(restarts=3, seed=1))
        results.append(([shapes.forms[centre] for centre in found.centres], found.assignment.tolist(), found.inertia))
    assert results[0] == results[1]


@given(distinct_points, st.integers(1, 5), st.sampled_from(["random", "k-means++"]), st.integers(0, 3))
def test_clusters_are_a_partition_by_the_nearest_centre(points: list[int], k: int, init: str, seed: int) -> None:
    table, matrix, _ = metric(points, slack=5)
    shapes = shapes_of([point % 5 + 1 for point in points])
    k = min(k, len(points))
    found = kmeans(shapes, table, k, KMeansSettings.model_validate({"init": init, "seed": seed, "restarts": 2}))
    assert sorted(set(found.assignment.tolist())) == list(range(k))  # k clusters, none empty
    to_centres = matrix[:, list(found.centres)]
    assert (to_centres[np.arange(len(points)), found.assignment] == to_centres.min(axis=1)).all()
    assert found.distances.tolist() == to_centres.min(axis=1).tolist()
    assert found.inertia == (shapes.weights * to_centres.min(axis=1) ** 2).sum()
    runs = np.bincount(found.assignment, weights=shapes.weights)
    assert (np.diff(runs) <= 0).all()  # numbered by runs, largest first
    if found.stable:
        for number, centre in enumerate(found.centres):
            members = np.flatnonzero(found.assignment == number)
            # Equally near centres may send a member elsewhere than the last update saw it, never the centre itself.
            assert centre in members


def test_similarity_centre_by_hand() -> None:
    # On a line at 0, 4, 8, 30 with τ = 5: 4 finds 0, 4 and 8; 0 finds 0 and 4; 30 finds itself.
    table, _, _ = metric([0, 4, 8, 30])
    everything = np.arange(4)
    assert similarity_centre_of(everything, np.array([1, 1, 1, 1]), table, 5) == 1
    # With weights 1, 1, 1, 9 the appearance counts are 2, 3, 2 and 9.
    assert similarity_centre_of(everything, np.array([1, 1, 1, 9]), table, 5) == 3
    # With weights 5, 1, 5, 11 the counts are 6, 11, 6, 11: a tie, which the smaller form wins.
    assert similarity_centre_of(everything, np.array([5, 1, 5, 11]), table, 5) == 1


def test_similarity_centre_agrees_with_the_search_on_dataflows() -> None:
    flows, _ = planted(seed=3, families=1, members=12)
    flows = sorted(flows, key=lambda flow: flow.canonical_form)
    weights = [number % 4 + 1 for number in range(len(flows))]
    table = DistanceTable(len(flows), partial(packed_bounds, pack(flows)))
    for tau in (1, 2, 3):
        mine = similarity_centre_of(np.arange(len(flows)), np.array(weights), table, tau)
        assert mine == similarity_centre(flows, tau, weights).position


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_planted_families_are_found_again(seed: int, init: str) -> None:
    flows, families = planted(seed=seed, families=5, members=12)
    runs = {flow.canonical_form: 1 + seed for flow in flows}
    family_of = dict(zip((flow.canonical_form for flow in flows), families, strict=True))
    by_form = {flow.canonical_form: flow for flow in flows}
    shapes = WeightedShapes.of(runs)
    table = DistanceTable(len(shapes), partial(packed_bounds, pack([by_form[form] for form in shapes.forms])))
    settings = KMeansSettings.model_validate({"init": init, "seed": seed})
    found = kmeans_with_elbow(shapes, table, settings)
    truth = [family_of[form] for form in shapes.forms]
    assert found.clusters.k == 5
    assert adjusted_rand_score(truth, found.clusters.assignment) >= 0.9
    assert len(found.curve) == settings.max_k


@pytest.mark.parametrize("seed", range(3))
def test_spread_out_centres_find_many_families(seed: int) -> None:
    flows, families = planted(seed=seed, families=6, members=8)
    by_form = {flow.canonical_form: flow for flow in flows}
    truth = dict(zip(by_form, families, strict=True))
    shapes = WeightedShapes.of(dict.fromkeys(by_form, 1))
    table = DistanceTable(len(shapes), partial(packed_bounds, pack([by_form[form] for form in shapes.forms])))
    found = kmeans_with_elbow(shapes, table, KMeansSettings(seed=seed)).clusters
    assert adjusted_rand_score([truth[form] for form in shapes.forms], found.assignment) >= 0.9


@given(distinct_points, st.sampled_from(["random", "k-means++"]))
def test_a_k_gives_the_same_clusters_alone_and_on_the_way_to_the_elbow(points: list[int], init: str) -> None:
    shapes = shapes_of([point % 3 + 1 for point in points])
    settings = KMeansSettings.model_validate({"init": init, "restarts": 2, "max_k": 5})
    curve = kmeans_with_elbow(shapes, metric(points, slack=9)[0], settings).curve
    for k, value in enumerate(curve, start=1):
        alone = kmeans(shapes, metric(points, slack=9)[0], k, settings)
        assert alone.inertia / shapes.weights.sum() == value


def test_table_of_dataflows_is_exact() -> None:
    flows, _ = planted(seed=1, families=3, members=3)
    table = DistanceTable(len(flows), partial(packed_bounds, pack(flows)))
    first, second = (axis.ravel() for axis in np.meshgrid(np.arange(len(flows)), np.arange(len(flows))))
    expected = [edit_distance(flows[a], flows[b]) for a, b in zip(first, second, strict=True)]
    assert table.exact(first, second).tolist() == expected


def test_one_shape_is_one_cluster() -> None:
    only = Dataflow.from_edges(["source", "sink"], [(0, 1)])
    table = DistanceTable(1, partial(packed_bounds, pack([only])))
    found = kmeans_with_elbow(WeightedShapes.of({only.canonical_form: 7}), table)
    assert (found.clusters.k, found.clusters.inertia, found.curve) == (1, 0, (0,))


@pytest.mark.parametrize(
    ("curve", "k"),
    [
        ([10], 1),
        ([10, 10, 10], 1),  # nothing to gain
        ([10, 0], 1),  # two points have no bend between them
        ([100, 90, 3, 2.9, 2.8], 3),
        ([100, 3, 30, 2.9, 2.8], 2),  # a bad start at k = 3 does not hide the elbow
        ([127, 63, 31, 15, 7, 3, 1, 0], 1),  # every cluster halves 1 + distance: a straight line
        # log2(1 + value) is 10, 8, 4, 1, 1, 1, 1: below the chord by 0.06, 0.33, 0.5, 0.33, …
        ([1023, 255, 15, 1, 1, 1, 1], 4),
    ],
)
def test_elbow(curve: list[float], k: int) -> None:
    assert elbow(curve) == k


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=15))
def test_elbow_is_a_k_that_was_tried_and_prefers_no_worse_one(curve: list[float]) -> None:
    k = elbow(curve)
    assert 1 <= k <= len(curve)
    assert all(value > curve[k - 1] for value in curve[: k - 1] if k > 1)


def test_shapes_that_are_all_similar_are_one_cluster() -> None:
    flows, _ = planted(seed=0, families=1, members=30)
    by_form = {flow.canonical_form: flow for flow in flows}
    shapes = WeightedShapes.of(dict.fromkeys(by_form, 1))
    table = DistanceTable(len(shapes), partial(packed_bounds, pack([by_form[form] for form in shapes.forms])))
    assert kmeans_with_elbow(shapes, table).clusters.k == 1


@pytest.mark.parametrize("k", [0, 4, -1])
def test_a_k_that_cannot_be_is_refused(k: int) -> None:
    table, _, _ = metric([1, 2, 3])
    with pytest.raises(ClusteringError, match=rf"between 1 and the number of distinct dataflow shapes, 3, but got {k}"):
        kmeans(shapes_of([1, 1, 1]), table, k)


def test_no_shapes_are_refused() -> None:
    with pytest.raises(ClusteringError, match="no runs"):
        kmeans_with_elbow(WeightedShapes.of({}), DistanceTable(0, lambda pairs, _l, _s: (pairs, pairs)))
