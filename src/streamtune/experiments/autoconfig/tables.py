"""The study's runs as the thesis' figures, with what the thesis reports beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamtune.experiments.autoconfig.study import Run

# Section 5.3: mean seconds between runs, Spearmint; "pla and ipla lie all between 0 and 1 second".
THESIS_SECONDS = {"bo": {"small": 35, "medium": 90, "large": 173}, "ibo": {"small": 36, "medium": 168, "large": 253}}
SECONDS_TARGET = {"small": 1.0, "medium": 3.0, "large": 10.0}
# Section 5.1 in words, per setting (imbalance, contention): the bars' heights are not in the text.
THESIS_FIG_4 = {
    (0.0, 0.0): "ipla best on medium and large; bo and ibo find nothing better; all equal on small",
    (1.0, 0.0): "topology knowledge still helps; bo beats pla on medium and large; all equal on small",
    (0.0, 0.25): "topology knowledge still helps; bo helps substantially on medium and large",
    (1.0, 0.25): "topology knowledge does not help; large: all end at or near 1 instance; small: bo best",
}
THESIS_BO180 = "more steps gave better results in all four cases tried"

Row = tuple[str, ...]
Setting = tuple[str, float, float]


def setting_of(run: Run) -> Setting:
    return run.size, run.imbalance, run.contention


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    return list(dict.fromkeys(setting_of(run) for run in runs))


def contestants_of(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.contestant for run in runs))


def better_passes(runs: Sequence[Run], setting: Setting, contestant: str) -> list[Run]:
    """For every graph the pass whose 30 runs were better on average, as the thesis graphs it."""
    best: dict[int, Run] = {}
    for run in runs:
        if setting_of(run) == setting and run.contestant == contestant:
            old = best.get(run.seed)
            if old is None or np.mean(run.measured) > np.mean(old.measured):
                best[run.seed] = run
    return list(best.values())


def figure_4(runs: Sequence[Run]) -> tuple[Row, list[Row]]:
    """Share of the best known throughput: mean over graphs of the mean of 30 runs, with the least and most."""
    names = contestants_of(runs)
    rows = []
    for setting in settings_of(runs):
        cells = []
        for name in names:
            shares = [np.array(run.measured) / run.best_known for run in better_passes(runs, setting, name)]
            if shares:
                mean = np.mean([float(one.mean()) for one in shares])
                least, most = min(one.min() for one in shares), max(one.max() for one in shares)
                cells.append(f"{mean:.2f} ({least:.2f}–{most:.2f})")
            else:
                cells.append("–")
        rows.append((_named(setting), *cells, THESIS_FIG_4[setting[1], setting[2]]))
    return ("setting", *names, "thesis"), rows


def figure_5(runs: Sequence[Run]) -> tuple[Row, list[Row]]:
    """Step of the best measurement, as in the thesis, and first step at 95 % of the best known (median, n reached)."""
    names = contestants_of(runs)
    rows = []
    for setting in settings_of(runs):
        cells = []
        for name in names:
            of = [run for run in runs if setting_of(run) == setting and run.contestant == name]
            if not of:
                cells.append("–")
                continue
            reached = [run.to_95 for run in of if run.to_95 is not None]
            median = np.median([steps_to_95(run) for run in of])
            cells.append(f"{np.mean([run.first_best for run in of]):.0f}; {median:.0f} ({len(reached)}/{len(of)})")
        rows.append((_named(setting), *cells))
    return ("setting", *(f"{name}: best at; 95 % at" for name in names)), rows


def figure_6(runs: Sequence[Run], contestants: Sequence[str] = ("bo", "bo180", "ours")) -> dict[str, list[float]]:
    """LOESS trend (span 0.75) of what the steps measured, relative to the best known: name → one value per step."""
    trends = {}
    for setting in settings_of(runs):
        for name in contestants:
            of = [run for run in runs if setting_of(run) == setting and run.contestant == name]
            if of:
                shares = mean_by_step([[value / run.best_known for value in run.values] for run in of])
                trends[f"{name}, {_named(setting)}"] = [round(float(value), 4) for value in loess(np.array(shares))]
    return trends


def mean_by_step(series: Sequence[Sequence[float]]) -> list[float]:
    """Mean of every step over those series that are as long: bo180 has more steps, and some searches end early.

    >>> mean_by_step([[1.0, 2.0], [3.0]])
    [2.0, 2.0]
    """
    longest = max(len(values) for values in series)
    return [float(np.mean([values[step] for values in series if step < len(values)])) for step in range(longest)]


def figure_7(runs: Sequence[Run]) -> tuple[Row, list[Row]]:
    """CPU seconds to choose one configuration (mean and largest run mean), with the thesis' seconds."""
    names = contestants_of(runs)
    rows = []
    for size in dict.fromkeys(run.size for run in runs):
        cells = []
        for name in names:
            seconds = [run.seconds_per_step for run in runs if run.size == size and run.contestant == name]
            cells.append(f"{np.mean(seconds):.2f} (≤ {max(seconds):.2f})" if seconds else "–")
        thesis = ", ".join(f"{name} {by_size[size]}" for name, by_size in THESIS_SECONDS.items() if size in by_size)
        rows.append((size, *cells, f"{thesis}, pla/ipla 0 to 1"))
    return ("size", *names, "thesis, s"), rows


