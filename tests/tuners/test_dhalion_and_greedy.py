"""Dhalion and greedy against worked numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Job, Observation
from streamtune.settings import SettingsError
from streamtune.tuners import Dhalion, DhalionSettings, Greedy, GreedySettings
from tuners.sightings import chain, metrics, sighting


def short(read: float = 800, parallelism: int = 8, offered: float = 1000, hottest: float | None = None) -> Observation:
    """op2 is the bottleneck: op1 and the source are held up before it."""
    return sighting(
        {
            "source": metrics(1, read, 100, blocked=800),
            "op1": metrics(3, read, 300, blocked=700),
            "op2": metrics(parallelism, read, 1000 if hottest is None else 600, hottest=hottest),
            "op3": metrics(2, read, 500),
        },
        offered=offered,
    )


def ample(op2: int = 10, busy: float = 400, lag: float = 0.0) -> Observation:
    return sighting(
        {
            "source": metrics(1, 1000, 100, lag=lag),
            "op1": metrics(3, 1000, 900),
            "op2": metrics(op2, 1000, busy),
            "op3": metrics(2, 1000, 500),
        }
    )


def job_of_three() -> Job:
    return chain("map", "map", "map")


def test_it_scales_up_by_the_time_under_backpressure() -> None:
    """800 of 1,000 offered were read: s = 0.2. s/(1−s) = 0.25 of what was handled is missing: 8·1.25 = 10."""
    found = Dhalion(job_of_three()).recommend(short())
    assert dict(found.plan) == {"source": 1, "op1": 3, "op2": 10, "op3": 2}
    assert found.why["op2"] == "under-provisioned: input was held back for 20.0% of the time, so 8 become 10"
    assert not found.provisional


def test_backpressured_time_taken_literally() -> None:
    """op1, in front of op2, reports 70 % of its time backpressured: 8/(1 − 0.7) = 26.7 → 27."""
    tuner = Dhalion(job_of_three(), DhalionSettings(suspension="backpressured_time"))
    assert tuner.recommend(short()).plan["op2"] == 27


def test_at_least_one_instance_more() -> None:
    """999.9 of 1,000: 8/(1 − 0.0001) = 8.0008 → 9; all of it, though backpressured: 8 → 9 as well."""
    for read in (999.9, 1000):
        assert Dhalion(job_of_three()).recommend(short(read)).plan["op2"] == 9


def test_skew_is_named() -> None:
    """The hottest subtask at 100 %, the mean at 60 %: 1.67 times, above 1.5."""
    assert Dhalion(job_of_three()).recommend(short(hottest=1000)).why["op2"].startswith("skewed")


def test_what_did_not_help_is_not_repeated() -> None:
    """Two instances more, and still 20 % held back at op2: blacklisted, nothing else is diagnosed. Another rate
    clears the list."""
    tuner = Dhalion(job_of_three())
    assert tuner.recommend(short()).plan["op2"] == 10
    stuck = tuner.recommend(short(parallelism=10))
    assert stuck.plan == short(parallelism=10).plan
    assert "blacklisted" in stuck.why["op2"]
    assert tuner.recommend(short(1600, parallelism=10, offered=2000)).plan["op2"] == 13  # 10/(1 − 0.2) = 12.5


def test_what_helped_a_little_is_repeated() -> None:
    """Held back 20 %, then 10 %: 10/(1 − 0.1) = 11.1 → 12."""
    tuner = Dhalion(job_of_three())
    tuner.recommend(short())
    assert tuner.recommend(short(900, parallelism=10)).plan["op2"] == 12


def test_it_scales_down_one_operator_at_a_time() -> None:
    """op2 idles for 60 %, op3 for 50 %, op1 for 10 %. op2: ⌊10·0.8⌋ = 8, provisional; at 50 % busy ⌊8·0.8⌋ = 6;
    at 67 % busy op3 is the idlest: ⌊2·0.8⌋ = 1."""
    tuner = Dhalion(job_of_three())
    first = tuner.recommend(ample())
    assert dict(first.plan) == {"source": 1, "op1": 3, "op2": 8, "op3": 2}
    assert first.provisional
    assert tuner.recommend(ample(8, 500)).plan["op2"] == 6
    last = tuner.recommend(ample(6, 670))
    assert (last.plan["op2"], last.plan["op3"]) == (6, 1)


def test_a_scale_down_that_brought_backpressure_is_not_repeated() -> None:
    tuner = Dhalion(job_of_three())
    assert tuner.recommend(ample()).plan["op2"] == 8
    assert tuner.recommend(short()).plan["op2"] == 10
    after = tuner.recommend(ample())
    assert (after.plan["op2"], after.plan["op3"]) == (10, 1)


def test_nothing_is_taken_away_while_records_wait() -> None:
    """5,000 wait in front of a source of 1,000/s: five seconds, more than one."""
    assert Dhalion(job_of_three()).recommend(ample(lag=5000)).plan == ample().plan


@given(st.floats(1, 1000), st.floats(1, 1000), st.integers(1, 128))
def test_the_more_is_held_back_the_more_is_added(read: float, less: float, parallelism: int) -> None:
    low, high = sorted((read, less))
    degrees = [Dhalion(job_of_three()).recommend(short(rate, parallelism)).plan["op2"] for rate in (low, high)]
    assert degrees[0] >= degrees[1] >= parallelism


def test_greedy_adds_one_to_the_bottleneck() -> None:
    assert dict(Greedy(job_of_three()).recommend(short()).plan) == {"source": 1, "op1": 3, "op2": 9, "op3": 2}
    assert Greedy(job_of_three()).recommend(ample()).plan == ample().plan


def test_greedy_stops_at_its_budget_and_at_the_limit() -> None:
    """1 + 3 + 8 + 2 = 14 instances run."""
    spent, left = (Greedy(job_of_three(), GreedySettings(budget=budget)) for budget in (14, 15))
    assert spent.recommend(short()).plan["op2"] == 8
    assert left.recommend(short()).plan["op2"] == 9
    assert Greedy(chain("map", "map", "map", max_parallelism=8)).recommend(short()).plan["op2"] == 8


def test_bad_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"scale_down_factor must be below 1, but got 1.0"):
        DhalionSettings(scale_down_factor=1.0)
    with pytest.raises(SettingsError, match="budget must be at least 1, but got 0"):
        GreedySettings(budget=0)
