"""Calibration of useful time: what DS2 does with what types report at saturation (learned in history/capacity.py)."""

from __future__ import annotations

import pytest

from streamtune.dataflow import Job, Observation
from streamtune.settings import SettingsError
from streamtune.tuners import DS2, CalibratedDS2, DS2Settings
from tuners.sightings import chain, metrics, sighting


def test_bad_factors_are_refused() -> None:
    with pytest.raises(SettingsError, match="calibration: 'map' must be finite and above 0, but got 0"):
        DS2Settings(calibration={"map": 0})


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
