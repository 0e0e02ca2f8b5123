"""Laws of M_f: monotone where it says so, exact where it says so, and the search finds the least safe parallelism."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from streamtune.errors import TuningError
from streamtune.models.bottleneck import CLASSIFIERS, BottleneckClassifier, MonotoneSVM, make_classifier, smallest_safe

MONOTONE = [name for name, model in CLASSIFIERS.items() if model.is_monotone]
every_classifier = pytest.mark.parametrize("name", list(CLASSIFIERS))


def planted(seed: int, rows: int = 120, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Operators whose need is 40·h₀; a share ``noise`` of the labels is wrong."""
    random = np.random.default_rng(seed)
    vectors, degrees = random.random((rows, 3)), random.integers(1, 61, rows)
    labels = (degrees < 40 * vectors[:, 0]).astype(int)
    wrong = random.random(rows) < noise
    return vectors, degrees, np.where(wrong, 1 - labels, labels)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), noise=st.sampled_from([0.0, 0.2, 0.5]), probe=st.integers(0, 119))
@pytest.mark.parametrize("name", MONOTONE)
def test_more_parallelism_never_makes_a_bottleneck_likelier(name: str, seed: int, noise: float, probe: int) -> None:
    vectors, degrees, labels = planted(seed, noise=noise)
    model = make_classifier(name).fit(vectors, degrees, labels)
    chance = model.probability(np.tile(vectors[probe], (100, 1)), np.arange(1, 101))
    assert (np.diff(chance) <= 1e-9).all()
    assert ((chance >= 0) & (chance <= 1)).all()


@pytest.mark.parametrize("name", MONOTONE)
def test_monotone_even_when_the_data_say_the_opposite(name: str) -> None:
    vectors, degrees, labels = planted(3)
    model = make_classifier(name).fit(vectors, degrees, 1 - labels)
    chance = model.probability(np.tile(vectors[0], (100, 1)), np.arange(1, 101))
    assert (np.diff(chance) <= 1e-9).all()


def test_the_plain_network_promises_nothing_and_keeps_no_order() -> None:
    vectors, degrees, labels = planted(3)
    model = make_classifier("nn").fit(vectors, degrees, 1 - labels)
    chance = model.probability(np.tile(vectors[0], (100, 1)), np.arange(1, 101))
    assert not model.is_monotone
    assert (np.diff(chance) > 0).any(), "the data say that more parallelism is worse, and it believes them"


@every_classifier
def test_it_learns_the_planted_need(name: str) -> None:
    vectors, degrees, labels = planted(1, rows=800)
    model = make_classifier(name).fit(vectors, degrees, labels)
    test, _, _ = planted(2, rows=200)
    test = test[test[:, 0] > 0.2]
    found = smallest_safe(model, test, 60)
    assert np.median(np.abs(np.log(found.degrees / (40 * test[:, 0])))) < 0.2


def svm_parts(vectors: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = StandardScaler().fit_transform(vectors)
    log_p = np.log(degrees)
    return rbf_kernel(scaled, gamma=1 / vectors.shape[1]), np.outer(log_p, log_p)


def primal(kernel: np.ndarray, machine: SVC, labels: np.ndarray, penalty: float) -> float:
    """½‖w‖² + C Σ ξ of a fitted machine under its kernel: the objective of Eq. 5."""
    dual = np.zeros(len(labels))
    dual[machine.support_] = machine.dual_coef_[0]
    decision = kernel @ dual + machine.intercept_[0]
    slack = np.maximum(0, 1 - np.where(labels == 1, 1, -1) * decision)
    return float(0.5 * dual @ kernel @ dual + penalty * slack.sum())


def test_eq_5_with_the_constraint_asleep_is_the_svm_on_both() -> None:
    vectors, degrees, labels = planted(5)
    model = MonotoneSVM().fit(vectors, degrees, labels)
    in_h, in_p = svm_parts(vectors, degrees)
    machine = SVC(C=30.0, kernel="precomputed").fit(in_h + in_p, labels)
    assert model.slope < 0
    expected = (in_h + in_p)[:, machine.support_] @ machine.dual_coef_[0] + machine.intercept_[0]
    np.testing.assert_allclose(model.decision(vectors, np.log(degrees)), expected, atol=1e-6)


def test_eq_5_with_the_constraint_awake_has_no_slope_and_no_better_neighbour() -> None:
    """Where the free optimum has w_p > 0, the constrained one has w_p = 0 (the problem is convex). The free optimum
    must be better than it, and any other feasible point (here: the free one with its slope cut off) worse."""
    vectors, degrees, labels = planted(5)
    labels = 1 - labels
    model = MonotoneSVM().fit(vectors, degrees, labels)
    in_h, in_p = svm_parts(vectors, degrees)
    free = SVC(C=30.0, kernel="precomputed").fit(in_h + in_p, labels)
    held = SVC(C=30.0, kernel="precomputed").fit(in_h, labels)
    assert model.slope == 0.0
    best = primal(in_h, held, labels, 30.0)
    assert primal(in_h + in_p, free, labels, 30.0) < best
    assert best <= primal(in_h, free, labels, 30.0) + 1e-6
    expected = in_h[:, held.support_] @ held.dual_coef_[0] + held.intercept_[0]
    np.testing.assert_allclose(model.decision(vectors, np.log(degrees)), expected, atol=1e-6)


class Stairs(BottleneckClassifier):
    """Safe from a given parallelism on."""

    name = "stairs"
    is_monotone = True

    def _fit(self, *_: object) -> None: ...

    def _probability(self, h: np.ndarray, log_p: np.ndarray) -> np.ndarray:
        return np.where(np.exp(log_p) + 1e-9 >= h[:, 0], 0.1, 0.9)


@given(needs=st.lists(st.integers(1, 150), min_size=1, max_size=20), limit=st.integers(1, 120))
def test_binary_search_finds_what_a_scan_finds(needs: list[int], limit: int) -> None:
    found = smallest_safe(Stairs(), np.array(needs, float)[:, None], limit)
    assert found.degrees.tolist() == [min(need, limit) for need in needs]
    assert found.reached.tolist() == [need <= limit for need in needs]


@every_classifier
def test_one_class_alone_is_believed(name: str) -> None:
    vectors, degrees, _ = planted(1)
    for only in (0, 1):
        model = make_classifier(name).fit(vectors, degrees, np.full(len(degrees), only))
        assert (model.probability(vectors, degrees) == only).all()


@every_classifier
def test_heavy_feedback_outweighs_warm_up(name: str) -> None:
    """One operator, seen 20 times over as a bottleneck at 30, where the warm-up data call 30 safe."""
    vectors, degrees, labels = planted(7, rows=300)
    here = np.array([[0.5, 0.5, 0.5]])
    before = make_classifier(name).fit(vectors, degrees, labels).probability(here, [30])
    weights = np.append(np.ones(300), 50.0)
    after = make_classifier(name).fit(np.vstack([vectors, here]), np.append(degrees, 30), np.append(labels, 1), weights)
    assert before[0] < 0.5 < after.probability(here, [30])[0]


def test_bad_input_is_refused() -> None:
    with pytest.raises(TuningError, match="unknown classifier 'tree'"):
        make_classifier("tree")
    with pytest.raises(TuningError, match="labels must be 0 or 1"):
        make_classifier("svm").fit([[0.0], [1.0]], [1, 2], [-1, 1])
    with pytest.raises(TuningError, match="N × d"):
        make_classifier("svm").fit([[0.0]], [1, 2], [0, 1])
