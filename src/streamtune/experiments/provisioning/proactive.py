"""Proactive against reactive: backpressured minutes over instance-hours on real traces, downtimes included.

A fluid model in minutes: what cannot be served waits, and a minute counts as backpressured while anything waits at its
end. Every change stops the job for ``downtime_s``. All methods decide every ``decide_s`` from the past alone. The early
part of a trace trains the forecaster, the middle chooses settings, and only the late part is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from pydantic import Field

from streamtune.experiments.provisioning.traces import load_trace, scaled
from streamtune.forecasts.boosting import QuantileBoosting
from streamtune.forecasts.series import RateSeries
from streamtune.frozen import Frozen
from streamtune.provisioning.ahead import stretch_counts

Floats = npt.NDArray[np.float64]


class ProactiveStudy(Frozen):
    """One operator of a job, and how often to decide."""

    decide_s: float = Field(default=300.0, gt=0, description="Seconds between decisions.")
    downtime_s: float = Field(default=20.0, ge=0, description="A restart stops the job so long; 5 for a live rescale.")
    peak_instances: float = Field(default=30.0, gt=1, description="Instances that the trace's peak needs.")
    horizon: int = Field(default=12, ge=1, description="Decisions to look ahead.")
    levels: tuple[float, ...] = Field(default=(0.5, 0.7, 0.8, 0.9, 0.95, 0.99), description="Quantiles to try.")
    headrooms: tuple[float, ...] = Field(default=(0.0, 0.05, 0.1, 0.15, 0.2, 0.3), description="Shares added to rates.")
    change_costs: tuple[float, ...] = Field(
        default=(0.0, 2.0, 6.0, 12.0, 24.0), description="Price of a change, in instance-windows."
    )
    train_share: float = Field(default=0.5, gt=0, lt=1, description="The early part, to learn from.")
    choose_share: float = Field(default=0.2, gt=0, lt=1, description="The middle part, to choose settings on.")


@dataclass(frozen=True)
class Arena:
    """A trace in minutes (an instance serves 1 record/s), and its windows."""

    rates: Floats
    width: int  # minutes of a window
    means: RateSeries  # of the windows: what DS2 looks at
    peaks: RateSeries  # their highest minutes: what has to be served without waiting

    @classmethod
    def of(cls, trace: str, days: float, settings: ProactiveStudy) -> Arena:
        minute = load_trace(trace, days=days)
        held = np.repeat(minute.values, max(1, round(minute.step_s / 60)))  # a value holds until the next
        rates = scaled(RateSeries(held, 60.0, minute.start_s), settings.peak_instances).values
        width = round(settings.decide_s / 60)
        windows = len(rates) // width
        blocks = rates[: windows * width].reshape(windows, width)
        means = RateSeries(blocks.mean(axis=1), settings.decide_s, minute.start_s)
        peaks = RateSeries(blocks.max(axis=1), settings.decide_s, minute.start_s)
        return cls(rates[: windows * width], width, means, peaks)


@njit(cache=True, nogil=True)
def run_plan(
    rates: np.ndarray, width: int, foreseen: np.ndarray, change_cost: float, downtime_s: float
) -> tuple[float, float, float]:
    """Minutes with records waiting, instance-hours and changes; ``foreseen`` is windows × horizon, in instances."""
    now = max(1, int(np.ceil(foreseen[0, 0] - 1e-9)))
    current = np.array([now])
    backlog = 0.0
    minutes = 0.0
    hours = 0.0
    changes = 0.0
    for window in range(foreseen.shape[0]):
        needed = np.maximum(np.ceil(foreseen[window] - 1e-9), 1.0).astype(np.int64).reshape(-1, 1)
        wanted = stretch_counts(needed, 1.0, change_cost, current, True)[0, 0]
        is_changed = wanted != current[0]
        changes += is_changed
        current[0] = wanted
        hours += wanted * width / 60.0
        for k in range(width):
            rate = rates[window * width + k] * 60.0
            open_s = 60.0 - (downtime_s if is_changed and k == 0 else 0.0)
            backlog = max(0.0, backlog + rate - wanted * open_s)
            if backlog > 0.01 * rate:
                minutes += 1.0
    return minutes, hours, changes


def forecasts(arena: Arena, split: int, settings: ProactiveStudy) -> dict[str, Floats]:
    """windows × horizon by name, each row from what was known when its window began.

    ``last mean`` and ``last peak`` are naive forecasts: with them the plan follows the rate, as a reactive tuner does.
    """
    windows = np.arange(split, len(arena.peaks))
    ahead = np.minimum(windows[:, None] + np.arange(settings.horizon), len(arena.peaks) - 1)
    table = {}
    for name, series in (("mean", arena.means), ("peak", arena.peaks)):
        forecaster = QuantileBoosting()
        forecaster.fit(series.until(split), settings.horizon, settings.levels)
        found = forecaster.predict_many(series, windows, settings.horizon)
        for k, level in enumerate(settings.levels):
            table[f"boosting {name} {level:g}"] = found[:, :, k]
        table[f"last {name}"] = np.repeat(series.values[windows - 1][:, None], settings.horizon, axis=1)
        table[f"perfect {name}"] = series.values[ahead]
    return table


def study(trace: str, days: float, settings: ProactiveStudy) -> dict[str, Any]:
    """Every setting on the middle and on the late part of a trace."""
    arena = Arena.of(trace, days, settings)
    windows = len(arena.peaks)
    split = int(settings.train_share * windows)
    middle = int(settings.choose_share * windows)
    rows = []
    for name, foreseen in forecasts(arena, split, settings).items():
        for cost in settings.change_costs:
            for headroom in settings.headrooms:
                wanted = np.ascontiguousarray(foreseen * (1 + headroom))
                row: dict[str, Any] = {"forecast": name, "change_cost": cost, "headroom": headroom}
                for part, first, end in (("chosen_on", 0, middle), ("test", middle, windows - split)):
                    rates = arena.rates[(split + first) * arena.width : (split + end) * arena.width]
                    minutes, hours, changes = run_plan(rates, arena.width, wanted[first:end], cost, settings.downtime_s)
                    row[part] = {"minutes": minutes, "hours": hours, "changes": changes}
                rows.append(row)
    days_tested = (windows - split - middle) * settings.decide_s / 86_400
    return {"trace": trace, "days": days_tested, "settings": settings.model_dump(), "rows": rows}


def is_reactive(row: dict[str, Any]) -> bool:
    """DS2: the last window's mean plus headroom, changed at every decision that differs."""
    return bool(row["forecast"] == "last mean" and row["change_cost"] == 0)


