"""ContTune: the Big-small algorithm through our loop, and its conservative step against worked numbers."""

from __future__ import annotations

import math

import pytest

from streamtune.dataflow import Observation
from streamtune.labs.simulator import tune_on_simulator
from streamtune.settings import SettingsError
from streamtune.tuners import ContTune, ContTuneSettings
from streamtune.workloads import catalogue, rates
from tuners.sightings import chain, metrics, sighting

PER_INSTANCE = 100.0


def seen_at(parallelism: int, offered: float, *, per_instance: float = PER_INSTANCE) -> Observation:
    """source → op1, which serves exactly ``per_instance`` records/s per instance."""
    capacity = per_instance * parallelism
    served = min(offered, capacity)
    blocked = 900.0 if offered > capacity else 0.0
    return sighting(
        {
            "source": metrics(1, served, 50, blocked=blocked),
            "op1": metrics(parallelism, served, 1000 * served / capacity),
        },
        offered=offered,
    )


def test_big_doubles_until_backpressure_is_gone_and_small_returns() -> None:
    """100/s per instance, 650/s offered, nothing known. Big: 1 → 2 → 4 → 8; at 8 (800/s) the demand 650 is seen.

    History: (1, 100), (2, 200), (4, 400), (8, 800): the process is all but linear there, 600 < 650 ≤ 700 at 7, which
    is one away from 8, so Small takes 7."""
    tuner, parallelism, steps = ContTune(chain("map")), 1, []
    for _ in range(5):
        seen = seen_at(parallelism, 650)
        tuner.learn(seen)
        found = tuner.recommend(seen)
        parallelism = found.plan["op1"]
        steps.append((parallelism, found.provisional))
        if not found.provisional:
            break
    assert steps == [(2, True), (4, True), (8, True), (7, False)]
    assert found.figures["op1"]["demand_per_s"] == 650
    assert found.figures["op1"]["distance"] == 1


def test_far_from_anything_tried_the_answer_is_linear() -> None:
    """Only 1 and 32 were tried; 500/s are asked. The process reaches 500 somewhere between, more than α = 3 from
    both, so the linear answer holds: PA/p = 3200/32 = 100, ⌈500/100⌉ = 5. With α = 40 the process is believed."""
    seen = seen_at(32, 500)
    careful, bold = ContTune(chain("map")), ContTune(chain("map"), ContTuneSettings(alpha=40))
    for tuner in (careful, bold):
        tuner.learn(seen_at(1, 100))
        tuner.learn(seen)
    found = careful.recommend(seen)
    assert found.plan["op1"] == 5
    assert found.figures["op1"]["distance"] > 3
    assert "so linear: 500 records/s at 100 each" in found.why["op1"]
    believed = bold.recommend(seen)
    assert believed.plan["op1"] == believed.figures["op1"]["acquired"]


def test_the_history_keeps_the_mean_of_the_last_five() -> None:
    """Seen at 4: abilities 100 … 700 in steps of 100; the last five are 300 … 700, mean 500."""
    tuner = ContTune(chain("map"))
    for ability in range(100, 800, 100):
        tuner.learn(seen_at(4, 50, per_instance=ability / 4))
    found = tuner.recommend(seen_at(4, 490, per_instance=500 / 4 * 4))
    assert found.figures["op1"]["acquired"] <= 4
    tuner = ContTune(chain("map"))
    for ability in range(100, 800, 100):
        tuner.learn(seen_at(4, 50, per_instance=ability / 4))
    above = tuner.recommend(seen_at(4, 501, per_instance=1000))
    assert above.figures["op1"].get("acquired") is None, "the process must not promise more than 500 at 4"


def test_small_again_keeps_the_demand_of_big() -> None:
    """At 8 the demand 650 was seen. Small goes to 7, where only 90/s per instance turn out to be served: 630 < 650.
    Still a bottleneck: Small again, for the same 650 although only 630 get through. (7, 630) is in the history now,
    (8, 800) still is: 8."""
    tuner = ContTune(chain("map"))
    for parallelism in (1, 2, 4):
        seen = seen_at(parallelism, 650)
        tuner.learn(seen)
        tuner.recommend(seen)
    at_eight = seen_at(8, 650)
    tuner.learn(at_eight)
    assert tuner.recommend(at_eight).plan["op1"] == 7
    short = seen_at(7, 650, per_instance=90)
    tuner.learn(short)
    again = tuner.recommend(short)
    assert again.figures["op1"]["demand_per_s"] == 650
    assert (again.plan["op1"], again.provisional) == (8, False)


def test_big_goes_to_the_largest_ever_tried_at_once() -> None:
    tuner = ContTune(chain("map", "map"))
    ample = sighting({"source": metrics(1, 500, 50), "op1": metrics(20, 500, 900), "op2": metrics(3, 500, 900)})
    tuner.learn(ample)
    short = sighting(
        {"source": metrics(1, 500, 50, blocked=500), "op1": metrics(5, 500, 1000), "op2": metrics(3, 500, 700)}
    )
    tuner.learn(short)
    assert dict(tuner.recommend(short).plan) == {"source": 1, "op1": 20, "op2": 20}


def test_in_between_nothing_happens() -> None:
    """90 % busy and no backpressure: neither under- nor over-provisioned."""
    seen = seen_at(5, 450)
    tuner = ContTune(chain("map"))
    tuner.learn(seen)
    assert tuner.recommend(seen).plan == seen.plan


def test_at_the_limit_it_settles_for_what_gets_through() -> None:
    seen = seen_at(8, 5000)
    tuner = ContTune(chain("map", max_parallelism=8))
    tuner.learn(seen)
    found = tuner.recommend(seen)
    assert (found.plan["op1"], found.provisional) == (8, False)


def test_a_zero_rate_needs_one_instance() -> None:
    tuner = ContTune(chain("map"))
    tuner.learn(seen_at(6, 500))
    silent = sighting({"source": metrics(1, 0, 0), "op1": metrics(6, 0, 0)}, offered=0)
    tuner.learn(silent)
    assert tuner.recommend(silent).plan["op1"] == 1


def test_big_and_small_are_both_counted() -> None:
    """Nexmark Q1 over the cycle: a rise costs Big and Small, so more than one reconfiguration; a fall at most Small
    and its repeats."""
    workload = catalogue.load("nexmark-q1")
    story = tune_on_simulator(
        workload.spec, ContTune, [workload.rates_at(m) for m in rates.cycle() * 2], with_oracle=False
    )
    rise = story.changes[15]  # 1 → 10·W_u, in the second cycle
    assert rise.reconfigurations >= 2
    assert math.isclose(sum(rise.rates.values()), 10 * sum(workload.units.values()))
    fall = story.changes[14]  # 2 → 1·W_u
    assert fall.reconfigurations <= 1


def test_bad_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="alpha must be at least 0, but got -1"):
        ContTuneSettings(alpha=-1)
    with pytest.raises(SettingsError, match="lower_limit must be at most 1, but got 80"):
        ContTuneSettings(lower_limit=80)