def steps_to_95(run: Run) -> float:
    """A run that never got there counts as one step more than it had."""
    return float(run.to_95 if run.to_95 is not None else len(run.values) + 1)


def checks(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The issue's targets: target, measured, met."""
    found = [best_everywhere(runs), *second_checks(runs), *step_checks(runs)]
    regrets = [run.regret for run in runs if run.contestant == "ours"]
    if regrets:
        text = f"mean {100 * np.mean(regrets):.1f} %, largest {100 * max(regrets):.1f} %"
        found.append(_check("ours: the choice is within 5 % of the best tried", text, float(np.mean(regrets)) <= 0.05))
    return found


def second_checks(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """CPU seconds per step at each size."""
    found = []
    for size, limit in SECONDS_TARGET.items():
        seconds = [run.seconds_per_step for run in runs if run.size == size and run.contestant == "ours"]
        if seconds:
            mean = float(np.mean(seconds))
            found.append(_check(f"ours: seconds per step, {size} ≤ {limit:g}", f"{mean:.2f} CPU s", mean <= limit))
    return found


def step_checks(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Steps to 95 % of the best known, against bo and ipla; and with a warm start against without.

    With contentious operators the landscape is flat, most strategies are there after a step or two: those are apart.
    """
    found = []
    for kind, of in _by_contention(runs).items():
        for ours, share in (("ours", 0.25), ("ours-blind", 0.5)):
            for rival in ("bo", "ipla"):
                found.extend(_fewer_steps(of, ours, rival, share, kind))
        for warm, cold in (("ours-warm", "ours"), ("ours-blind-warm", "ours-blind")):
            found.extend(_fewer_steps(of, warm, cold, None, kind))
    return found


def _by_contention(runs: Sequence[Run]) -> dict[str, list[Run]]:
    return {
        _contention_words(one): [run for run in runs if run.contention == one]
        for one in dict.fromkeys(run.contention for run in runs)
    }


def _contention_words(contention: float) -> str:
    return f"{100 * contention:.0f} % contentious" if contention else "without contention"


def steps_table(runs: Sequence[Run]) -> tuple[Row, list[Row]]:
    """Mean steps to 95 % by size, and over all sizes, and in how many runs it was reached; flat graphs apart."""
    names = contestants_of(runs)
    rows = []
    for kind, similar in _by_contention(runs).items():
        for size in (*dict.fromkeys(run.size for run in similar), "all sizes"):
            cells = []
            for name in names:
                of = [run for run in similar if run.contestant == name and size in (run.size, "all sizes")]
                reached = sum(run.to_95 is not None for run in of)
                cells.append(f"{np.mean([steps_to_95(run) for run in of]):.1f} ({reached}/{len(of)})" if of else "–")
            rows.append((f"{size}, {kind}", *cells))
    return ("graphs", *names), rows


def order(runs: Sequence[Run]) -> tuple[Row, list[Row]]:
    """The thesis' four strategies by their mean, best first, with what the thesis says."""
    rows: list[Row] = []
    for setting in settings_of(runs):
        means = {
            name: float(np.mean([np.mean(run.measured) / run.best_known for run in found]))
            for name in ("pla", "ipla", "bo", "ibo")
            if (found := better_passes(runs, setting, name))
        }
        ranked = sorted(means, key=lambda name: -means[name])
        told = ", ".join(f"{name} {means[name]:.2f}" for name in ranked)
        rows.append((_named(setting), told, THESIS_FIG_4[setting[1], setting[2]]))
    return ("setting", "ours to measure", "thesis"), rows


def best_everywhere(runs: Sequence[Run]) -> dict[str, Any]:
    """Best, or within the spread (standard deviation over graphs) of the best, of all with as many steps."""
    lost = []
    names = [name for name in contestants_of(runs) if not name.startswith("ours-") and name != "bo180"]
    for setting in settings_of(runs):
        means = {
            name: np.array([np.mean(run.measured) / run.best_known for run in better_passes(runs, setting, name)])
            for name in names
        }
        best = max((name for name in names if len(means[name])), key=lambda name: float(means[name].mean()))
        spread = max(float(means[best].std()), 0.01)
        if "ours" not in means or float(means["ours"].mean()) < float(means[best].mean()) - spread:
            lost.append(f"{_named(setting)}: {best}")
    text = (
        f"{len(settings_of(runs)) - len(lost)} of {len(settings_of(runs))}{'; not: ' + ', '.join(lost) if lost else ''}"
    )
    return _check("Fig. 4: ours best or within the spread of the best", text, not lost)


def _fewer_steps(runs: Sequence[Run], ours: str, rival: str, share: float | None, kind: str) -> list[dict[str, Any]]:
    """Mean steps beside ``share`` times the rival's; without a share there must be fewer. One step is the least."""
    by_name = {name: [steps_to_95(run) for run in runs if run.contestant == name] for name in (ours, rival)}
    if not all(by_name.values()):
        return []
    mine, theirs = (float(np.mean(by_name[name])) for name in (ours, rival))
    text = f"{mine:.1f} against {theirs:.1f} steps on average (never: counted as one more than there were)"
    least = mine <= 1.0
    text += "; one is the least there can be" if least else ""
    target = f"steps to 95 %, {kind}: {ours} {'fewer than' if share is None else f'at most {share:g} ×'} {rival}"
    return [_check(target, text, least or (mine < theirs if share is None else mine <= share * theirs))]


def _check(target: str, measured: str, met: bool) -> dict[str, Any]:
    return {"target": target, "measured": measured, "met": met}


def _named(setting: Setting) -> str:
    size, imbalance, contention = setting
    return f"{size}, {100 * imbalance:.0f} % imbalance, {100 * contention:.0f} % contentious"


def loess(values: NDArray[np.float64], span: float = 0.75) -> NDArray[np.float64]:
    """Local linear regression with tricube weights (Cleveland 1979), as the thesis smooths Fig. 6."""
    count = len(values)
    x = np.arange(count, dtype=float)
    width = max(3, int(np.ceil(span * count)))
    smooth = np.empty(count)
    for place in range(count):
        distance = np.abs(x - x[place])
        reach = max(float(np.sort(distance)[min(width, count) - 1]), 1e-9)
        weight = np.clip(1.0 - (distance / reach) ** 3, 0.0, None) ** 3
        coefficients = np.polyfit(x, values, 1, w=np.sqrt(weight)) if count > 2 else np.array([0.0, values.mean()])
        smooth[place] = np.polyval(coefficients, x[place])
    return smooth


def report(runs: Sequence[Run]) -> dict[str, Any]:
    """Everything as plain JSON values."""
    tables = {}
    for name, make in (("figure_4", figure_4), ("figure_5", figure_5), ("figure_7", figure_7)):
        headings, rows = make(runs)
        tables[name] = {"headings": list(headings), "rows": [list(row) for row in rows]}
    return {"tables": tables, "figure_6": figure_6(runs), "checks": checks(runs), "thesis_bo180": THESIS_BO180}


def markdown(runs: Sequence[Run]) -> str:
    """The tables as a page."""
    parts = []
    titles = {
        "figure_4": "Fig. 4, throughput",
        "figure_5": "Fig. 5, convergence",
        "figure_7": "Fig. 7, CPU seconds per step",
    }
    made = report(runs)
    for name, table in made["tables"].items():
        lines = [
            f"## {titles[name]}",
            "| " + " | ".join(table["headings"]) + " |",
            "|" + " --- |" * len(table["headings"]),
        ]
        lines += ["| " + " | ".join(row) + " |" for row in table["rows"]]
        parts.append("\n".join(lines))
    targets = [
        f"- {'met' if one['met'] else '**missed**'}: {one['target']}: {one['measured']}" for one in made["checks"]
    ]
    return "\n\n".join([*parts, "## Targets", "\n".join(targets)]) + "\n"
