"""How far forecasts are off on real traces, and how often a quantile holds."""

from __future__ import annotations

from typing import Any

from streamtune.experiments.provisioning.markdown import table
from streamtune.experiments.provisioning.traces import load_trace
from streamtune.forecasts.selection import SLOW, back_test, candidates
from streamtune.forecasts.series import DAY_S
from streamtune.forecasts.settings import ForecastSettings

_STEP_S = 900.0
_LEVELS = (0.5, 0.9, 0.99)
_HORIZONS = ("15min", "1h", "24h")


def forecast_errors(trace: str, method: str, origins: int) -> dict[str, Any] | None:
    """One method on one trace; None where it cannot be used there.

    Steps are a quarter of an hour, or the trace's own where that is longer. The last quarter is forecast from so many
    points; a method that is fitted anew at each takes a third of them.
    """
    series = load_trace(trace, _STEP_S, how="mean")
    day = round(DAY_S / series.step_s)
    settings = ForecastSettings(horizon=day, levels=_LEVELS, methods=(method,), origins=origins)
    if method not in candidates(series, settings):
        return None
    test = back_test(method, series, settings, max(1, origins // 3) if method in SLOW else None)
    found = {"trace": trace, "method": method, "step_s": series.step_s, "origins": test.origins}
    return {**found, "error": test.error, "coverage": test.coverage}


def forecasts_section(found: dict[str, Any]) -> str:
    """Mean absolute error over the mean rate at three horizons, and the share of steps below each quantile."""
    text = (
        "## Forecasts\n"
        "The last quarter of each trace, from points of it, by what came before each; mean absolute error over the "
        "mean rate at that distance, and how often the rate was at or below the quantile. Steps of 15 minutes; of "
        "taxi 30, which is also how far its nearest one reaches.\n\n"
    )
    heads = ["trace", "method", *(f"MAE / mean, {one}" for one in _HORIZONS), "0.9 covers", "0.99 covers", "origins"]
    rows = [
        [
            run["trace"],
            run["method"],
            *(f"{run['error'][one]:.3f}" if one in run["error"] else "–" for one in _HORIZONS),
            *(f"{100 * run['coverage'][level]:.1f} %" for level in ("0.9", "0.99")),
            run["origins"],
        ]
        for run in sorted(found["runs"], key=lambda run: (run["trace"], run["error"]["all"]))
    ]
    return text + table(heads, rows)
