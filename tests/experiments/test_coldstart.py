"""What is made of judged cold starts: curves that are compared at the same share, and restarts against rivals."""

from __future__ import annotations

import pytest

from streamtune.experiments.coldstart.bench import restart_checks, total_at
from streamtune.experiments.coldstart.jobs import NEVER_SEEN, REDEPLOYED, RELATIVES, held_out, platform, starts
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
