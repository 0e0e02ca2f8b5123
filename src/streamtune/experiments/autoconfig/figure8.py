"""Fig. 8 of the thesis on a real target: parallelism alone, with batch knobs, and batch and concurrency knobs alone.

Three searches of 60 steps over parts of one space, the other knobs at given values; then the best of each, the defaults
and a hand-tuned configuration are run 30 times, interleaved (one of each, thirty times over: the machine's drift hits
all alike), and compared by two-sided t-tests (Welch). Thesis: hints alone 611 k tuples/s (pla), 660 k (bo), 699 k
(bo180), not significantly different; with batch size and batch parallelism 1.68 M, 2.8 ×; batch and concurrency alone
with hints at pla's best 1.63 M, not significantly different from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from streamtune.autoconfig.objective import Objective
from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.session import Budget, Outcome, Plan, run_session
from streamtune.autoconfig.space import Configuration
from streamtune.autoconfig.trial import Measurement
from streamtune.experiments.paper.findings import Check, Finding, Shown, curves
from streamtune.frozen import Frozen

THESIS = {
    "h (pla)": 611_000, "h (bo)": 660_000, "h (bo180)": 699_000,
    "h bs bp (bo)": 1_680_000, "h bs bp (bo180)": 1_580_000, "bs bp cc (bo)": 1_630_000,
}  # fmt: skip
"""Tuples per second of the thesis' best configurations, 30 runs each."""

SIGNIFICANCE = 0.05
_FINAL_RUNS = 1_000_000


class Figure8Study(Frozen):
    """What is searched; ``sets`` name knobs, all others stay at ``fixed`` or at their defaults."""

    sets: dict[str, tuple[str, ...]] = Field(
        default={
            "h": ("shuffle_partitions",),
            "h bs bp": ("shuffle_partitions", "files_per_batch", "partition_mb"),
            "bs bp cc": ("files_per_batch", "partition_mb", "state_store", "changelog", "codegen", "retained_batches"),
        },
        description="Name → knobs: hints, with batch knobs, batch and concurrency knobs alone.",
    )
    after: dict[str, str] = Field(
        default={"bs bp cc": "h"},
        description="A set that begins with the best of another, as the thesis did with pla's 11.",
    )
    hand_tuned: dict[str, Any] = Field(
        default={"shuffle_partitions": 2, "files_per_batch": 8}, description="What an expert would set; others default."
    )
    beside: dict[str, dict[str, Any]] = Field(
        default={"defaults, no batch limit": {"files_per_batch": 64}},
        description="Further configurations that are run with the best ones; others default.",
    )
    strategy: str = "ours"
    steps: int = Field(default=60, ge=1)
    repeats: int = Field(default=30, ge=2, description="Runs of each final configuration.")
    seed: int = 0


@dataclass(frozen=True)
class _Fixed:
    """An objective over a part of the knobs: the others are put beside them."""

    inner: Objective
    fixed: Configuration

    def measure(self, number: int, repeat: int, knobs: Configuration) -> Measurement:
        return self.inner.measure(number, repeat, {**self.fixed, **knobs})

    def restore(self, knobs: Configuration) -> None:
        self.inner.restore({**self.fixed, **knobs})


def run_figure_8(
    problem: Problem,
    objective: Objective,
    work: Path,
    settings: Figure8Study | None = None,
    tell: Callable[[str], None] = lambda _text: None,
    final: Callable[[Configuration], float] | None = None,
) -> dict[str, Any]:
    """Search, run the best again, compare; resumable, since every search is a session in ``work``.

    :param final: throughput of a final run; by default what the objective measures. The defaults are among the final
        configurations, so that these runs need no baseline beside them.
    """
    settings = settings or Figure8Study()
    best: dict[str, Configuration] = {}
    steps: dict[str, list[float | None]] = {}
    for name, knobs in settings.sets.items():
        begin = best.get(settings.after.get(name, ""), {})
        fixed = {key: value for key, value in {**problem.space.defaults, **begin}.items() if key not in knobs}
        part = problem.model_copy(update={"space": problem.space.subset(knobs)})
        plan = Plan(settings.strategy, settings.seed, Budget(steps=settings.steps))
        found: Outcome = run_session(part, plan, _Fixed(objective, fixed), work / name.replace(" ", "-"))
        steps[name] = [trial.value for trial in found.trials]
        best[name] = problem.space.active({**fixed, **(found.best.knobs if found.best else {})})
        tell(f"{name}: {found.best.value if found.best else 'nothing worked'}")
    finals = {
        "defaults": problem.space.active(problem.space.defaults),
        "hand-tuned": problem.space.repair({**problem.space.defaults, **settings.hand_tuned}),
        **{name: problem.space.repair({**problem.space.defaults, **own}) for name, own in settings.beside.items()},
        **best,
    }

    def throughput(number: int, knobs: Configuration) -> float:
        return final(knobs) if final else objective.measure(_FINAL_RUNS + number, 0, knobs).value or 0.0

    runs = _interleaved(throughput, finals, settings.repeats, work / "finals.jsonl")
    tests = compare(runs, ["defaults", "hand-tuned", *settings.beside])
    return {"best": best, "curves": steps, "runs": runs, "tests": tests, "thesis": THESIS}


