"""Laws of training: it learns, it masks, it repeats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from models.encoder.planted import planted_runs
from streamtune.errors import StreamTuneError
from streamtune.models.encoder import NetworkSettings, TrainingSettings, train
from streamtune.models.encoder.evaluation import calibration_error, score, smallest_safe
from streamtune.models.encoder.training import validation_jobs

SMALL = TrainingSettings(
    network=NetworkSettings(width=16, iterations=1, dropout=0.0), epochs=12, batch_runs=32, learning_rate=1e-2
)


@pytest.mark.slow
def test_a_tiny_set_is_memorised() -> None:
    """Ten runs of one job: the loss falls until every label is right."""
    graphs = planted_runs(10, jobs=1, unlabelled=0.0)
    losses: list[float] = []
    memorise = SMALL.model_copy(
        update={
            "network": NetworkSettings(width=64, iterations=2, dropout=0.0),
            "epochs": 150,
            "patience": 150,
            "weight_decay": 0.0,
        }
    )
    trained = train(graphs, memorise, lambda _epoch, loss, _watched: losses.append(loss))
    assert losses[-1] < 0.05 < losses[0]
    guessed = trained.probability(graphs.batch()).numpy() > 0.5
    assert np.array_equal(guessed, graphs.labels == 1)


def test_unlabelled_operators_change_nothing() -> None:
    """Whatever parallelism an unlabelled operator has, the weights come out the same: it is masked."""
    graphs = planted_runs(60, unlabelled=0.5)
    other = graphs.parallelism.copy()
    other[graphs.labels < 0] = 17
    first, second = train(graphs, SMALL), train(replace(graphs, parallelism=other), SMALL)
    for a, b in zip(first.network.state_dict().values(), second.network.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_same_seed_same_weights() -> None:
    graphs = planted_runs(60)
    first, second = train(graphs, SMALL), train(graphs, SMALL)
    other = train(graphs, SMALL.model_copy(update={"seed": 1}))
    pairs = zip(first.network.state_dict().values(), second.network.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    pairs = zip(first.network.state_dict().values(), other.network.state_dict().values(), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.slow
def test_it_learns_the_planted_rule_and_stays_calibrated() -> None:
    """needed = exp(1 + 2.5·x₀ + x₁): on new runs the threshold is found within a fifth, despite class weights."""
    trained = train(planted_runs(900), SMALL.model_copy(update={"epochs": 30}))
    fresh = planted_runs(300, seed=9, unlabelled=0.0)
    batch = fresh.batch()
    agnostic = trained.embed(batch)

    def probability_at(p: int) -> np.ndarray:
        log_p = torch.full((len(agnostic),), float(np.log(p) / np.log(100)))
        return trained.probability_at(agnostic, log_p).numpy()

    recommended = smallest_safe(probability_at, 100)
    needed = np.ceil(np.exp(1 + 2.5 * fresh.features[:, 0] + fresh.features[:, 1]))
    scores = score(fresh.labels, trained.probability(batch).numpy(), recommended, needed)
    assert scores.auc_pr > 0.95
    assert scores.threshold_error is not None
    assert scores.threshold_error < 0.2
    assert scores.calibration_error < 0.05


def test_jobs_are_held_out_whole() -> None:
    jobs = [f"job{index % 400}" for index in range(800)]
    held_out = validation_jobs(jobs, 0.15)
    assert 0.1 < len(held_out) / 400 < 0.2
    assert validation_jobs(list(reversed(jobs)), 0.15) == held_out
    some = [f"job{index}" for index in range(200)]
    assert validation_jobs(some, 0.15) == held_out & set(some), "a job is on the same side for every encoder"
    assert validation_jobs(["only"], 0.15) == set()


def test_one_kind_of_label_is_refused() -> None:
    graphs = planted_runs(5)
    with pytest.raises(StreamTuneError, match="both kinds are needed"):
        train(replace(graphs, labels=np.zeros_like(graphs.labels)))


def test_scores_by_hand() -> None:
    """Ranked 0.9 (1), 0.8 (0), 0.3 (1), 0.1 (0), one unlabelled: AP = (1/1 + 2/3)/2; F1: tp 1, fp 1, fn 1 → 0.5.

    Thresholds: 8 against 4 and 4 against 4 → |log 2|, 0 → median log(2)/2; an operator that needs 1 does not count.
    """
    scores = score([1, 0, 1, 0, -1], [0.9, 0.8, 0.3, 0.1, 0.99], [8, 4, 7, 1, 1], [4, 4, 1, np.nan, np.nan])
    assert scores.auc_pr == pytest.approx((1 + 2 / 3) / 2)
    assert scores.f1 == pytest.approx(0.5)
    assert scores.threshold_error == pytest.approx(np.log(2) / 2)
    assert (scores.labelled, scores.bottlenecks) == (4, 2)


def test_calibration_by_hand() -> None:
    """Two bins: 0.2 twice with no bottleneck (gap 0.2), 0.9 twice with one (gap 0.4): mean 0.3."""
    assert calibration_error([0, 0, 1, 0], [0.2, 0.2, 0.9, 0.9]) == pytest.approx(0.3)


def test_smallest_safe_takes_the_first_crossing() -> None:
    table = {1: [0.9, 0.4, 0.9], 2: [0.6, 0.3, 0.9], 3: [0.2, 0.2, 0.9], 4: [0.1, 0.1, 0.8]}
    assert smallest_safe(lambda p: np.array(table[p]), 4).tolist() == [3, 1, 4]
