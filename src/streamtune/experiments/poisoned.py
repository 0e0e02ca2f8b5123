"""What a poisoned history can do: a tenth of the runs lie, and plans are compared with those of the honest history.

Somebody who can write a tenth of the records wants jobs to be too small: every lie says that operators are ten times as
fast as they are. Or to be dear: ten times as slow. The lies are in runs of any job, or in all runs of the jobs that are
attacked (as far as a tenth goes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from streamtune.control.controller import Controller, Outcome
from streamtune.dataflow import Run
from streamtune.engines.simulator import Simulator
from streamtune.experiments.coldstart.light import LightModel
from streamtune.labs.histories import run_of
from streamtune.labs.settings import GenerateSettings
from streamtune.models.transfer.fitting import fit_transfer
from streamtune.models.transfer.model import TransferModel
from streamtune.training.sums import past_of_runs
from streamtune.tuners import StreamTune, StreamTuneSettings
from streamtune.workloads import Workload, load

LIE = 10.0
SHARE = 0.1
ATTACKED = ("nexmark-q5", "nexmark-q8", "pqp-2way-0", "pqp-3way-0")
MULTIPLES = (2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Effect:
    """One job at one rate: first plan's total, and how tuning ended, with the honest and the poisoned history."""

    job: str
    multiple: float
    honest_first: int
    poisoned_first: int
    honest: Outcome
    poisoned: Outcome


def lying(run: Run, factor: float = LIE) -> Run:
    """The same run, had every operator taken ``factor`` times as many records in the same busy time."""
    operators = tuple(
        one.model_copy(
            update={
                "records_in_per_s": one.records_in_per_s * factor,
                "records_out_per_s": one.records_out_per_s * factor,
            }
        )
        for one in run.operators
    )
    rates = {source: rate * factor for source, rate in run.source_rates.items()}
    edges = tuple(
        edge.model_copy(update={"records_per_s": edge.records_per_s and edge.records_per_s * factor})
        for edge in run.edges
    )
    return run.model_copy(update={"operators": operators, "source_rates": rates, "edges": edges})


def poisoned(runs: Sequence[Run], seed: int, *, only: Sequence[str] = (), factor: float = LIE) -> list[Run]:
    """A tenth of the runs lie; with ``only``, those of these jobs first."""
    order = np.random.default_rng(seed).permutation(len(runs))
    if only:
        order = np.array(sorted(order, key=lambda place: runs[place].job not in only))
    chosen = set(order[: round(SHARE * len(runs))].tolist())
    return [lying(run, factor) if place in chosen else run for place, run in enumerate(runs)]


def history(runs: int, seed: int) -> list[Run]:
    settings = GenerateSettings(runs=runs, random_jobs=40, seed=seed)
    return [run_of(number, settings) for number in range(runs)]


def learnt(runs: Sequence[Run]) -> TransferModel:
    past = past_of_runs(runs)
    return TransferModel(fit_transfer(past), past)


def effects(honest: Sequence[Run], lies: Sequence[Run], seed: int) -> list[Effect]:
    before, after = learnt(honest), learnt(lies)
    return [_effect(load(name), multiple, before, after, seed) for name in ATTACKED for multiple in MULTIPLES]


def _effect(workload: Workload, multiple: float, before: TransferModel, after: TransferModel, seed: int) -> Effect:
    job, rates = workload.spec.job, workload.rates_at(multiple)

    def with_model(model: TransferModel) -> tuple[int, Outcome]:
        def tuner() -> StreamTune:
            return StreamTune(job, StreamTuneSettings(use_encoder=False), model=LightModel(model, job))

        first = tuner().first_plan(rates)
        engine = Simulator.of(workload.spec, seed=seed)
        deployment = engine.deploy(job, job.initial_plan)
        engine.set_source_rates(deployment, rates)
        return sum(first.degrees.values()) if first else 0, Controller(engine, tuner()).tune(deployment)

    (honest_first, honest), (poisoned_first, misled) = with_model(before), with_model(after)
    return Effect(workload.name, multiple, honest_first, poisoned_first, honest, misled)


def summary(found: Sequence[Effect]) -> str:
    moved = [one.poisoned_first / one.honest_first for one in found]
    worse = sum(one.poisoned.backpressure for one in found)
    more = max(one.poisoned.reconfigurations - one.honest.reconfigurations for one in found)
    totals = [one.poisoned.deployment.plan.total / one.honest.deployment.plan.total for one in found]
    return (
        f"first plans × {min(moved):.2f} to {max(moved):.2f} (median {median(moved):.2f}); after tuning {worse} of "
        f"{len(found)} with backpressure, at most {more} restarts more, plans × {min(totals):.2f} to {max(totals):.2f}"
    )


ATTACKS: dict[str, Callable[[Sequence[Run], int], list[Run]]] = {
    "a tenth of all runs lie": poisoned,
    "all lies are about the attacked jobs": lambda runs, seed: poisoned(runs, seed, only=ATTACKED),
    "a tenth of all runs lie, ten times as slow": lambda runs, seed: poisoned(runs, seed, factor=1 / LIE),
    "all lies are about the attacked jobs, ten times as slow": lambda runs, seed: poisoned(
        runs, seed, only=ATTACKED, factor=1 / LIE
    ),
}
