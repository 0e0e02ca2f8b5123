"""Does it hold on people's data? Rankings of old, recent and new data against what occurred together afterwards.

No judgements exist, so the label is the future: how many people named the two together in the days after. The score is
p(related | entity) by users, without a model, as there is no planted truth to learn from. Queries are the most named
entities that have any future at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

from streamtune.experiments.paper.findings import Check, Finding, Shown
from streamtune.experiments.sundog.arena import EPOCHS, NEW, OLD, RECENT, SundogArena
from streamtune.experiments.sundog.rankings import p_value
from streamtune.sundog.evaluation import judge
from streamtune.sundog.knowledge import load_knowledge
from streamtune.sundog.labels import most_searched
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.real import write_commits, write_movietweetings
from streamtune.sundog.settings import SundogSettings
from streamtune.sundog.tables import read_table


@dataclass(frozen=True)
class Plan:
    """How old the data of each epoch is, the windows, the days of the future, and the days between two judgements."""

    ages: dict[str, int]
    windows: tuple[int, ...]
    future: int
    step: int


# About the ages of the thesis: 0, 10 and 20 days; commits are slower than searches.
SOURCES = {
    "movietweetings": Plan({NEW: 0, RECENT: 10, OLD: 20}, (7, 30), future=7, step=14),
    "spark-commits": Plan({NEW: 0, RECENT: 90, OLD: 180}, (30, 90), future=30, step=120),
}
_WRITERS: dict[str, Callable[[Path, Path], int]] = {
    "movietweetings": write_movietweetings,
    "spark-commits": write_commits,
}
_STEPS = np.array([1, 2, 3, 5])  # people that make grades 1 to 4


def real_data(arena: SundogArena, data: Path, name: str) -> Finding:
    """One source: NDCG-10 by epoch and window, tested over all queries of all days."""
    plan = SOURCES[name]
    ages, windows, future = plan.ages, plan.windows, plan.future
    folder = arena.work / name
    lines = _WRITERS[name](data / name, folder)
    sundog = Sundog(
        arena.spark, load_knowledge(folder / "knowledge"), str((folder / "out").absolute()), SundogSettings(buckets=2)
    )
    sundog.panes.clear()
    state = sundog.add(sundog.inputs([str((folder / "logs").absolute())]))
    last = date(1970, 1, 1) + timedelta(days=state.days[-1] - future)
    days = [last - timedelta(days=plan.step * number) for number in range(arena.scale.real_days)]
    got: dict[tuple[str, int], list[float]] = {}
    for day in days:
        arena.tell(f"{name} on {day}")
        grades = _future_grades(sundog, day + timedelta(days=future), future)
        queries = most_searched(_rankings(sundog, day + timedelta(days=future), future), arena.scale.queries)
        for epoch, age in ages.items():
            for window in windows:
                ranked = _rankings(sundog, day - timedelta(days=age), window)
                found = judge(ranked, grades, queries, ["NDCG@10"]).by_query["NDCG@10"]
                got.setdefault((epoch, window), []).extend(found.values())
    return _finding(name, lines, len(days), ages, windows, {key: np.array(found) for key, found in got.items()})


def _rankings(sundog: Sundog, day: date, window: int) -> pd.DataFrame:
    sundog.rank(day, window)
    return read_table(sundog.out, "rankings", day, window)


def _future_grades(sundog: Sundog, day: date, window: int) -> dict[tuple[str, str], int]:
    sundog.rank(day, window)
    table = read_table(sundog.out, "features", day, window)
    grade = np.searchsorted(_STEPS, table["users"].to_numpy(), side="right")
    pairs = zip(table["entity"].astype(str), table["related"].astype(str), strict=True)
    return {pair: int(found) for pair, found in zip(pairs, grade, strict=True)}


def _finding(
    name: str,
    lines: int,
    days: int,
    ages: dict[str, int],
    windows: tuple[int, ...],
    got: dict[tuple[str, int], np.ndarray],
) -> Finding:
    rows, checks, figures = [], [], {}
    for window in windows:
        means = {epoch: float(got[epoch, window].mean()) for epoch in EPOCHS}
        tests = {epoch: p_value(got[epoch, window], got[OLD, window]) for epoch in (RECENT, NEW)}
        rows.append(
            (str(window), *(f"{means[epoch]:.4f}" for epoch in EPOCHS), f"{tests[RECENT]:.2g}", f"{tests[NEW]:.2g}")
        )
        figures[str(window)] = {**means, "p recent over old": tests[RECENT], "p new over old": tests[NEW]}
        measured = f"{means[NEW]:.4f} against {means[OLD]:.4f}, p = {tests[NEW]:.2g}"
        checks.append(Check(f"{window} days: new over old", measured, means[NEW] > means[OLD] and tests[NEW] < 0.05))
    short, long = got[NEW, windows[0]], got[OLD, windows[-1]]
    p = p_value(short, long)
    checks.append(
        Check(
            f"new {windows[0]}-day data over old {windows[-1]}-day data",
            f"{short.mean():.4f} against {long.mean():.4f}, p = {p:.2g}",
            bool(short.mean() > long.mean() and p < 0.05),
        )
    )
    headings = ("window", *(f"{epoch} ({ages[epoch]} days)" for epoch in EPOCHS), "p recent/old", "p new/old")
    return Finding(
        f"sundog-{name}",
        f"Real data: {name}",
        f"{lines:,} lines, {days} days, label: people who name both afterwards",
        "no numbers; Table 5's direction is new over recent over old",
        tables=(Shown("NDCG-10 of the future", headings, tuple(rows)),),
        checks=tuple(checks),
        figures=figures,
    )
