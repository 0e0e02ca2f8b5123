"""Figures 4 to 7 of the thesis: strategies on layered topologies, run by run, resumable.

Every run is one line of ``runs.jsonl`` in the work folder: a run that is there is not done again, so that a study of
hours may be stopped at any time, and split by size over processes with a folder each. Topologies that are scored have
seeds from 7 on; everything that was chosen while the method was built was chosen on seeds from 100 on (0 and 1 were
looked at while the study itself was built, 2 to 6 belonged to versions that were changed afterwards).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from streamtune.autoconfig.budget import Budget
from streamtune.autoconfig.choice import choose
from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.report import Session
from streamtune.autoconfig.session import replay
from streamtune.autoconfig.similar import warm_starts
from streamtune.autoconfig.strategies import make_strategy
from streamtune.autoconfig.strategies.base import Strategy
from streamtune.autoconfig.trial import Suggestion, Trial
from streamtune.experiments.autoconfig.fluid import Bench, Cluster, FluidCluster, best_known, settled
from streamtune.frozen import Frozen
from streamtune.workloads.layered_topologies import TABLE_2, layered

Tell = Callable[[str], None]
NORMALISED = frozenset({"bo", "ibo", "bo180", "random", "tpe", "cma-es"})
"""Strategies that search the thesis' space, hints scaled down to a knob max-tasks; the others have a constraint."""

VARIANTS = {
    "ours": ("ours", True, False),
    "ours-blind": ("ours", False, False),
    "ours-warm": ("ours", True, True),
    "ours-blind-warm": ("ours", False, True),
}
"""Ours as contestants: name → (strategy, whether the job can be observed, whether a similar job is known)."""


