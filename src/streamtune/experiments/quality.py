"""Decision quality as a regression test: sixty fixed cases, each a job under a fault, and how they were decided.

Twelve queries of the catalogue and 48 random jobs are tuned through three rates each. In turn their readings are good,
lack busy shares, err by 20 %, or are labels alone; or the code of the busiest operator becomes twice as slow between
two rates, which what was learnt before must not hide. ``compare`` says what got worse than a stored result by more
than its own spread over seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import mean, stdev

from streamtune.control.story import Change
from streamtune.dataflow import Job
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.simulator import SimulatorSettings
from streamtune.engines.simulator.settings import MeasurementError
from streamtune.experiments.paper.poor_readings import QUALITIES, Quality, ShownTuner
from streamtune.frozen import Frozen
from streamtune.labs.simulator import tune_on_simulator
from streamtune.tuners import StreamTune, StreamTuneSettings, Tuner
from streamtune.workloads import Workload, load, random_job

SLOWER = "code twice as slow"
FAULTS = (*(quality.label for quality in QUALITIES), SLOWER)
RANDOM_JOBS = 48
MULTIPLES = (3.0, 9.0, 5.0)
SEEDS = (0, 1, 2)
# A difference below this is no worsening, whatever the spread over seeds: one change in twenty, one per cent.
_LEAST_MARGINS = {"reconfigurations": 0.05, "backpressure": 0.0, "over_oracle": 0.01}
_CATALOGUE = (
    *(f"nexmark-q{number}" for number in (1, 2, 3, 5, 8)),
    *(f"pqp-linear-{number}" for number in (0, 3)),
    *(f"pqp-2way-{number}" for number in (0, 5)),
    *(f"pqp-3way-{number}" for number in (0, 5, 9)),
)


@dataclass(frozen=True)
class Case:
    """One job under one fault."""

    workload: Workload
    fault: str

    @property
    def quality(self) -> Quality:
        return next((one for one in QUALITIES if one.label == self.fault), QUALITIES[0])


class Scores(Frozen):
    """Means over the changes of rates of some cases; ``over_oracle`` is total parallelism over the oracle's."""

    reconfigurations: float
    backpressure: float
    over_oracle: float


class Stored(Frozen):
    """A result to compare with: by fault, the scores and how far they lie apart over seeds."""

    scores: Mapping[str, Scores]
    spreads: Mapping[str, Scores]


def cases() -> Iterator[Case]:
    """The sixty cases, always the same."""
    jobs = [*(load(name) for name in _CATALOGUE), *(random_job(7_000 + number, 12) for number in range(RANDOM_JOBS))]
    for number, workload in enumerate(jobs):
        yield Case(workload, FAULTS[number % len(FAULTS)])


def play(case: Case, seed: int) -> list[Change]:
    """Tune one case through its rates."""
    error = MeasurementError(bias_sigma=case.quality.error)
    settings = SimulatorSettings(error=error)
    rates = [case.workload.rates_at(multiple) for multiple in MULTIPLES]
    spec = case.workload.spec

    @cache
    def tuner(job: Job) -> Tuner:
        chosen = StreamTuneSettings(use_busy=case.quality.use_busy, use_encoder=False)
        return ShownTuner(StreamTune(job, chosen), case.quality.show)

    if case.fault != SLOWER:
        return list(tune_on_simulator(spec, tuner, rates, seed=seed, settings=settings).changes)
    before = tune_on_simulator(spec, tuner, rates[:1], seed=seed, settings=settings)
    after = tune_on_simulator(slower(spec), tuner, rates[1:], seed=seed + 1, settings=settings)
    return [*before.changes, *after.changes]


def slower(spec: JobSpec, factor: float = 2.0) -> JobSpec:
    """The same job after a release that made its heaviest operator take ``factor`` times as long."""
    physics = dict(spec.physics or {})
    heaviest = max(
        (key for key in physics if key not in spec.job.source_rates), key=lambda key: physics[key].service_us
    )
    truth = physics[heaviest]
    physics[heaviest] = truth.model_copy(update={"service_us": truth.service_us * factor})
    return replace(spec, physics=physics)


def scores_of(changes: Sequence[Change]) -> Scores:
    best = sum(change.oracle_total or 0 for change in changes)
    return Scores(
        reconfigurations=mean(change.reconfigurations for change in changes),
        backpressure=mean(change.backpressure for change in changes),
        over_oracle=sum(change.total_parallelism for change in changes) / best,
    )


def measure(seed: int) -> dict[str, Scores]:
    """The scores of every fault under one seed."""
    found: dict[str, list[Change]] = {fault: [] for fault in FAULTS}
    for case in cases():
        found[case.fault] += play(case, seed)
    return {fault: scores_of(changes) for fault, changes in found.items()}


def store(measured: Sequence[Mapping[str, Scores]]) -> Stored:
    """What later releases are compared with; the first seed's scores, and the spread over all."""
    spreads = {
        fault: Scores(**{name: stdev([getattr(one[fault], name) for one in measured]) for name in Scores.model_fields})
        for fault in FAULTS
    }
    return Stored(scores=dict(measured[0]), spreads=spreads)


def compare(now: Mapping[str, Scores], before: Stored) -> list[str]:
    """What is worse than before by more than twice the spread over seeds, in words; empty: nothing."""
    worse = []
    for fault, old in before.scores.items():
        for name, least in _LEAST_MARGINS.items():
            was, found = getattr(old, name), getattr(now[fault], name)
            margin = max(least, 2 * getattr(before.spreads[fault], name))
            if found > was + margin + 1e-9:
                worse.append(f"{fault}: {name} was {was:.3f} (± {margin:.3f}) and is {found:.3f}")
    return worse
