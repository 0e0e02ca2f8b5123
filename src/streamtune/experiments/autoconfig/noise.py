"""The choice under noise: how far the chosen configuration is below the truly best of those that were tried.

Every measurement carries 10 % noise (relative standard deviation). A session ends with one configuration; the simulator
knows what each one that was tried is truly worth. Beside graphs there are plain functions (``functions``), as any
program is one. The rules of the choice (``autoconfig.choice``, ``autoconfig.neighbours``) and when ours measures again
were fixed on seeds from 100 on; scored are the seeds that are given, which begin at 7.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from streamtune.autoconfig.neighbours import conclude
from streamtune.autoconfig.session import replay
from streamtune.autoconfig.strategies import make_strategy
from streamtune.autoconfig.trial import Measurement, Suggestion, Trial
from streamtune.experiments.autoconfig.fluid import Bench, Cluster, FluidCluster
from streamtune.experiments.autoconfig.functions import FUNCTIONS
from streamtune.experiments.autoconfig.study import NORMALISED, VARIANTS, Deadline
from streamtune.experiments.autoconfig.tables import Row
from streamtune.frozen import Frozen
from streamtune.workloads.layered_topologies import layered

WITHIN = 0.05


class NoiseStudy(Frozen):
    """What is run: graphs per size, in every setting of imbalance and contention."""

    graphs: dict[str, int] = Field(default={"small": 25, "medium": 10, "large": 3}, description="Graphs per setting.")
    first_seed: int = Field(default=7, description="Of the graphs; seeds below were seen while the method was built.")
    contestants: tuple[str, ...] = ("ours", "ours-blind")
    functions: tuple[str, ...] = Field(default=tuple(FUNCTIONS), description="Plain functions, tuned by ours.")
    function_seeds: int = Field(default=12, ge=0, description="Sessions of each function.")
    imbalances: tuple[float, ...] = (0.0, 1.0)
    contentions: tuple[float, ...] = (0.0, 0.25)
    steps: int = Field(default=60, ge=2)
    cluster: Cluster = Field(default_factory=lambda: Cluster(noise=0.1))


class NoiseRun(Frozen):
    """One session."""

    size: str
    imbalance: float
    contention: float
    contestant: str
    seed: int
    regret: float = Field(description="How far the choice is below the truly best of those tried, relatively.")
    luckiest: float = Field(description="The same, had the largest measurement been taken.")
    overstated: float = Field(description="Largest measurement over what it is truly worth, minus 1.")

    @property
    def key(self) -> tuple[object, ...]:
        return (self.size, self.imbalance, self.contention, self.contestant, self.seed)


def run_session_at(study: NoiseStudy, key: tuple[str, float, float, str, int]) -> NoiseRun:
    """One session of one contestant on one graph or function."""
    if key[0] in FUNCTIONS:
        return _run_function(study, key)
    size, imbalance, contention, contestant, seed = key
    fluid = FluidCluster(layered(size, seed=seed, imbalance=imbalance, contention=contention), study.cluster)
    name, observed, _ = VARIANTS.get(contestant, (contestant, False, False))
    problem = fluid.problem(normalised=name in NORMALISED)
    trials = replay(problem, make_strategy(name, problem, seed=seed), Bench(fluid, 77 + seed, observed), study.steps)
    true = np.array([fluid.throughput(fluid.degrees(trial.knobs)) for trial in trials])
    values = np.array([trial.value or 0.0 for trial in trials])
    best, lucky = conclude(trials, problem), int(values.argmax())
    chosen = fluid.throughput(fluid.degrees(best.knobs)) if best else 0.0
    return NoiseRun(
        size=size, imbalance=imbalance, contention=contention, contestant=contestant, seed=seed,
        regret=float(1.0 - chosen / true.max()), luckiest=float(1.0 - true[lucky] / true.max()),
        overstated=float(values[lucky] / true[lucky] - 1.0),
    )  # fmt: skip


def _run_function(study: NoiseStudy, key: tuple[str, float, float, str, int]) -> NoiseRun:
    """One session of one function; regrets are those of its reciprocal where less is better."""
    name, _, _, contestant, seed = key
    function = FUNCTIONS[name]
    problem = function.problem
    value = function.true(problem, seed)

    def measure(number: int, suggestion: Suggestion) -> Trial:
        noise = study.cluster.noise * float(np.random.default_rng([77 + seed, number, 4243]).standard_normal())
        measured = Measurement(value=value(suggestion.knobs) * (1.0 + noise))
        return Trial(number=number, knobs=suggestion.knobs, why=suggestion.why, measurements=(measured,))

    trials = replay(problem, make_strategy(contestant, problem, seed=seed), measure, study.steps)
    power = 1.0 if problem.objective.maximise else -1.0
    true = np.array([value(trial.knobs) for trial in trials]) ** power
    values = np.array([trial.value or 0.0 for trial in trials]) ** power
    best, lucky = conclude(trials, problem), int(values.argmax())
    chosen = value(best.knobs) ** power if best else 0.0
    return NoiseRun(
        size=name, imbalance=0.0, contention=0.0, contestant=contestant, seed=seed,
        regret=float(1.0 - chosen / true.max()), luckiest=float(1.0 - true[lucky] / true.max()),
        overstated=float(values[lucky] / true[lucky] - 1.0),
    )  # fmt: skip


def keys(study: NoiseStudy) -> Iterator[tuple[str, float, float, str, int]]:
    """All sessions; functions and cheap sizes first."""
    for seed in range(study.first_seed, study.first_seed + study.function_seeds):
        for name in study.functions:
            yield name, 0.0, 0.0, "ours", seed
    for size, count in study.graphs.items():
        for seed in range(study.first_seed, study.first_seed + count):
            for imbalance in study.imbalances:
                for contention in study.contentions:
                    for contestant in study.contestants:
                        yield size, imbalance, contention, contestant, seed


def run_noise(
    study: NoiseStudy,
    work: Path,
    deadline: Deadline | None = None,
    tell: Callable[[str], None] = lambda _text: None,
) -> list[NoiseRun]:
    """Run what is missing in ``work/noise.jsonl``; returns the sessions that are there."""
    work.mkdir(parents=True, exist_ok=True)
    path = work / "noise.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    done = {run.key: run for run in map(NoiseRun.model_validate_json, whole.splitlines())}
    for key in keys(study):
        if key in done:
            continue
        if deadline is not None and deadline.is_over:
            tell("noise: the minutes are up; the next run goes on")
            break
        done[key] = run_session_at(study, key)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done[key].model_dump(mode="json")) + "\n")
    return [done[key] for key in keys(study) if key in done]


def noise_table(runs: Sequence[NoiseRun]) -> tuple[Row, list[Row]]:
    """Per contestant and size: sessions, share within 5 %, mean, 95th percentile and largest regret, and by luck."""
    rows: list[Row] = []
    for contestant, size in dict.fromkeys((run.contestant, run.size) for run in runs):
        of = [run for run in runs if (run.contestant, run.size) == (contestant, size)]
        regrets, lucky = np.array([run.regret for run in of]), np.array([run.luckiest for run in of])
        rows.append(
            (
                f"{contestant}, {size}",
                f"{len(of)}",
                f"{100 * np.mean(regrets <= WITHIN):.1f} %",
                f"{100 * regrets.mean():.1f} %",
                f"{100 * np.quantile(regrets, 0.95):.1f} %",
                f"{100 * regrets.max():.1f} %",
                f"{100 * np.mean(lucky <= WITHIN):.1f} %",
                f"{100 * np.mean([run.overstated for run in of]):.1f} %",
            )
        )
    headings = (
        "",
        "sessions",
        "within 5 %",
        "mean",
        "95 % below",
        "largest",
        "by luck within 5 %",
        "luck overstates by",
    )
    return headings, rows


def noise_checks(runs: Sequence[NoiseRun]) -> list[dict[str, object]]:
    """The target over all sessions, apart for who could observe the job, who could not, and for plain functions."""
    found: list[dict[str, object]] = []
    target = "the choice is within 5 % of the best tried, in 95 % of the sessions"
    groups: dict[str, list[float]] = {}
    for run in runs:
        where = ", plain functions" if run.size in FUNCTIONS else ""
        groups.setdefault(f"{run.contestant}{where}", []).append(run.regret)
    for who, several in groups.items():
        regrets = np.array(several)
        share = float(np.mean(regrets <= WITHIN))
        found.append(
            {
                "target": f"10 % noise, {who}: {target}",
                "measured": f"{100 * share:.1f} % of {len(regrets)} sessions, mean {100 * regrets.mean():.1f} %, "
                f"largest {100 * regrets.max():.1f} %",
                "met": share >= 0.95,
            }
        )
    return found
