"""The comparison of encoders on held-out real jobs: what is pooled, what is unknown, and who sees what."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from streamtune.dataflow import Observation, Run
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import simulate_once
from streamtune.experiments import flink_encoders
from streamtune.experiments.bottleneck_models import Judged
from streamtune.experiments.flink_encoders import Described, Side, gone_on, judge_folds, labelled, summary
from streamtune.experiments.flink_jobs import small_workload
from streamtune.labs.histories import true_needs
from streamtune.models.encoder import Trained, TrainingSettings, train

JOBS = ("nexmark-q1", "nexmark-q2", "nexmark-q3", "nexmark-q5", "random-3", "random-4")


def described(name: str, number: int, multiple: float) -> Described:
    workload = small_workload(name)
    job = workload.spec.job
    seen = simulate_once(
        job, workload.physics, job.initial_plan, workload.rates_at(multiple), window=MeasurementWindow(5.0, 5.0)
    )
    assert isinstance(seen, Observation)
    return Described.of(Run.of(f"run-{number:02d}", job, "flink", seen))


@pytest.fixture(scope="module")
def some() -> list[Described]:
    """Not in the order of their ids."""
    return [described(name, 90 - 7 * number, (0.3, 9.0)[number % 2]) for number, name in enumerate(JOBS)]


def judged(recommended: Sequence[int], needed: Sequence[float]) -> Judged:
    size = len(needed)
    return Judged(
        np.tile([0, 1], size)[:size].astype(np.int8),
        np.tile([0.2, 0.9], size)[:size],
        np.array(recommended),
        np.array(needed),
    )


def test_thresholds_are_pooled_before_the_median_is_taken() -> None:
    """Errors log 2, 0, 0 and log 4: their median is half of log 2; the median of the folds' medians is log 2."""
    pooled = Judged.pooled([judged([4, 4, 4], [2, 4, 4]), judged([8], [2])])
    assert pooled.scores.threshold_error == pytest.approx(math.log(2) / 2)
    jobs = np.array(["a", "a", "b", "b"])
    assert summary(pooled, jobs)["threshold_error"] == pytest.approx(math.log(2) / 2)


def test_an_unknown_error_is_unknown_and_not_zero() -> None:
    """Nothing needs more than one instance, so that there is no threshold to be wrong about."""
    found = summary(judged([3, 3], [1.0, math.nan]), np.array(["a", "b"]))
    assert (found["threshold_error"], found["threshold_error_between"]) == (None, None)
    assert found["auc_pr"] == 1.0


def test_every_operator_keeps_its_own_need_however_the_runs_are_ordered(some: list[Described]) -> None:
    found = labelled(some, Side.of(some).encoder)
    assert list(found.graphs.jobs) == list(reversed(JOBS))  # ids go down as the jobs go on
    for place, job in enumerate(found.graphs.jobs):
        one = next(one for one in some if one.run.job == job)
        needs = true_needs(small_workload(job), dict(one.run.source_rates))
        expected = [math.nan if each.is_source else needs[each.id] for each in one.run.dataflow.operators]
        np.testing.assert_equal(found.needed[found.graphs.starts[place] : found.graphs.starts[place + 1]], expected)


def test_a_way_never_sees_the_jobs_it_is_judged_on_and_is_judged_on_each_run_once(some: list[Described]) -> None:
    judged_on: list[str] = []

    def way(kept: Sequence[Described], held_out: Sequence[Described]) -> Judged:
        assert not {one.run.job for one in kept} & {one.run.job for one in held_out}
        assert len(kept) + len(held_out) == len(some)
        judged_on.extend(one.run.run_id for one in held_out)
        needed = [need for one in held_out for need in one.needed]
        return judged([1] * len(needed), needed)

    found = judge_folds(some, {"a way": way}, lambda _text: None)
    assert sorted(judged_on) == sorted(one.run.run_id for one in some)
    assert found["a way"]["jobs"] == len(JOBS)


def test_an_encoder_that_finds_nothing_better_stays_as_it_was(
    some: list[Described], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its own calibration: the shift of other runs' class weights does not belong to its weights."""
    runs = Side.of(some).runs
    start = train(runs.graphs, TrainingSettings(epochs=1))
    worse = Trained(start.network, 7.0, 1.0, 0, 1, 1, 0.0)
    monkeypatch.setattr(flink_encoders, "train", lambda *_args, **_named: worse)
    assert gone_on(start, runs, TrainingSettings()) is start
