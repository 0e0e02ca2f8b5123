"""What is made of judged cold starts: curves that are compared at the same share, and restarts against rivals."""

from __future__ import annotations

import pytest

from streamtune.experiments.coldstart.bench import restart_checks, total_at
from streamtune.experiments.coldstart.play import ColdStart, Summary
from streamtune.experiments.coldstart.ways import ONE_DS2, OURS


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
