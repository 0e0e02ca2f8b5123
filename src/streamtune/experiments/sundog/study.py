"""Fig. 3, Tables 2, 4, 5 and 6, Fig. 4 of *Timely Semantics*, with the thesis' numbers beside ours."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from streamtune.experiments.paper.findings import Check, Finding, Shown, curves, grouped_bars
from streamtune.experiments.sundog.arena import EPOCHS, NEW, OLD, RECENT, SundogArena
from streamtune.experiments.sundog.rankings import (
    FRESHNESS,
    KINDS,
    RELEVANCE,
    Judged,
    Setup,
    judge_day,
    mean,
    p_value,
    values,
)
from streamtune.sundog.evaluation import GOOD, MEASURES
from streamtune.sundog.world import RECENCY

_LEVEL = 0.05
# Thesis, Table 5: NDCG-10 of old, recent, new.
THESIS_TABLE_5 = {
    FRESHNESS: {1: (0.3600, 0.3446, 0.3868), 7: (0.3945, 0.4317, 0.4870), 30: (0.4569, 0.4994, 0.5335)},
    RELEVANCE: {1: (0.4499, 0.4522, 0.4958), 7: (0.5107, 0.5913, 0.6123), 30: (0.6041, 0.6588, 0.6589)},
}
# Thesis, Table 4: pairs, super-recent, super-related on each day; Table 6a: p(relevant | recency).
THESIS_TABLE_4 = ((819, 57, 290), (696, 34, 184), (865, 54, 171), (785, 34, 196))
THESIS_TABLE_6 = {"Super Recent": 0.85, "Very Recent": 0.79, "Recent": 0.50, "Reasonable": 0.69, "Outdated": 0.43}
THESIS_CORRELATION = 0.28


class Judgements:
    """All judged days of an arena, made once."""

    def __init__(self, arena: SundogArena) -> None:
        self.arena = arena
        self._days: list[Judged] = []

    @property
    def days(self) -> list[Judged]:
        if not self._days:
            self._days = [judge_day(self.arena, day) for day in self.arena.scale.judged_days]
        return self._days


def own(epoch: str, window: int) -> Setup:
    return Setup(epoch, epoch, window)


def _setting(arena: SundogArena) -> str:
    scale = arena.scale
    return (
        f"generated logs: {scale.entities:,} entities, {scale.lines_per_day:,} lines a day, {scale.users:,} users, "
        f"{len(scale.judged_days)} judged days, {scale.queries} queries each, seed {scale.seed}"
    )


def table2(judgements: Judgements) -> Finding:
    """The data sets."""
    arena = judgements.arena
    rows = []
    for epoch in EPOCHS:
        for window in arena.scale.windows:
            ends = sorted({arena.end(epoch, day) for day in arena.scale.judged_days})
            shown = ", ".join(f"{end - timedelta(days=window - 1)} – {end}" for end in ends)
            rows.append((epoch, str(window), shown))
    table = Shown("Data sets", ("epoch", "window (days)", "dates"), tuple(rows))
    return Finding(
        "sundog-table2", "Table 2: data sets", _setting(arena), "the same epochs and windows", tables=(table,)
    )


def fig3(judgements: Judgements) -> Finding:
    """NDCG by epoch and window, and several measures for the longest window."""
    days, windows = judgements.days, judgements.arena.scale.windows
    tables, pictures, checks = [], [], []
    for kind in KINDS:
        rows = [
            (
                str(window),
                *(f"{mean(days, own(epoch, window), kind, m):.4f}" for m in ("NDCG@10", "NDCG@5") for epoch in EPOCHS),
            )
            for window in windows
        ]
        headings = ("window", *(f"{measure} {epoch}" for measure in ("NDCG@10", "NDCG@5") for epoch in EPOCHS))
        tables.append(Shown(f"{kind}", headings, tuple(rows)))
        series = {epoch: [mean(days, own(epoch, w), kind, "NDCG@10") for w in windows] for epoch in EPOCHS}
        pictures.append(grouped_bars([f"{w} days" for w in windows], series, f"{kind}: NDCG@10", None))
        checks += [_more_is_better(kind, epoch, series[epoch]) for epoch in EPOCHS]
        longest = windows[-1]
        rows = [
            (name, *(f"{mean(days, own(epoch, longest), kind, name):.4f}" for epoch in EPOCHS)) for name in MEASURES
        ]
        tables.append(Shown(f"{kind}, window of {longest} days", ("measure", *EPOCHS), tuple(rows)))
    return Finding(
        "sundog-fig3",
        "Fig. 3: fresh data is better",
        _setting(judgements.arena),
        "new data gives rankings that are fresher and more relevant, the more so with longer windows",
        tables=tuple(tables),
        pictures=tuple(pictures),
        checks=tuple(checks),
    )


def _more_is_better(kind: str, epoch: str, by_window: list[float]) -> Check:
    """Section 4, "More data is better": the thesis saw it in all cases but one."""
    shown = ", ".join(f"{value:.4f}" for value in by_window)
    return Check(f"{kind}, {epoch} data: the longer the window the better", shown, sorted(by_window) == by_window)


def table4(judgements: Judgements) -> Finding:
    """How many pairs were judged, and how many have the best grades."""
    rows, figures = [], {}
    for number, day in enumerate(judgements.days):
        recent = sum(grade[1] == 4 for grade in day.pool.values())
        related = sum(grade[0] == 4 for grade in day.pool.values())
        theirs = THESIS_TABLE_4[number] if number < len(THESIS_TABLE_4) else ("", "", "")
        rows.append((day.day.isoformat(), *map(str, (len(day.pool), recent, related, *theirs))))
        figures[day.day.isoformat()] = [len(day.pool), recent, related]
    headings = ("date", "pairs", "super recent", "super related", "thesis: pairs", "super recent", "super related")
    return Finding(
        "sundog-table4",
        "Table 4: judged pairs",
        _setting(judgements.arena),
        "696 to 865 pairs a day, 4 to 7 % super recent, 20 to 35 % super related",
        tables=(Shown("Pairs of the pool", headings, tuple(rows)),),
        figures=figures,
    )


def table5(judgements: Judgements) -> Finding:
    """NDCG-10 over the old baseline with paired two-sided t-tests, and the directions that the thesis claims."""
    days, windows = judgements.days, judgements.arena.scale.windows
    tables, checks, figures = [], [], {}
    for kind in KINDS:
        rows = []
        for window in windows:
            got = {epoch: values(days, own(epoch, window), kind, "NDCG@10") for epoch in EPOCHS}
            tested = {
                "recent over old": p_value(got[RECENT], got[OLD]),
                "new over old": p_value(got[NEW], got[OLD]),
                "new over recent": p_value(got[NEW], got[RECENT]),
            }
            theirs = THESIS_TABLE_5[kind].get(window, (float("nan"),) * 3)
            rows.append((str(window), *_cells(got, tested), *(f"{value:.4f}" for value in theirs)))
            means = {epoch: float(array.mean()) for epoch, array in got.items()}
            figures[f"{kind}-{window}"] = {**means, **tested}
            checks.append(
                _direction(f"{kind}, {window} days: new over old", means[NEW], means[OLD], tested["new over old"])
            )
        headings = ("window", *EPOCHS, *(f"thesis: {epoch}" for epoch in EPOCHS))
        tables.append(
            Shown(f"{kind}: NDCG-10 (∗ significant over old, † over recent, p < 0.05)", headings, tuple(rows))
        )
    if 7 in windows and 30 in windows:
        checks += [_seven_against_thirty(days, kind) for kind in KINDS]
    return Finding(
        "sundog-table5",
        "Table 5: NDCG-10 over the old baseline",
        _setting(judgements.arena),
        "new over old +11 / +24 / +17 % in freshness, +10 / +20 / +9 % in relevance (1 / 7 / 30 days)",
        tables=tuple(tables),
        checks=tuple(checks),
        figures=figures,
    )


def _cells(got: dict[str, np.ndarray], tested: dict[str, float]) -> list[str]:
    base = got[OLD].mean()
    cells = [f"{base:.4f}"]
    for epoch in (RECENT, NEW):
        value = got[epoch].mean()
        marks = "∗" if tested[f"{epoch} over old"] < _LEVEL and value > base else ""
        marks += "†" if epoch == NEW and tested["new over recent"] < _LEVEL and value > got[RECENT].mean() else ""
        gain = 100 * (value / base - 1) if base else float("nan")
        cells.append(f"{value:.4f}{marks} ({gain:+.2f}%)")
    return cells


def _direction(target: str, better: float, worse: float, p: float) -> Check:
    return Check(target, f"{better:.4f} against {worse:.4f}, p = {p:.2g}", met=better > worse and p < _LEVEL)


def _seven_against_thirty(days: list[Judged], kind: str) -> Check:
    new, old = (values(days, own(epoch, w), kind, "NDCG@10") for epoch, w in ((NEW, 7), (OLD, 30)))
    return _direction(
        f"{kind}: new 7-day data over old 30-day data", float(new.mean()), float(old.mean()), p_value(new, old)
    )


def table6(judgements: Judgements) -> Finding:
    """How freshness and relevance go together in the pool."""
    grades = np.array([grade for day in judgements.days for grade in day.pool.values()])
    good = grades[:, 0] >= GOOD
    rows = []
    for code in reversed(range(len(RECENCY))):
        of_code = grades[:, 1] == code
        given = float(good[of_code].mean()) if of_code.any() else float("nan")
        within = [float(of_code[chosen].mean()) if chosen.any() else float("nan") for chosen in (~good, good)]
        rows.append(
            (
                RECENCY[code],
                f"{1 - given:.2f}",
                f"{given:.2f}",
                *(f"{x:.2f}" for x in within),
                f"{THESIS_TABLE_6[RECENCY[code]]:.2f}",
            )
        )
    correlation = float(np.corrcoef(grades.T)[0, 1])
    headings = ("recency", "p(not rel. | ·)", "p(rel. | ·)", "p(· | not rel.)", "p(· | rel.)", "thesis: p(rel. | ·)")
    return Finding(
        "sundog-table6",
        "Table 6: fresh is relevant",
        _setting(judgements.arena),
        f"super and very recent pairs are relevant (0.85, 0.79); correlation {THESIS_CORRELATION}",
        tables=(Shown("Recency and relevance of judged pairs", headings, tuple(rows)),),
        figures={"correlation": correlation},
    )


def fig4(judgements: Judgements) -> Finding:
    """New features, models of three ages."""
    days, windows = judgements.days, judgements.arena.scale.windows
    tables, checks, panels, figures = [], [], {}, {}
    for kind in KINDS:
        got = {(epoch, w): values(days, Setup(NEW, epoch, w), kind, "NDCG@10") for epoch in EPOCHS for w in windows}
        rows = [(str(w), *(f"{got[epoch, w].mean():.4f}" for epoch in EPOCHS)) for w in windows]
        tables.append(
            Shown(f"{kind}: NDCG-10 of new features", ("window", *(f"{e} model" for e in EPOCHS)), tuple(rows))
        )
        panels[f"{kind}: NDCG@10"] = {f"{e} model": [float(got[e, w].mean()) for w in windows] for e in EPOCHS}
        for w in windows:
            p = p_value(got[RECENT, w], got[NEW, w])
            recent, new = float(got[RECENT, w].mean()), float(got[NEW, w].mean())
            figures[f"{kind}-{w}"] = {epoch: float(got[epoch, w].mean()) for epoch in EPOCHS} | {
                "recent against new": p
            }
            as_good = recent >= new or p >= _LEVEL
            old, p_old = float(got[OLD, w].mean()), p_value(got[OLD, w], got[NEW, w])
            checks.append(_direction(f"{kind}, {w} days: a twenty-day-old model is worse", new, old, p_old))
            checks.append(
                Check(
                    f"{kind}, {w} days: a ten-day-old model is as good",
                    f"{recent:.4f} against {new:.4f}, p = {p:.2g}",
                    as_good,
                )
            )
    return Finding(
        "sundog-fig4",
        "Fig. 4: the age of the model",
        _setting(judgements.arena),
        "20-day-old models are worst; 10-day-old ones are about as good as new ones",
        tables=tuple(tables),
        pictures=(curves([float(w) for w in windows], panels, "window (days)"),),
        checks=tuple(checks),
        figures=figures,
    )
