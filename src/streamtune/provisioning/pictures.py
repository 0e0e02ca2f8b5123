"""Pictures of plans and studies, by matplotlib, without a display."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamtune.outputs import check_picture, write_whole

if TYPE_CHECKING:
    from streamtune.forecasts.base import Forecast
    from streamtune.forecasts.series import RateSeries
    from streamtune.provisioning.ahead import AheadPlan


def draw_plan(file: Path, past: RateSeries, foreseen: Forecast, plan: AheadPlan, level: float) -> None:
    """The last days of the rate, the forecast with its quantile, and the instances over time."""
    figure, (top, bottom) = _figure(file, 2)
    hours = past.step_s / 3600
    shown = past.values[-2 * len(foreseen.values) :]
    top.plot(-hours * np.arange(len(shown), 0, -1), shown, color="0.4", label="seen")
    ahead = hours * np.arange(len(foreseen.values))
    top.plot(ahead, foreseen.at(0.5), color="C0", label="median")
    top.plot(ahead, foreseen.at(level), color="C1", label=f"{100 * level:g} % quantile")
    top.set_ylabel("records/s")
    top.legend(frameon=False)
    for column, key in enumerate(plan.operators):
        bottom.step(ahead, plan.counts[:, column], where="post", label=key)
    bottom.set_xlabel("hours from now")
    bottom.set_ylabel("instances")
    bottom.set_ylim(bottom=0)
    bottom.legend(frameon=False, fontsize="small")
    _save(figure, file)


def draw_curves(file: Path, curves: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str, title: str) -> None:
    """Points (x, y) of several methods, joined."""
    figure, (axes,) = _figure(file, 1)
    for name, points in curves.items():
        ordered = sorted(points)
        axes.plot([one for one, _ in ordered], [two for _, two in ordered], marker="o", markersize=3, label=name)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    axes.legend(frameon=False, fontsize="small")
    _save(figure, file)


def _figure(file: Path, rows: int) -> tuple[Any, Any]:
    check_picture(file, "--picture")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2 * rows), layout="constrained")
    return figure, np.atleast_1d(figure.subplots(rows, 1))


def _save(figure: Any, file: Path) -> None:
    drawn = io.BytesIO()
    figure.savefig(drawn, format=file.suffix.lstrip(".").lower())
    write_whole(file, drawn.getvalue())
