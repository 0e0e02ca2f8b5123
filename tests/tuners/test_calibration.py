"""Calibration of useful time: what is learned at saturation, and what DS2 does with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Job, Observation, ParallelismPlan, Run
from streamtune.engines.simulator import SimulatorSettings, simulate_once
from streamtune.engines.simulator.settings import MeasurementError
from streamtune.errors import TuningError
from streamtune.labels import label_observation
from streamtune.tuners import DS2, CalibratedDS2, DS2Settings
from streamtune.tuners.calibration import calibration_of_runs, fit_calibration
from streamtune.workloads import catalogue
from tuners.sightings import chain, metrics, sighting


def test_worked_factors() -> None:
    """map at saturation: 0.90, 0.92, 0.94 → 0.92; the map that idles, the one without a label and the one without a
    measurement do not count. sink: seen once, fewer than the two asked for."""
    types = ["map"] * 6 + ["sink"]
    shares = [0.90, 0.92, 0.94, 0.3, 0.5, math.nan, 1.0]
    labels = [1, 1, 1, 0, -1, 1, 1]
    assert fit_calibration(types, shares, labels, min_samples=2) == {"map": pytest.approx(0.92)}


@given(st.lists(st.tuples(st.sampled_from(("map", "join")), st.floats(0.01, 1), st.sampled_from((-1, 0, 1)))))
def test_factors_lie_among_what_was_reported(rows: list[tuple[str, float, int]]) -> None:
    factors = fit_calibration([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], min_samples=1)
    for kind in ("map", "join"):
        shares = [share for found, share, label in rows if found == kind and label == 1]
        assert (kind in factors) == bool(shares)
        if shares:
            assert min(shares) - 1e-9 <= factors[kind] <= max(shares) + 1e-9


def test_bad_input_is_refused() -> None:
    with pytest.raises(TuningError, match="must be equally many, but got 1, 2 and 1"):
        fit_calibration(["map"], [0.5, 0.6], [1])
    with pytest.raises(TuningError, match="the calibration of 'map' must be finite and above 0, but got 0"):
        DS2Settings(calibration={"map": 0})


def history(settings: SimulatorSettings) -> list[tuple[Run, dict[str, int]]]:
    random = np.random.default_rng(1)
    rows = []
    for number in range(25):
        workload = catalogue.load(f"random-{number}")
        job = workload.spec.job
        for run in range(4):
            plan = ParallelismPlan(
                {
                    operator.id: job.initial_plan[operator.id] if operator.is_source else int(random.integers(1, 30))
                    for operator in job.dataflow.operators
                }
            )
            seen = simulate_once(job, workload.physics, plan, workload.rates_at(8), settings=settings, seed=run)
            rows.append((Run.of(f"{number}-{run}", job, "simulator", seen), label_observation(job.dataflow, seen)))
    return rows


def test_the_bias_of_the_simulator_is_found_where_it_hides_work() -> None:
    """Types that under-report by more than 2 % come out below 1 − half their bias; none comes out above 1, because
    no engine reports more than all of the time. Skew pulls the mean of keyed types further down."""
    error = MeasurementError(bias_sigma=0.1, noise_sigma=0.02, seed=3)
    factors = calibration_of_runs(history(SimulatorSettings(error=error)))
    optimistic = [kind for kind in factors if error.bias(kind) < -0.02]
    assert optimistic, f"the draw has no such type among {sorted(factors)}: choose another seed"
    for kind in optimistic:
        assert factors[kind] < 1 + error.bias(kind) / 2
    assert all(0.5 < factor <= 1 for factor in factors.values())


def reported(busy: float) -> Observation:
    return sighting({"source": metrics(1, 1000, 50), "op1": metrics(10, 1000, busy), "op2": metrics(1, 1000, 100)})


def calibrated(**factors: float) -> DS2:
    return DS2(chain("map", "sink"), DS2Settings(calibration=factors, ignored_drop=0))


def test_ds2_divides_useful_time_by_the_factor() -> None:
    """1,000/s on 10 instances reported 72 % busy: 138.9/s each → 7.2 → 8. If a saturated map reports 0.8, then it is
    0.72/0.8 = 90 % busy: 111.1/s each → 9.0 → 9. A factor of another type changes nothing."""
    assert calibrated().recommend(reported(720)).plan["op1"] == 8
    assert calibrated(map=0.8).recommend(reported(720)).plan["op1"] == 9
    assert calibrated(sink=0.8).recommend(reported(720)).plan["op1"] == 8


def test_nobody_is_busier_than_all_of_the_time() -> None:
    """Reported 90 %, factor 0.8: cut at 1, so 100/s each → 10, not 0.9/0.8 · 10 = 11.25 → 12."""
    assert calibrated(map=0.8).recommend(reported(900)).plan["op1"] == 10


def test_the_strong_plain_rival_has_ten_per_cent_headroom() -> None:
    """98 % busy: 102/s each → 9.8, · 1.1 = 10.78 → 11; calibrated by 0.98 → 100/s → 10 · 1.1 = 11."""
    job: Job = chain("map", "sink")
    assert CalibratedDS2(job).recommend(reported(980)).plan["op1"] == 11
    assert CalibratedDS2(job, {"map": 0.98}).recommend(reported(980)).plan["op1"] == 11
    assert CalibratedDS2(job, {"map": 0.5}).recommend(reported(300)).plan["op1"] == 7  # 0.6 · 10 · 1.1 = 6.6