def is_perfect(row: dict[str, Any]) -> bool:
    """A plan that knows the future."""
    return str(row["forecast"]).startswith("perfect")


def compared(rows: Sequence[dict[str, Any]], most_hours: float = 1.05) -> list[dict[str, Any]]:
    """For each reactive headroom: the proactive setting that the middle part chose, on the late part.

    Chosen is the setting with the fewest minutes at no more than ``most_hours`` × the reactive instance-hours of the
    middle part. ``perfect`` is chosen likewise among plans that know the future.
    """
    result = []
    for rival in filter(is_reactive, rows):
        limit = most_hours * rival["chosen_on"]["hours"]
        ours = _chosen([row for row in rows if not is_perfect(row)], limit)
        perfect = _chosen([row for row in rows if is_perfect(row)], limit)
        result.append(
            {
                "headroom": rival["headroom"],
                "reactive": rival["test"],
                "proactive": ours and {**ours["test"], **_setting(ours)},
                "times_fewer": ours and rival["test"]["minutes"] / max(ours["test"]["minutes"], 1.0),
                "hours_ratio": ours and ours["test"]["hours"] / rival["test"]["hours"],
                "perfect": perfect and {**perfect["test"], **_setting(perfect)},
                "ten_times_at": _least_hours(rows, rival),
            }
        )
    return result


def _chosen(rows: Sequence[dict[str, Any]], limit: float) -> dict[str, Any] | None:
    affordable = [row for row in rows if row["chosen_on"]["hours"] <= limit]
    return min(affordable, key=lambda row: (row["chosen_on"]["minutes"], row["chosen_on"]["hours"]), default=None)


def _setting(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("forecast", "change_cost", "headroom")}


def _least_hours(rows: Sequence[dict[str, Any]], rival: dict[str, Any]) -> float | None:
    """The least instance-hours, over the rival's, at which minutes are ten times fewer (both on the late part)."""
    hours = [
        row["test"]["hours"] / rival["test"]["hours"]
        for row in rows
        if not is_perfect(row) and row["test"]["minutes"] <= rival["test"]["minutes"] / 10
    ]
    return min(hours, default=None)
