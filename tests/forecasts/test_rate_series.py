"""Reading rates: gaps, dirt, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.forecasts import ForecastError, RateSeries, read_series, series_of


def test_stamps_that_jitter_fall_on_one_grid(tmp_path: Path) -> None:
    file = tmp_path / "rates.csv.gz"
    lines = ["timestamp,value", "2015-02-26 21:42:53,57", "2015-02-26 21:47:53,43", "2015-02-26 21:52:51,41"]
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    series = read_series(file)
    assert series.values.tolist() == [57.0, 43.0, 41.0]
    assert series.step_s == 300.0


def test_a_step_that_jitters_is_the_one_that_was_meant() -> None:
    jitter = [0.365, 0.358, -0.355, -0.332, 0.2, -0.1, 0.018, 0.0]
    assert series_of([(60 * k + off, 1.0) for k, off in enumerate(jitter)]).step_s == 60.0
    # Set, or far from all that people choose, it stays as it is.
    assert series_of([(59.5 * k, 1.0) for k in range(5)], step_s=59.5).step_s == 59.5
    assert series_of([(77.0 * k, 1.0) for k in range(5)]).step_s == 77.0


def test_minutes_by_their_header(tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    file.write_text("minute,requests_per_second\n0,1\n1,2\n2,4\n")
    assert read_series(file).step_s == 60.0


def test_a_missing_step_keeps_the_last_value_and_is_counted() -> None:
    series = series_of([(0, 1.0), (60, 2.0), (120, 3.0), (300, 9.0)])
    assert series.values.tolist() == [1.0, 2.0, 3.0, 3.0, 3.0, 9.0]
    assert series.held == 2


def test_a_long_gap_is_refused_with_its_place() -> None:
    moments = [(60.0 * k, 1.0) for k in range(5)] + [(60.0 * k, 1.0) for k in range(40, 45)]
    with pytest.raises(ForecastError, match=r"35 steps of 60 s in a row are missing from 300 s: at most 12"):
        series_of(moments)


@pytest.mark.parametrize(
    ("moments", "message"),
    [
        ([(0.0, 1.0)], "one rate is no series: at least 2"),
        ([], "there is no rate: at least 2"),
        ([(0.0, 1.0), (60.0, -3.0)], "the rate at 60 s must be finite and at least 0, but got -3"),
        ([(0.0, 1.0), (60.0, float("nan"))], "must be finite"),
        ([(5.0, 1.0), (5.0, 2.0)], "have the same time"),
        ([(1.73e12, 1.0), (1.73e12 + 6e4, 2.0)], "is no number of seconds: milliseconds[?] Give seconds"),
    ],
)
def test_what_is_no_series(moments: list[tuple[float, float]], message: str) -> None:
    with pytest.raises(ForecastError, match=message):
        series_of(moments)


def test_bad_lines_are_named(tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    file.write_text("time,rate\n0,1\n60,\n")
    with pytest.raises(ForecastError, match=r"line 3: expected a time and a rate, but got '60,'"):
        read_series(file)
    file.write_text("time,rate\n0,1\n\n60,\n")
    with pytest.raises(ForecastError, match=r"line 4: expected a time and a rate"):
        read_series(file)
    file.write_text("0,\n60,1\n120,2\n")  # a missing first rate is no header
    with pytest.raises(ForecastError, match=r"line 1: expected a time and a rate, but got '0,'"):
        read_series(file)
    file.write_text("1\n2\n")
    with pytest.raises(ForecastError, match="each line needs a time and a rate"):
        read_series(file)
    with pytest.raises(ForecastError, match="cannot be read"):
        read_series(tmp_path / "missing.csv")


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=40), st.integers(1, 5))
def test_coarser_steps_never_hide_a_peak(values: list[float], ratio: int) -> None:
    series = RateSeries(np.array(values), 60.0)
    if len(values) < ratio:
        return
    whole = len(values) // ratio * ratio
    assert series.coarser(60.0 * ratio).values.max() == max(values[:whole])


def test_steps_that_do_not_divide() -> None:
    with pytest.raises(ForecastError, match="choose a multiple of 60"):
        RateSeries(np.ones(9), 60.0).coarser(90.0)