class Deadline:
    """When to stop, on the wall clock."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60.0 * minutes

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end


class AutoconfigStudy(Frozen):
    """What is run."""

    sizes: tuple[str, ...] = Field(default=tuple(TABLE_2), description="Rows of Table 2.")
    imbalances: tuple[float, ...] = Field(default=(0.0, 1.0), description="Time imbalance.")
    contentions: tuple[float, ...] = Field(default=(0.0, 0.25), description="Share of contentious units.")
    contestants: tuple[str, ...] = Field(
        default=("pla", "ipla", "bo", "ibo", "ours", "ours-blind", "ours-warm"),
        description="The thesis' strategies, and ours also blind (no readings) and warm (similar jobs were tuned).",
    )
    steps: int = Field(default=60, ge=2, description="Optimisation steps; bo180 takes three times as many.")
    seeds: tuple[int, ...] = Field(default=(7, 8, 9, 10, 11), description="Graphs per setting.")
    passes: int = Field(default=2, ge=1, description="Optimisation passes; the better one is shown, as in the thesis.")
    repeats: int = Field(default=30, ge=1, description="Runs of the best configuration.")
    cluster: Cluster = Field(default_factory=Cluster)


class Run(Frozen):
    """One optimisation pass."""

    size: str
    imbalance: float
    contention: float
    contestant: str
    seed: int
    turn: int
    best_known: float = Field(description="Tuples/s that full knowledge finds.")
    chosen: float = Field(description="True tuples/s of the chosen configuration.")
    measured: tuple[float, ...] = Field(description="The chosen configuration, run 30 times.")
    first_best: int = Field(description="Step at which the best measurement was first made (Fig. 5).")
    to_95: int | None = Field(description="First step with a true value of 95 % of the best known.")
    regret: float = Field(description="How far the choice is below the truly best of those tried, relatively.")
    values: tuple[float, ...] = Field(description="What each step measured (Fig. 6).")
    seconds_per_step: float = Field(description="CPU seconds to choose a configuration (Fig. 7).")

    @property
    def key(self) -> tuple[object, ...]:
        return (self.size, self.imbalance, self.contention, self.contestant, self.seed, self.turn)


class _Timed(Strategy):
    """A strategy whose asking is timed in CPU seconds: other work on the machine does not count."""

    def __init__(self, inner: Strategy) -> None:
        self._inner = inner
        self.name = inner.name
        self.seconds = 0.0

    def ask(self, trials: Any) -> Suggestion | None:
        start = time.process_time()
        try:
            return self._inner.ask(trials)
        finally:
            self.seconds += time.process_time() - start


@cache
def _best_known(cluster: Cluster, size: str, seed: int, imbalance: float, contention: float) -> float:
    return best_known(FluidCluster(layered(size, seed=seed, imbalance=imbalance, contention=contention), cluster))[0]


def run_one(settings: AutoconfigStudy, key: tuple[str, float, float, str, int, int]) -> Run:
    """One contestant on one topology."""
    size, imbalance, contention, contestant, seed, turn = key
    fluid = FluidCluster(layered(size, seed=seed, imbalance=imbalance, contention=contention), settings.cluster)
    top = _best_known(settings.cluster, size, seed, imbalance, contention)
    name, observed, warm = VARIANTS.get(contestant, (contestant, False, False))
    problem = fluid.problem(normalised=name in NORMALISED, informed=name == "ibo")
    known = _similar(settings, problem, size, imbalance, contention, seed) if warm else []
    chooser = 1000 * seed + turn
    strategy = _Timed(make_strategy(name, problem, seed=chooser, warm=known))
    steps = 3 * settings.steps if name == "bo180" else settings.steps
    trials = replay(problem, strategy, Bench(fluid, chooser, observed), steps)
    return _scored(settings, fluid, problem, trials, key, top, strategy.seconds / len(trials))


def _scored(
    settings: AutoconfigStudy,
    fluid: FluidCluster,
    problem: Problem,
    trials: list[Trial],
    key: Any,
    top: float,
    cpu: float,
) -> Run:
    size, imbalance, contention, contestant, seed, turn = key
    true = [fluid.throughput(fluid.degrees(trial.knobs)) for trial in trials]
    values = [trial.value or 0.0 for trial in trials]
    best = choose(trials, problem)
    chosen = fluid.throughput(fluid.degrees(best.knobs)) if best else 0.0
    generator = np.random.default_rng([seed, turn, 30])
    again = chosen * (1.0 + settings.cluster.noise * generator.standard_normal(settings.repeats))
    return Run(
        size=size, imbalance=imbalance, contention=contention, contestant=contestant, seed=seed, turn=turn,
        best_known=top, chosen=chosen, measured=tuple(float(value) for value in np.maximum(again, 0.0)),
        first_best=int(np.argmax(values)) + 1, to_95=settled(true, 0.95, top),
        regret=1.0 - chosen / max(true) if max(true) > 0 else 0.0,
        values=tuple(values), seconds_per_step=cpu,
    )  # fmt: skip


def _similar(
    settings: AutoconfigStudy, problem: Problem, size: str, imbalance: float, contention: float, seed: int
) -> list[dict[str, Any]]:
    """What a few steps told on three other topologies of the same kind (seeds from 200 on), nearest first."""
    sessions = []
    for other in (200 + 3 * seed, 201 + 3 * seed, 202 + 3 * seed):
        fluid = FluidCluster(layered(size, seed=other, imbalance=imbalance, contention=contention), settings.cluster)
        old = fluid.problem(normalised=False)
        trials = replay(old, make_strategy("ours", old, seed=other), Bench(fluid, other, True), min(10, settings.steps))
        sessions.append(Session(old, "ours", other, Budget(steps=settings.steps), tuple(trials)))
    return warm_starts(problem, sessions)


def keys(settings: AutoconfigStudy) -> Iterator[tuple[str, float, float, str, int, int]]:
    """All runs, cheap sizes first, passes last: whatever is stopped early is still balanced."""
    for turn in range(settings.passes):
        for seed in settings.seeds:
            for size in settings.sizes:
                for imbalance in settings.imbalances:
                    for contention in settings.contentions:
                        for contestant in settings.contestants:
                            yield size, imbalance, contention, contestant, seed, turn


def run_study(
    settings: AutoconfigStudy, work: Path, tell: Tell = lambda _text: None, deadline: Deadline | None = None
) -> list[Run]:
    """Run what is missing in ``work/runs.jsonl`` and return the runs that were asked for, as far as there was time."""
    work.mkdir(parents=True, exist_ok=True)
    path = work / "runs.jsonl"
    done = {run.key: run for run in read_runs(path)}
    found = []
    for key in keys(settings):
        if key not in done:
            if deadline is not None and deadline.is_over:
                continue
            run = run_one(settings, key)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run.model_dump(mode="json")) + "\n")
            done[key] = run
            tell(f"{' '.join(str(part) for part in key)}: {100 * run.chosen / run.best_known:.0f} % of the best known")
        found.append(done[key])
    return found


def read_runs(path: Path) -> list[Run]:
    """Whole lines of a study's file; a torn last one is left out and its run done again."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return [Run.model_validate_json(line) for line in whole.splitlines()]
