"""What an experiment gives back: a verdict in words, tables, and pictures."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#1f6f8b", "#d1603d", "#6a8d3a", "#8a5fa8", "#b8902b", "#4a4e57", "#c2427e", "#5fa8a0", "#9b6b4e", "#7d86a8")


@dataclass(frozen=True)
class Shown:
    """A table; the first column is text, the others are figures."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Check:
    """A target, what was measured, and whether it was met."""

    target: str
    measured: str
    met: bool


@dataclass(frozen=True)
class Finding:
    """One experiment. ``paper`` says what the paper reports at this place."""

    name: str
    title: str
    setting: str
    paper: str
    tables: tuple[Shown, ...] = ()
    pictures: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values, without pictures."""
        return {
            "name": self.name,
            "title": self.title,
            "setting": self.setting,
            "checks": [{"target": c.target, "measured": c.measured, "met": c.met} for c in self.checks],
            "tables": [
                {"title": t.title, "headings": list(t.headings), "rows": [list(row) for row in t.rows]}
                for t in self.tables
            ],
            "figures": self.figures,
        }


def svg(figure: Figure) -> str:
    """A picture as text that stands in a page."""
    buffer = io.StringIO()
    figure.tight_layout()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def axes(width: float = 8.0, height: float = 3.4, columns: int = 1) -> tuple[Figure, list[Axes]]:
    figure, made = plt.subplots(1, columns, figsize=(width, height), squeeze=False)
    for one in made[0]:
        one.spines[["top", "right"]].set_visible(False)
    return figure, list(made[0])


def grouped_bars(groups: Sequence[str], series: Mapping[str, Sequence[float]], ylabel: str, line: float | None) -> str:
    """Bars of every series side by side in every group; ``line`` marks what would be ideal."""
    figure, (plot,) = axes(10.0)
    width = 0.84 / max(1, len(series))
    for number, (label, values) in enumerate(series.items()):
        places = [place + (number - (len(series) - 1) / 2) * width for place in range(len(groups))]
        plot.bar(places, values, width, label=label, color=COLOURS[number % len(COLOURS)])
    if line is not None:
        plot.axhline(line, color="#333333", linewidth=0.8, linestyle=":")
    plot.set_xticks(range(len(groups)), groups, fontsize=8)
    plot.set_ylabel(ylabel)
    plot.legend(frameon=False, fontsize=7, ncols=5, loc="upper center", bbox_to_anchor=(0.5, 1.22))
    return svg(figure)


def curves(
    x: Sequence[float], panels: Mapping[str, Mapping[str, Sequence[float]]], xlabel: str, *, log_x: bool = False
) -> str:
    """One panel per measure, one line per series, over the same x."""
    figure, plots = axes(4.2 * len(panels), 3.2, len(panels))
    for plot, (ylabel, series) in zip(plots, panels.items(), strict=True):
        for number, (label, values) in enumerate(series.items()):
            plot.plot(x[: len(values)], values, "o-", ms=3, lw=1.3, label=label, color=COLOURS[number % len(COLOURS)])
        plot.set_xlabel(xlabel)
        plot.set_ylabel(ylabel)
        if log_x:
            plot.set_xscale("log")
    plots[0].legend(frameon=False, fontsize=7)
    return svg(figure)