def _interleaved(
    throughput: Callable[[int, Configuration], float], finals: Mapping[str, Configuration], repeats: int, path: Path
) -> dict[str, list[float]]:
    done = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    runs: dict[str, list[float]] = {name: [] for name in finals}
    for record in done:
        runs[record["name"]].append(record["value"])
    for turn in range(repeats):
        for name, knobs in finals.items():
            if len(runs[name]) > turn:
                continue
            value = throughput(sum(len(values) for values in runs.values()), knobs)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, "value": value}) + "\n")
            runs[name].append(value)
    return runs


def figure_8_finding(found: Mapping[str, Any], settings: Figure8Study) -> Finding:
    """The comparison as a page shows it: our ratios beside the thesis' tuples per second."""
    runs: Mapping[str, Sequence[float]] = found["runs"]
    tests = {(one["configuration"], one["against"]): one for one in found["tests"]}
    against = ["defaults", "hand-tuned", *settings.beside]
    rows = tuple(
        (
            name,
            f"{np.mean(values):,.4g} ({min(values):,.4g}–{max(values):,.4g})",
            *(_told(tests.get((name, other))) for other in against),
            ", ".join(f"{key} = {value}" for key, value in found["best"].get(name, {}).items()),
            "; ".join(f"{key} {value / 1000:,.0f} k/s" for key, value in THESIS.items() if key.startswith(f"{name} (")),
        )
        for name, values in runs.items()
    )
    headings = ("configuration", "throughput", *(f"against {name}" for name in against), "knobs", "thesis")
    searched = [name for name in settings.sets if name in runs]
    top = max(searched, key=lambda name: float(np.mean(runs[name])))
    checks = []
    for other, least in (("defaults", 2.8), ("hand-tuned", 1.0)):
        one = tests[top, other]
        checks.append(Check(f"best ({top}) ≥ {least:g} × {other}", _told(one), bool(one["ratio"] >= least)))
    length = max((len(curve) for curve in found["curves"].values()), default=0)
    picture = curves(
        list(range(1, length + 1)),
        {"throughput / baseline": {name: [v or 0.0 for v in curve] for name, curve in found["curves"].items()}},
        "step",
    )
    return Finding(
        "autoconfig-fig8", "Fig. 8: a real Spark target",
        f"{settings.steps} steps of {settings.strategy} per set of knobs, then {settings.repeats} interleaved runs",
        "hints alone 611 k/s (pla), with batch size and batch parallelism 1.68 M/s: 2.8 ×; batch and concurrency knobs "
        "alone 1.63 M/s",
        (Shown("Final runs: mean (least–most), ratio of means (p of Welch's t-test)", headings, rows),),
        (picture,), tuple(checks),
    )  # fmt: skip


def _told(test: Mapping[str, Any] | None) -> str:
    return "–" if test is None else f"{test['ratio']:.2f} × (p {test['p']:.1g})"


def compare(
    runs: Mapping[str, Sequence[float]], against: Sequence[str] = ("defaults", "hand-tuned")
) -> list[dict[str, Any]]:
    """Ratio of means and two-sided Welch t-test of every configuration against the defaults and the hand-tuned one.

    >>> compare({"defaults": [1.0, 1.1, 0.9], "x": [3.0, 3.3, 2.7]}, ["defaults"])[0]["ratio"]
    3.0
    """
    from scipy.stats import ttest_ind

    found = []
    for name, values in runs.items():
        for other in against:
            if name == other or other not in runs:
                continue
            test = ttest_ind(values, runs[other], equal_var=False)
            found.append(
                {
                    "configuration": name,
                    "against": other,
                    "ratio": round(float(np.mean(values) / np.mean(runs[other])), 4),
                    "least": min(values),
                    "most": max(values),
                    "p": float(test.pvalue),
                    "significant": bool(test.pvalue < SIGNIFICANCE),
                }
            )
    return found
