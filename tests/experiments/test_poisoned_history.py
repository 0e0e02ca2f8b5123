"""A tenth of the history lies: jobs that run end clean all the same, one restart later at most."""

from __future__ import annotations

import pytest

from streamtune.experiments.poisoned import ATTACKED, ATTACKS, SHARE, effects, history, poisoned

pytestmark = pytest.mark.slow
SEED = 0


@pytest.fixture(scope="module")
def runs() -> list:  # type: ignore[type-arg]
    return history(600, SEED)


def test_a_tenth_lies_and_where_it_is_aimed(runs: list) -> None:  # type: ignore[type-arg]
    changed = [new for old, new in zip(runs, poisoned(runs, SEED, only=ATTACKED), strict=True) if old is not new]
    assert len(changed) == round(SHARE * len(runs))
    about = sum(run.job in ATTACKED for run in changed)
    assert about == min(len(changed), sum(run.job in ATTACKED for run in runs))


# The slow lie that is not aimed moves next to nothing, and is left to the benchmark.
TESTED = [attack for attack in ATTACKS if "slow" not in attack or "attacked" in attack]


@pytest.mark.parametrize("attack", TESTED)
def test_no_job_that_runs_is_left_short(attack: str, runs: list) -> None:  # type: ignore[type-arg]
    found = effects(runs, ATTACKS[attack](runs, SEED), SEED)
    assert not any(one.poisoned.backpressure for one in found)
    assert max(one.poisoned.reconfigurations - one.honest.reconfigurations for one in found) <= 1
    # Where a job's own runs lie its first plan follows them, which shows that the attack is one.
    moved = [one.poisoned_first / one.honest_first for one in found]
    if "slow" in attack:
        assert max(moved) > 1.25
    elif "attacked" in attack:
        assert min(moved) < 0.8
