"""Decisions must not get worse from release to release: sixty fixed cases against the stored scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtune.experiments.quality import FAULTS, Scores, Stored, cases, compare, measure, slower

STORED = Stored.model_validate_json(Path(__file__).with_name("quality.json").read_text(encoding="utf-8"))


def test_there_are_sixty_cases_and_every_fault_has_twelve() -> None:
    faults = [case.fault for case in cases()]
    assert len(faults) == 60
    assert {fault: faults.count(fault) for fault in FAULTS} == dict.fromkeys(FAULTS, 12)


@pytest.mark.slow
def test_decisions_are_not_worse_than_those_of_the_last_release() -> None:
    assert compare(measure(seed=0), STORED) == []


def test_a_worse_result_is_noticed() -> None:
    good = STORED.scores[FAULTS[0]]
    for name, by in (("reconfigurations", 0.5), ("backpressure", 0.2), ("over_oracle", 0.1)):
        worse = Scores(**{**good.model_dump(), name: getattr(good, name) + by})
        found = compare({**STORED.scores, FAULTS[0]: worse}, STORED)
        assert len(found) == 1
        assert name in found[0]


def test_the_slower_release_changes_one_operator_alone() -> None:
    spec = next(iter(cases())).workload.spec
    before, after = dict(spec.physics or {}), dict(slower(spec).physics or {})
    changed = {key for key in before if before[key] != after[key]}
    assert len(changed) == 1
    assert changed.isdisjoint(spec.job.source_rates)
