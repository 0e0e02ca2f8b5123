"""What is made of judged cold starts: curves that are compared at the same share, and restarts against rivals."""

from __future__ import annotations

import math

import pytest

from streamtune.experiments.coldstart.bench import restart_checks, total_at
from streamtune.experiments.coldstart.by_law import ScoredPair, against_limit, score_pairs
from streamtune.experiments.coldstart.jobs import (
    NEVER_SEEN,
    REDEPLOYED,
    RELATIVES,
    held_out,
    platform,
    starts,
    unseen_starts,
)
from streamtune.experiments.coldstart.limit import limit_plan
from streamtune.experiments.coldstart.play import ColdStart, Summary
from streamtune.experiments.coldstart.ways import ONE_DS2, OURS
from streamtune.experiments.paper.contest import Scale
from streamtune.labs.histories import draw
from streamtune.workloads import names


def start(**changed: object) -> ColdStart:
    usual = {"way": "w", "kind": "relatives", "job": "j", "seed": 0, "multiple": 2.0, "clean": True}
    return ColdStart.model_validate({**usual, "total": 10, "oracle": 10, "sources": 1, **changed})


def curve(*points: tuple[float, float]) -> list[Summary]:
    found = []
    for clean, over in points:
        some = [start(clean=number < clean * 10, total=round(10 * over)) for number in range(10)]
        found.append(Summary.of(some))
    return found


def test_curves_are_compared_at_the_same_share_of_clean_plans() -> None:
    limit = curve((0.2, 1.0), (0.6, 1.2), (0.8, 1.6))
    assert total_at(0.4, limit) == pytest.approx(1.1)
    assert total_at(0.7, limit) == pytest.approx(1.4)
    assert total_at(0.6, limit) == pytest.approx(1.2)
    assert total_at(0.9, limit) is None
    assert total_at(0.1, limit) is None


def test_restarts_are_compared_with_the_rivals_that_were_run() -> None:
    judged = {
        OURS.label: [start(reconfigurations=0), start(reconfigurations=1)],
        ONE_DS2.label: [start(reconfigurations=1), start(reconfigurations=1)],
    }
    (check,) = restart_checks(judged)
    assert check.met
    assert check.measured == "0.50 against 1.00"


@pytest.mark.parametrize("seed", [0, 1, 2, 10, 11])
def test_test_validation_and_history_share_no_job_that_is_never_seen(seed: int) -> None:
    random_jobs = Scale().random_jobs
    made = platform(seed, 100, random_jobs)
    history = {draw(number, made.generation).workload.name.split("~")[0] for number in range(300)}
    kinds: dict[bool, dict[str, set[str]]] = {}
    for validation in (False, True):
        kinds[validation] = found = {}
        for one in starts(seed, 20, random_jobs, validation=validation):
            found.setdefault(one.kind, set()).add(one.workload.name)
        assert {kind: len(jobs) for kind, jobs in found.items()} == {NEVER_SEEN: 20, RELATIVES: 20, REDEPLOYED: 20}
        assert not found[NEVER_SEEN] & history
        assert not found[NEVER_SEEN] & {name.split("~")[0] for name in found[RELATIVES] | found[REDEPLOYED]}
        assert not any(name.endswith("-0") for name in found[RELATIVES])  # that one is in the history
        known = {*names(), *(f"random-{number}" for number in range(random_jobs))} - set(held_out())
        assert {name.split("~")[0] for name in found[RELATIVES] | found[REDEPLOYED]} <= known
        assert history <= known
    assert not kinds[False][NEVER_SEEN] & kinds[True][NEVER_SEEN]


def pair(job: str, certainty: float, total: int, clean: float, limit_total: int, limit_clean: float) -> ScoredPair:
    return ScoredPair(
        job=job, certainty=certainty, total=total, clean=clean, limit_total=limit_total, limit_clean=limit_clean
    )


def test_plans_are_compared_with_the_limit_at_the_same_chance_and_with_what_other_jobs_would_say() -> None:
    """At 0.6 ours takes 22, the limit 20 for 0.5 and 24 for 0.7, so 22 for 0.6; 0.9 is outside of the limit's curve."""
    pairs = [
        *(pair(job, 0.5, 11, 0.6, 10, 0.5) for job in "ab"),
        *(pair(job, 0.9, 15, 0.9, 12, 0.7) for job in "ab"),
    ]
    found = against_limit(pairs, resampled=20)
    low, high = found.points
    assert found.jobs == 2
    assert (low.ratio, low.same_share) == (pytest.approx(1.1), pytest.approx(1.0))
    assert math.isnan(high.same_share)
    assert found.worst == pytest.approx(1.0)
    assert found.worst_between == (pytest.approx(1.0), pytest.approx(1.0))  # both jobs say the same


def test_jobs_that_disagree_make_the_comparison_uncertain() -> None:
    pairs = [pair(job, q, t, q, 10 if q == 0.5 else 12, q) for job, t in (("a", 9), ("b", 13)) for q in (0.5, 0.9)]
    found = against_limit(pairs, resampled=200)
    low, high = found.points[0].between
    assert low < found.points[0].same_share < high


def test_fresh_draws_of_the_law_are_clean_at_least_as_often_as_the_limit_was_asked_for() -> None:
    """More often where one instance less would be too few. And the limit against itself is at 1."""
    some = unseen_starts(0, 4)[:3]
    pairs = score_pairs(some, (0.5, 0.9), limit_plan, draws=400)
    assert [one.clean for one in pairs] == [one.limit_clean for one in pairs]
    for one in pairs:
        assert one.clean >= one.certainty - 0.08
    assert all(point.ratio == 1.0 for point in against_limit(pairs, resampled=5).points)


def test_more_jobs_never_seen_begin_with_none_of_the_history() -> None:
    jobs = {one.workload.name for one in unseen_starts(1, 40)}
    assert len(jobs) == 40
    assert not jobs & {one.workload.name for one in starts(1, 20, 200) if one.kind != NEVER_SEEN}
    assert not jobs & {one.workload.name for one in unseen_starts(1, 40, validation=True)}
