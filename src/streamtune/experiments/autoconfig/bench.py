"""``streamtune bench autoconfig``: the figures of "Machines Tuning Machines" as findings, with the thesis beside them.

Runs are kept one by one in the work folder; a study that was stopped, or whose minutes were up, goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamtune.experiments.autoconfig import tables
from streamtune.experiments.autoconfig.noise import NoiseRun, NoiseStudy, noise_checks, noise_table, run_noise
from streamtune.experiments.autoconfig.study import AutoconfigStudy, Deadline, Run, run_study
from streamtune.experiments.names import AUTOCONFIG
from streamtune.experiments.paper.findings import Check, Finding, Shown, curves, grouped_bars

Tell = Callable[[str], None]
QUICK = AutoconfigStudy(sizes=("small",), seeds=(100,), steps=12, passes=1, contestants=("pla", "ipla", "bo", "ours"))
QUICK_NOISE = NoiseStudy(
    graphs={"small": 2}, first_seed=100, contestants=("ours",), functions=("two knobs",), function_seeds=2, steps=20
)
_WHERE = "80 hosts with 4 cores as a fluid, layered topologies of Table 2"
_FIG_5 = (
    "bo needs many more steps than pla; topological information shortens it; in four cases the best was found in the "
    "last run; small and medium: good settings within 50 and 100 steps"
)
_PICTURED = (
    "pla",
    "ipla",
    "bo",
    "bo180",
    "ibo",
    "random",
    "tpe",
    "cma-es",
    "ours",
    "ours-blind",
    "ours-warm",
    "ours-blind-warm",
)


def run_autoconfig(
    names: Sequence[str], *, quick: bool, seeds: tuple[int, ...] | None, work: Path, minutes: float | None, tell: Tell
) -> list[Finding]:
    """The findings of the named experiments; ``autoconfig`` stands for all that need no cluster."""
    wanted = AUTOCONFIG if "autoconfig" in names else list(dict.fromkeys(names))
    deadline = None if minutes is None else Deadline(minutes)
    found: list[Finding] = []
    if any(name != "autoconfig-noise" for name in wanted):
        study = QUICK if quick else AutoconfigStudy()
        study = study if seeds is None else study.model_copy(update={"seeds": seeds})
        runs = run_study(study, work, tell, deadline)
        made = {
            "autoconfig-fig4": figure_4_finding,
            "autoconfig-fig5": figure_5_finding,
            "autoconfig-fig6": figure_6_finding,
            "autoconfig-fig7": figure_7_finding,
        }
        setting = f"{_WHERE}; {study.steps} steps, {cluster_words(study)}; {len(runs)} optimisation passes"
        found += [make(runs, setting) for name, make in made.items() if name in wanted and runs]
    if "autoconfig-noise" in wanted:
        noise = QUICK_NOISE if quick else NoiseStudy()
        found.append(noise_finding(run_noise(noise, work, deadline, tell), noise))
    return found


def cluster_words(study: AutoconfigStudy) -> str:
    """How noisy measurements and readings are."""
    noise, readings = study.cluster.noise, study.cluster.reading_noise
    return f"{100 * noise:.0f} % noise in throughput and {100 * readings:.0f} % in readings"


def figure_4_finding(runs: Sequence[Run], setting: str) -> Finding:
    headings, rows = tables.figure_4(runs)
    settings, names = tables.settings_of(runs), [n for n in tables.contestants_of(runs) if n in _PICTURED]
    heights = {
        name: [_mean([np.mean(one.measured) / one.best_known for one in tables.better_passes(runs, where, name)])
               for where in settings]
        for name in names
    }  # fmt: skip
    bars = grouped_bars(
        [f"{size}\n{100 * i:.0f}/{100 * c:.0f}" for size, i, c in settings], heights, "share of the best known", 1.0
    )
    return Finding(
        "autoconfig-fig4", "Fig. 4: throughput of the best configuration, run 30 times", setting,
        "the last column; bars have no numbers in the text of the thesis",
        (Shown("Mean over graphs as a share of the best known (least to most of all runs)", headings, tuple(rows)),
         _shown("Order of the thesis' strategies", tables.order(runs))),
        (bars,), _checks([tables.best_everywhere(runs)]), {"runs": len(runs)},
    )  # fmt: skip


def figure_5_finding(runs: Sequence[Run], setting: str) -> Finding:
    headings, rows = tables.figure_5(runs)
    return Finding(
        "autoconfig-fig5", "Fig. 5: convergence", setting, _FIG_5,
        (Shown("Step of the best measurement; median first step at 95 % (reached)", headings, tuple(rows)),
         _shown("Steps to 95 %, mean over graphs (never: one more than there were)", tables.steps_table(runs))),
        (), _checks(tables.step_checks(runs)),
    )  # fmt: skip


def figure_6_finding(runs: Sequence[Run], setting: str) -> Finding:
    trends = tables.figure_6(runs, _PICTURED)
    panels: dict[str, dict[str, Sequence[float]]] = {}
    for size in dict.fromkeys(run.size for run in runs):
        of: dict[str, list[list[float]]] = {name.partition(",")[0]: [] for name in trends}
        for name, values in trends.items():
            if f", {size}," in name:
                of[name.partition(",")[0]].append(values)
        panels[f"measured / best known, {size}"] = {k: tables.mean_by_step(v) for k, v in of.items() if v}
    longest = max((len(values) for values in trends.values()), default=0)
    picture = curves(list(range(1, longest + 1)), panels, "step")
    return Finding(
        "autoconfig-fig6", "Fig. 6: trend of what the steps measured (LOESS, span 0.75)", setting, tables.THESIS_BO180,
        pictures=(picture,), figures={"trends": trends},
    )  # fmt: skip


def figure_7_finding(runs: Sequence[Run], setting: str) -> Finding:
    headings, rows = tables.figure_7(runs)
    return Finding(
        "autoconfig-fig7", "Fig. 7: CPU seconds to choose a configuration", setting,
        "Spearmint: 35, 90 and 173 s (bo), 36, 168 and 253 s (ibo)",
        (Shown("Mean over runs (largest mean of a run)", headings, tuple(rows)),), (),
        _checks(tables.second_checks(runs)),
    )  # fmt: skip


def noise_finding(runs: Sequence[NoiseRun], study: NoiseStudy) -> Finding:
    headings, rows = noise_table(runs)
    return Finding(
        "autoconfig-noise", "Noise: how far the choice is below the best of those tried",
        f"{_WHERE}, and plain functions; {study.steps} steps, {100 * study.cluster.noise:.0f} % noise in every "
        "measurement",
        "not in the thesis, which ran each configuration once per pass",
        (Shown("Relative loss of throughput", headings, tuple(rows)),), (), _checks(noise_checks(runs)),
    )  # fmt: skip


def _shown(title: str, table: tuple[tables.Row, list[tables.Row]]) -> Shown:
    return Shown(title, table[0], tuple(table[1]))


def _checks(records: Sequence[dict[str, Any]]) -> tuple[Check, ...]:
    return tuple(Check(one["target"], one["measured"], bool(one["met"])) for one in records)


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
