"""How the rivals do on the simulator, at the default measurement error and without (about three minutes).

    python benchmarks/rivals.py

Every tuner runs the ten-rate cycle of Section V-A of the StreamTune paper twice over, on the paper's eight workloads,
for three seeds. A seed draws the noise of the simulation and the biases of measured busy time. The second cycle shows
what a tuner with a memory has gained from the first. Without measurement error and without key skew, DS2's assumptions
hold but for the scaling curve: there it must be near the oracle, or the harness handicaps it.

Prints tables, writes ``benchmarks/results/rivals.json``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from rich.console import Console
from rich.table import Table

from streamtune.benchmark.tuning import Change, tune_on_simulator
from streamtune.controller import Guards
from streamtune.dataflow import Job, ParallelismPlan, Run
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.simulator import SimulatorSettings, find_oracle, simulate_once
from streamtune.engines.simulator.settings import MeasurementError
from streamtune.labels import label_observation
from streamtune.tuners import (
    DS2,
    CalibratedDS2,
    ContTune,
    ContTuneSettings,
    Dhalion,
    DhalionSettings,
    FlinkAutoscaler,
    FlinkAutoscalerSettings,
    Greedy,
    Tuner,
)
from streamtune.tuners.calibration import calibration_of_runs
from streamtune.workloads import catalogue, rates
from streamtune.workloads.workload import Workload

ROOT = Path(__file__).parents[1]
WORKLOADS = (
    "nexmark-q1",
    "nexmark-q2",
    "nexmark-q3",
    "nexmark-q5",
    "nexmark-q8",
    "pqp-linear-0",
    "pqp-2way-0",
    "pqp-3way-0",
)
SEEDS = (0, 1, 2)
CYCLES = 2
HISTORY_JOBS, RUNS_PER_JOB = 60, 5
BOUND, WIDE_BOUND = Guards().max_reconfigurations, 1000
SCOPE = (
    f"{len(WORKLOADS)} workloads, {len(WORKLOADS) * len(rates.cycle())} changes per cycle and seed, "
    f"mean ± spread over {len(SEEDS)} seeds"
)
MakeTuner = Callable[[Job], Tuner]
console = Console(width=120)


@dataclass(frozen=True)
class Rival:
    """A row of the table: a tuner, its settings, and the bound on reconfigurations per change it runs under."""

    label: str
    make: Callable[[Mapping[str, float]], MakeTuner]
    bound: int = BOUND


def _autoscaler(job: Job) -> Tuner:
    """Each rate is one tuning process here, so a scale-down must not wait for an hour."""
    return FlinkAutoscaler(job, FlinkAutoscalerSettings(scale_down_interval_s=0))


RIVALS = (
    Rival("ds2", lambda _: DS2),
    Rival("ds2 + 10 % headroom", lambda _: CalibratedDS2),
    Rival("ds2-calibrated", lambda factors: lambda job: CalibratedDS2(job, factors)),
    Rival("conttune", lambda _: ContTune),
    Rival("conttune, lower limit 60 %", lambda _: lambda job: ContTune(job, ContTuneSettings(lower_limit=0.6))),
    Rival("flink-autoscaler, interval 0", lambda _: _autoscaler),
    Rival("flink-autoscaler, as published", lambda _: FlinkAutoscaler),
    Rival("dhalion", lambda _: Dhalion),
    Rival("dhalion, bound 1,000", lambda _: Dhalion, WIDE_BOUND),
    Rival(
        "dhalion, literal time, bound 1,000",
        lambda _: lambda job: Dhalion(job, DhalionSettings(suspension="backpressured_time")),
        WIDE_BOUND,
    ),
    Rival("greedy", lambda _: Greedy),
    Rival("greedy, bound 1,000", lambda _: Greedy, WIDE_BOUND),
)


@dataclass(frozen=True)
class Scenario:
    """What a table is about: whether busy time is measured with its default error, and whether keys are skewed."""

    key: str
    title: str
    with_error: bool
    with_skew: bool = True

    def settings(self, seed: int) -> SimulatorSettings:
        return SimulatorSettings(error=MeasurementError(seed=seed) if self.with_error else MeasurementError.none())

    def load(self, name: str) -> Workload:
        workload = catalogue.load(name)
        if self.with_skew:
            return workload
        even = {key: physics.model_copy(update={"skew": 0.0}) for key, physics in workload.physics.items()}
        return replace(workload, spec=JobSpec(workload.spec.job, even))


SCENARIOS = (
    Scenario("default_error", "default measurement error", with_error=True),
    Scenario("zero_error", "measurement error zero", with_error=False),
    Scenario("zero_error_no_skew", "measurement error zero, no key skew", with_error=False, with_skew=False),
)


@dataclass(frozen=True)
class Score:
    """One seed over all workloads: the changes of one cycle. The last leaves out sources, which nobody may change."""

    reconfigurations_per_change: float
    ended_with_backpressure: float
    over_oracle: float
    over_oracle_without_sources: float


@dataclass(frozen=True)
class Judged:
    """A change, the oracle's total at its rate, and how many instances are the sources'."""

    change: Change
    oracle: int
    sources: int


def source_plan(job: Job) -> dict[str, int]:
    return {source.id: job.initial_plan[source.id] for source in job.dataflow.sources}


@cache
def oracle_total(scenario: Scenario, name: str, multiple: int) -> int:
    workload = scenario.load(name)
    job = workload.spec.job
    return find_oracle(job, workload.physics, workload.rates_at(multiple), fixed=source_plan(job)).total


def history(settings: SimulatorSettings, seed: int) -> Iterator[tuple[Run, dict[str, int]]]:
    """Labelled runs of random jobs, none of which is among the workloads, under random plans."""
    random = np.random.default_rng([seed, 1])
    for number in range(HISTORY_JOBS):
        workload = catalogue.load(f"random-{number}")
        job = workload.spec.job
        for run in range(RUNS_PER_JOB):
            degrees = {
                operator.id: job.initial_plan[operator.id] if operator.is_source else int(random.integers(1, 41))
                for operator in job.dataflow.operators
            }
            offered = workload.rates_at(int(random.integers(1, 11)))
            seen = simulate_once(
                job, workload.physics, ParallelismPlan(degrees), offered, settings=settings, seed=1000 * seed + run
            )
            yield Run.of(f"{job.name}-{run}", job, "simulator", seen), label_observation(job.dataflow, seen)


def run(rival: Rival, scenario: Scenario, seed: int, factors: Mapping[str, float]) -> list[Score]:
    """One score per cycle."""
    multiples = rates.cycle() * CYCLES
    found: list[list[Judged]] = [[] for _ in range(CYCLES)]
    for name in WORKLOADS:
        workload = scenario.load(name)
        story = tune_on_simulator(
            workload.spec,
            rival.make(factors),
            [workload.rates_at(multiple) for multiple in multiples],
            seed=seed,
            settings=scenario.settings(seed),
            guards=Guards(max_reconfigurations=rival.bound),
            with_oracle=False,
        )
        sources = sum(source_plan(workload.spec.job).values())
        for position, (change, multiple) in enumerate(zip(story.changes, multiples, strict=True)):
            judged = Judged(change, oracle_total(scenario, name, multiple), sources)
            found[position // len(rates.cycle())].append(judged)
    return [_score(part) for part in found]


def _score(judged: list[Judged]) -> Score:
    total, best, sources = (
        sum(one.change.total_parallelism for one in judged),
        sum(one.oracle for one in judged),
        sum(one.sources for one in judged),
    )
    return Score(
        mean(one.change.reconfigurations for one in judged),
        mean(one.change.backpressure for one in judged),
        total / best,
        (total - sources) / (best - sources),
    )


def _shown(values: list[float], pattern: str) -> str:
    return f"{mean(values):{pattern}} ± {stdev(values):{pattern}}"


def compare(scenario: Scenario) -> dict[str, object]:
    calibrations = {seed: calibration_of_runs(history(scenario.settings(seed), seed)) for seed in SEEDS}
    table = Table(title=f"{scenario.title}: {SCOPE}")
    for heading in ("tuner", "cycle", "restarts / change", "backpressure left", "total / oracle", "without sources"):
        table.add_column(heading, justify="left" if heading == "tuner" else "right")
    result: dict[str, object] = {"calibration": calibrations}
    for rival in RIVALS:
        start = time.perf_counter()
        runs = {seed: run(rival, scenario, seed, calibrations[seed]) for seed in SEEDS}
        for cycle in range(CYCLES):
            scores = [runs[seed][cycle] for seed in SEEDS]
            table.add_row(
                rival.label if cycle == 0 else "",
                str(cycle + 1),
                _shown([score.reconfigurations_per_change for score in scores], ".2f"),
                _shown([score.ended_with_backpressure for score in scores], ".1%"),
                _shown([score.over_oracle for score in scores], ".3f"),
                _shown([score.over_oracle_without_sources for score in scores], ".3f"),
            )
        result[rival.label] = {
            "bound": rival.bound,
            "by_seed": {seed: [asdict(score) for score in scores] for seed, scores in runs.items()},
        }
        console.print(f"{scenario.key}, {rival.label}: {time.perf_counter() - start:.0f} s", style="dim")
    console.print(table)
    return result


def main() -> None:
    results = {"scope": SCOPE, **{scenario.key: compare(scenario) for scenario in SCENARIOS}}
    target = ROOT / "benchmarks" / "results" / "rivals.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(results, indent=2) + "\n")
    console.print(f"written: {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
