"""Targets beside the figures: each says what was wanted, how often it was reached, and where it was not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from streamtune.experiments.provisioning.days import day_rows
from streamtune.experiments.provisioning.proactive import compared
from streamtune.experiments.provisioning.traces import SEASONAL

_MOST_HOURS = 1.05
# Sizes × epochs → seconds, and the gap that has to be proven where it is not zero.
_TIMES = {
    (1, 1440): (0.010, 0.0),
    (4, 96): (1.0, 0.0),
    (4, 1440): (15.0, 0.0),
    (10, 96): (10.0, 0.005),
    (20, 1440): (60.0, 0.02),
}


def verdict(target: str, reached: Iterable[tuple[str, bool]]) -> str:
    """One line; misses are named.

    >>> print(verdict("at most 1 s", [("taxi", True), ("nasa", False)]), end="")
    - Target: at most 1 s. **Missed** in 1 of 2: nasa.
    """
    cases = list(reached)
    if not cases:
        return f"- Target: {target}. Not measured yet.\n"
    missed = list(dict.fromkeys(name for name, met in cases if not met))
    count = sum(not met for _, met in cases)
    told = f"**Missed** in {count} of {len(cases)}: {', '.join(missed)}" if missed else f"Met in all {len(cases)}"
    return f"- Target: {target}. {told}.\n"


def on_times(rows: Sequence[dict[str, Any]]) -> str:
    text = ""
    for (sizes, epochs), (seconds, gap) in _TIMES.items():
        mine = [row for row in rows if (row["sizes"], row["epochs"]) == (sizes, epochs)]
        proof = f"to a proven {100 * gap:g} %" if gap else "exact"
        cases = [
            (
                f"{row['start_cost']} start costs, peak {row['peak_in_smallest']:g}",
                row["seconds"] <= seconds and (row["optimal"] or (gap > 0 and row["gap"] <= gap)),
            )
            for row in mine
        ]
        text += verdict(f"{sizes} × {epochs:,} {proof} within {seconds:g} s", cases) if cases else ""
    return text


def on_costs(runs: Sequence[dict[str, Any]]) -> str:
    cases = [
        (f"{run['trace']} {run['start_cost']} against {name}", row["above_ours"] >= 0)
        for run in runs
        for name, row in run["methods"].items()
        if name.startswith(("cba", "qcesa"))
    ]
    return verdict("our plan costs no more than any CBA and the paper's recursion", cases)


def on_coverage(runs: Sequence[dict[str, Any]]) -> str:
    perfect = [(run["trace"], run["rows"][0]["covered"] == 1.0) for run in runs]
    real = [(run["trace"], max(row["covered"] for row in run["rows"][1:]) >= 0.99) for run in runs]
    return verdict("every epoch covered with a perfect forecast", perfect) + verdict(
        "at least 99 % of epochs covered with the real forecast, by some level", real
    )


def on_days(runs: Sequence[dict[str, Any]]) -> str:
    """Proactive against reactive under the supervisor, each rival with what was chosen against it."""
    cases = []
    for run in runs:
        for row in day_rows(run):
            there = row["ours"] != "–"
            hours = float(row["hours"]) if there else float("inf")
            cases.append((run, row["rival"], row["minutes"], row["ours"] if there else None, hours))
    return _against((run["trace"], run["rescale"], rival, *rest) for run, rival, *rest in cases)


def on_proactive(runs: Sequence[dict[str, Any]]) -> str:
    cases = []
    for run in runs:
        for row in compared(run["rows"]):
            ours = None if row["proactive"] is None else row["proactive"]["minutes"]
            hours = row["hours_ratio"] or float("inf")
            rival = f"headroom {row['headroom']:g}"
            cases.append((run["trace"], run["rescale"], rival, row["reactive"]["minutes"], ours, hours))
    return _against(cases)


def _against(cases: Iterable[tuple[str, str, str, float, float | None, float]]) -> str:
    """Trace, rescale, rival, its minutes, ours (None: nothing within its hours) and the ratio of hours."""
    held, twice = [], []
    for trace, rescale, rival, theirs, ours, hours in cases:
        name = f"{trace} {rescale} {rival}"
        within = ours is not None and hours <= _MOST_HOURS
        held.append((name, within and ours is not None and ours <= theirs))
        if trace in SEASONAL:
            twice.append((name, within and ours is not None and 2 * ours <= theirs))
    return verdict(f"no more minutes than any rival, at ≤ {_MOST_HOURS} × its hours", held) + verdict(
        f"on the seasonal traces at least 2 × fewer minutes, at ≤ {_MOST_HOURS} × the hours", twice
    )
