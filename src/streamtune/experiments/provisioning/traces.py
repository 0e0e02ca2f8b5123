"""Real traces, read where they are; they are not ours to ship."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from streamtune.forecasts.series import ForecastError, RateSeries, read_series

FILES = {
    "nasa": "nasa_per_minute.csv.gz",
    "twitter": "twitter_trace_per_minute.csv.gz",
    "amzn": "Twitter_volume_AMZN.csv.gz",
    "goog": "Twitter_volume_GOOG.csv.gz",
    "taxi": "nyc_taxi.csv.gz",
    "elb": "elb_request_count_8c0756.csv.gz",
}
SEASONAL = ("nasa", "taxi", "amzn")


def folder() -> Path:
    """Where the traces are: $STREAMTUNE_TRACES, or the shared folder of this project."""
    beside = Path(__file__).parents[4].parent / "shared" / "data" / "traces"  # beside the checkout
    return Path(os.environ.get("STREAMTUNE_TRACES", beside))


def load_trace(name: str, step_s: float | None = None, how: str = "max", days: float | None = None) -> RateSeries:
    """A trace by its name, in steps of its own or longer ones, its last ``days`` only where given.

    A gap keeps the last value: interpolation would leak the future.
    """
    if name not in FILES:
        raise ForecastError(f"unknown trace '{name}': choose from {', '.join(FILES)}")
    file = folder() / FILES[name]
    if not file.is_file():
        raise ForecastError(f"{file} is missing: set STREAMTUNE_TRACES to the folder of the traces")
    series = read_series(file, longest_gap=1000)
    nominal = float(round(series.step_s / 60) * 60)  # stamps jitter by a second or two
    series = RateSeries(series.values, nominal, series.start_s, series.held)
    if step_s is not None and step_s > nominal:
        series = series.coarser(step_s, how)
    if days is not None:
        kept = int(days * 86_400 / series.step_s)
        start = series.start_s + max(0, len(series) - kept) * series.step_s
        series = RateSeries(series.values[-kept:], series.step_s, start, series.held)
    return series


def scaled(series: RateSeries, peak: float) -> RateSeries:
    """The same shape with another highest rate (its 99.9 % quantile, so that one spike does not set the scale)."""
    top = max(float(np.quantile(series.values, 0.999)), 1e-12)
    return RateSeries(series.values / top * peak, series.step_s, series.start_s, series.held)
