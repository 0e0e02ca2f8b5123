"""First plans: all operators together, the least that is sure enough."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator
from streamtune.dataflow.observation import EdgeMetrics
from streamtune.readings.demand import carried_rates
from streamtune.tuners.streamtune import StreamTune
from streamtune.tuners.streamtune.first_plan import Draws, Need, least_plan, needed, reach
from streamtune.tuners.streamtune.settings import StreamTuneSettings
from streamtune.workloads import load
from tuners.sightings import chain, metrics, sighting


@st.composite
def needs(draw: st.DrawFn) -> Need:
    draws, operators = draw(st.integers(5, 60)), draw(st.integers(1, 4))
    degrees = draw(st.lists(st.integers(1, 8), min_size=draws * operators, max_size=draws * operators))
    return Need(np.array(degrees).reshape(draws, operators), 8)


@settings(deadline=None)
@given(needs(), st.floats(0.05, 0.99))
def test_a_plan_serves_the_wanted_share(need: Need, certainty: float) -> None:
    assert need.share_served(least_plan(need, certainty)) >= certainty


@settings(deadline=None)
@given(needs(), st.floats(0.05, 0.95))
def test_no_instance_can_be_spared(need: Need, certainty: float) -> None:
    plan = least_plan(need, certainty)
    for place in range(len(plan)):
        if plan[place] > 1:
            fewer = plan.copy()
            fewer[place] -= 1
            assert need.share_served(fewer) < certainty


def test_it_is_close_to_the_best_of_all_plans() -> None:
    """Every plan of three operators tried: the total found is the least, or one instance more."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        need = Need(np.clip(np.round(np.exp(rng.normal((1.0, 1.5, 0.3), 0.4, (200, 3)))), 1, 12).astype(int), 12)
        best = min(
            sum(plan) for plan in itertools.product(range(1, 13), repeat=3) if need.share_served(np.array(plan)) >= 0.8
        )
        assert least_plan(need, 0.8).sum() <= best + 1


def test_what_cannot_be_served_is_within_the_limit() -> None:
    """What it takes then is decided in ``foresee``: see tests/cli/test_learned.py."""
    assert least_plan(Need(np.full((10, 2), 9), 8), 0.9).max() <= 8


def test_needs_follow_the_curve() -> None:
    """One record/s per instance, no doubt: a rate of 12.5 needs 13 instances."""
    mean = np.log(np.arange(1, 21))[None, :]
    found = needed(mean, np.zeros_like(mean), np.array([[12.5], [0.0]]), np.zeros((2, 1)))
    assert found.degrees[:, 0].tolist() == [13, 1]


def test_draws_carry_demand_downstream() -> None:
    workload = load("pqp-3way-0")
    flow = workload.spec.job.dataflow
    ratio = np.array([[workload.physics[key].selectivity for key in flow.index]])
    offered = np.array([[workload.rates_at(2.0).get(key, 0.0) for key in flow.index]])
    found = dict(zip(flow.index, carried_rates(flow, offered, ratio)[0].tolist(), strict=True))
    assert found == pytest.approx(workload.input_rates_at(2.0))


def test_draws_are_the_same_every_time_and_balanced() -> None:
    first, again = Draws.of(7), Draws.of(7)
    assert np.array_equal(first.capacity, again.capacity)
    assert np.allclose(first.capacity.mean(axis=0), 0)
    assert np.allclose(first.selectivity.std(axis=0), 1)


def test_reach_is_that_of_the_worst_operator() -> None:
    assert reach([10.0, 5.0], [10.0, 20.0]) == 4.0
    assert math.isinf(reach([0.0], [1.0]))


FORK = Job(
    "fork",
    Dataflow(
        (
            Operator(id="source", type="source", rate=1000),
            Operator(id="all", type="map"),
            Operator(id="few", type="map"),
        ),
        (Edge("source", "all", "rebalance"), Edge("source", "few", "rebalance")),
    ),
    max_parallelism=64,
)


def planned(job: Job, seen: Observation, times: float, **settings: float) -> dict[str, int]:
    """The first plan at so many times what was offered, after one look."""
    tuner = StreamTune(job, StreamTuneSettings(**settings))  # type: ignore[arg-type]
    tuner.learn(seen)
    found = tuner.first_plan({key: rate * times for key, rate in seen.source_rates.items()})
    assert found is not None
    return dict(found.degrees)


def on_a_fork(few: float) -> Observation:
    """One instance serves 2,000/s of either branch; the source sends all of its 1,000/s to one, few to the other."""
    seen = sighting({"source": metrics(1, 1000, 50.0), "all": metrics(1, 1000, 500.0), "few": metrics(1, few, few / 2)})
    counted = {"all": 1000.0, "few": few}
    edges = tuple(EdgeMetrics(source="source", target=key, records_per_s=rate) for key, rate in counted.items())
    return seen.model_copy(update={"edges": edges})


def test_a_rate_that_is_a_guess_takes_more_to_be_as_sure() -> None:
    """At 10,000/s one branch takes 5 or 6; at what may be 15,000/s as well (a spread of 0.4) it takes more."""
    tuner = StreamTune(FORK, StreamTuneSettings())
    tuner.learn(on_a_fork(few=100.0))
    known, guessed = (tuner.first_plan({"source": 10_000.0}, 0.9, {"source": sd}) for sd in (0.0, 0.4))
    assert known is not None
    assert guessed is not None
    as_ever = tuner.first_plan({"source": 10_000.0}, 0.9)
    assert as_ever is not None
    assert known.degrees == as_ever.degrees
    assert guessed.degrees["all"] >= 1.3 * known.degrees["all"]
    low, high = guessed.demand["all"]
    # the 10 % and 90 % quantiles of a lognormal: ± 1.28 · 0.4
    assert (low, high) == pytest.approx((10_000 * math.exp(-0.513), 10_000 * math.exp(0.513)), rel=0.05)


def test_a_first_plan_counts_what_goes_over_each_edge_of_a_fork() -> None:
    """At ten times the rate one branch gets 10,000/s, which takes 5 or 6; the other 1,000/s, which takes one."""
    found = planned(FORK, on_a_fork(few=100.0), 10)
    assert 5 <= found["all"] <= 8
    assert found["few"] <= 2


def test_a_first_plan_aims_at_the_utilisation_that_was_set() -> None:
    seen = sighting({"source": metrics(1, 1000, 50.0), "op1": metrics(1, 1000, 500.0)})
    full, half = (planned(chain("map"), seen, 10, target_utilisation=share)["op1"] for share in (1.0, 0.5))
    assert half == pytest.approx(2 * full, abs=2)


def test_a_first_plan_works_off_what_waits_in_time() -> None:
    """600,000 records wait at 10,000/s: within a minute, that is as much again."""
    seen = sighting({"source": metrics(1, 1000, 50.0, lag=600_000), "op1": metrics(1, 1000, 500.0)})
    without, within = planned(chain("map"), seen, 10), planned(chain("map"), seen, 10, catch_up_s=60)
    assert within["op1"] == pytest.approx(2 * without["op1"], abs=2)
