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

from streamtune.autoconfig.budget import Budget
from streamtune.autoconfig.importance import importance
from streamtune.autoconfig.objective import Objective
from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.session import Outcome, Plan, run_session
from streamtune.autoconfig.space import Configuration, Space
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
    without_repeats: int = Field(
        default=10, ge=2, description="Runs of the best with one knob back at its default: which knob did it."
    )
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
    space = problem.space
    best: dict[str, Configuration] = {}
    steps: dict[str, list[float | None]] = {}
    weights: dict[str, dict[str, float]] = {}
    values: dict[str, float] = {}
    for name, knobs in settings.sets.items():
        begin = best.get(settings.after.get(name, ""), {})
        fixed = {key: value for key, value in {**space.defaults, **begin}.items() if key not in knobs}
        part = problem.model_copy(update={"space": space.subset(knobs)})
        plan = Plan(settings.strategy, settings.seed, Budget(steps=settings.steps))
        found: Outcome = run_session(part, plan, _Fixed(objective, fixed), work / name.replace(" ", "-"))
        steps[name] = [trial.value for trial in found.trials]
        weights[name] = importance(found.trials, part)
        values[name] = found.best.estimate if found.best else 0.0
        best[name] = space.active({**fixed, **(found.best.knobs if found.best else {})})
        tell(f"{name}: {found.best.value if found.best else 'nothing worked'}")
    top = max(values, key=lambda name: values[name])
    lesser = {f"{top}, {knob} at its default": knobs for knob, knobs in one_back(space, best[top]).items()}
    finals = {
        "defaults": space.active(space.defaults),
        "hand-tuned": space.repair({**space.defaults, **settings.hand_tuned}),
        **{name: space.repair({**space.defaults, **own}) for name, own in settings.beside.items()},
        **best,
        **lesser,
    }
    repeats = {name: settings.without_repeats if name in lesser else settings.repeats for name in finals}

    def throughput(number: int, knobs: Configuration) -> float:
        return final(knobs) if final else objective.measure(_FINAL_RUNS + number, 0, knobs).value or 0.0

    runs = _interleaved(throughput, finals, repeats, work / "finals.jsonl")
    tests = compare(runs, ["defaults", "hand-tuned", *settings.beside])
    between = [
        one
        for place, name in enumerate(best)
        for one in compare({other: runs[other] for other in list(best)[: place + 1]}, [name])
    ]
    dropped = compare({name: runs[name] for name in (*lesser, top)}, [top])
    return {
        "best": best, "top": top, "curves": steps, "importance": weights, "runs": runs, "thesis": THESIS,
        "tests": tests, "between": between, "which knob": dropped,
    }  # fmt: skip


def one_back(space: Space, knobs: Configuration) -> dict[str, Configuration]:
    """Knob → the same configuration with that knob at its default, for those that are not there already."""
    start = space.defaults
    changed = [name for name, value in knobs.items() if value != start[name]]
    found = {name: space.repair({**knobs, name: start[name]}) for name in changed}
    return {name: other for name, other in found.items() if other != knobs}


def _interleaved(
    throughput: Callable[[int, Configuration], float],
    finals: Mapping[str, Configuration],
    repeats: Mapping[str, int],
    path: Path,
) -> dict[str, list[float]]:
    """One run of each, again and again. A line that was written for other knobs under the same name does not count."""
    done = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    runs: dict[str, list[float]] = {name: [] for name in finals}
    for record in done:
        if record["name"] in finals and record.get("knobs") == finals[record["name"]]:
            runs[record["name"]].append(record["value"])
    number = len(done)
    for turn in range(max(repeats.values())):
        for name, knobs in finals.items():
            if len(runs[name]) > turn or turn >= repeats[name]:
                continue
            value = throughput(number, knobs)
            number += 1
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, "knobs": knobs, "value": value}) + "\n")
            runs[name].append(value)
    return {name: values[: repeats[name]] for name, values in runs.items()}


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
    top = found["top"]
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
        (Shown("Final runs: mean (least–most), ratio of means (p of Welch's two-sided t-test)", headings, rows),
         Shown("Between the sets (thesis: hints alone differ from both others, these do not differ)",
               ("set", "against", "ratio (p)", "differ"),
               tuple((one["configuration"], one["against"], _told(one), "yes" if one["significant"] else "no")
                     for one in found["between"])),
         Shown(f"Which knob did it: the best ({top}) with one knob back at its default",
               ("configuration", "against the best"),
               tuple((one["configuration"], _told(one)) for one in found["which knob"])),
         Shown("Importance of each knob in its search", ("set", "knobs"),
               tuple((name, ", ".join(f"{knob} {100 * share:.0f} %" for knob, share in weights.items()))
                     for name, weights in found["importance"].items()))),
        (picture,), _checks(top, tests, settings),
    )  # fmt: skip


def _checks(top: str, tests: Mapping[tuple[str, str], Mapping[str, Any]], settings: Figure8Study) -> tuple[Check, ...]:
    """Against the defaults, also with Spark's own batch size (no limit), and against hand-tuning."""
    checks = []
    for other, least in (("defaults", 2.8), *((name, 2.8) for name in settings.beside), ("hand-tuned", 1.0)):
        one = tests[top, other]
        checks.append(Check(f"best ({top}) ≥ {least:g} × {other}", _told(one), bool(one["ratio"] >= least)))
    one = tests[top, "hand-tuned"]
    worse = one["ratio"] < 1.0 and one["significant"]
    checks.append(Check(f"best ({top}) not significantly worse than hand-tuned", _told(one), not worse))
    return tuple(checks)


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
