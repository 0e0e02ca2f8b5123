"""The fifteen rankings of every judged day, pooled and judged, and tests between any two of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd
from scipy import stats

from streamtune.experiments.sundog.arena import EPOCHS, NEW, SundogArena
from streamtune.sundog.evaluation import Quality, judge

FRESHNESS, RELEVANCE = "freshness", "relevance"
KINDS = (FRESHNESS, RELEVANCE)
_PLACE = {RELEVANCE: 0, FRESHNESS: 1}


@dataclass(frozen=True)
class Setup:
    """Features of one epoch, ranked by a model of one epoch, with one window."""

    data: str
    model: str
    window: int


@dataclass(frozen=True)
class Judged:
    """All rankings of one day: the pool with its grades, and the quality of each ranking by kind."""

    day: date
    pool: dict[tuple[str, str], tuple[int, int]]
    quality: dict[tuple[Setup, str], Quality]


def setups(windows: Iterable[int]) -> list[Setup]:
    """Every epoch with its own model, and the new features with older models: fifteen for three windows."""
    windows = list(windows)
    own = [Setup(epoch, epoch, window) for window in windows for epoch in EPOCHS]
    aged = [Setup(NEW, epoch, window) for window in windows for epoch in EPOCHS if epoch != NEW]
    return own + aged


def judge_day(arena: SundogArena, day: date) -> Judged:
    """Make the rankings of a day, pool their pairs, judge them."""
    queries = arena.queries(day)
    made: dict[Setup, pd.DataFrame] = {}
    for setup in setups(arena.scale.windows):
        model = arena.model(arena.end(setup.model, day), setup.window)
        made[setup] = arena.ranking(model, arena.end(setup.data, day), setup.window, day)
    grades = arena.grades(day)
    pairs = sorted({pair for frame in made.values() for pair in zip(frame["entity"], frame["related"], strict=True)})
    pool = {pair: grades[pair] for pair in pairs}
    quality = {
        (setup, kind): judge(frame, {pair: grade[_PLACE[kind]] for pair, grade in pool.items()}, queries)
        for setup, frame in made.items()
        for kind in KINDS
    }
    return Judged(day, pool, quality)


def values(days: Iterable[Judged], setup: Setup, kind: str, measure: str) -> np.ndarray:
    """The measure of every query on every day."""
    return np.array([value for day in days for value in day.quality[setup, kind].by_query[measure].values()])


def mean(days: Iterable[Judged], setup: Setup, kind: str, measure: str) -> float:
    return float(values(days, setup, kind, measure).mean())


def p_value(one: np.ndarray, other: np.ndarray) -> float:
    """Of the paired two-sided t-test; 1 where the two do not differ at all."""
    if np.array_equal(one, other):
        return 1.0
    return float(stats.ttest_rel(one, other).pvalue)
