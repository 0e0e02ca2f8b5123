"""Replay: what a model would have advised for observations that it has not learnt from, against what they show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from streamtune.dataflow import Job, Observation, Run
from streamtune.readings.demand import edge_ratios, input_rates
from streamtune.readings.labels import BOTTLENECK
from streamtune.readings.metrics import hottest_busy_share
from streamtune.readings.online import label_observation
from streamtune.readings.selectivity import selectivity


@dataclass(frozen=True)
class Scores:
    """How good a model's first advice is; for each figure less is better.

    ``threshold_error`` is the median |ln(advised / needed)|, ``backpressure`` the share of operators that would have
    had too few instances, ``parallelism`` all instances advised over all needed.
    """

    threshold_error: float
    backpressure: float
    parallelism: float
    operators: int

    def record(self) -> dict[str, float | None]:
        return {
            "threshold_error": round(self.threshold_error, 4),
            "backpressure": round(self.backpressure, 4),
            "parallelism": round(self.parallelism, 4),
            "operators": float(self.operators),
        }

    def worse_than(self, other: Scores, tolerance: float) -> list[str]:
        """In which figures this is worse than another by more than a tolerance.

        >>> Scores(0.3, 0.01, 1.2, 50).worse_than(Scores(0.2, 0.01, 1.2, 50), 0.02)
        ['threshold error 0.300 against 0.200']
        """
        figures = (
            ("threshold error", self.threshold_error, other.threshold_error, other.threshold_error + tolerance),
            ("would-be backpressure", self.backpressure, other.backpressure, other.backpressure + tolerance),
            ("parallelism", self.parallelism, other.parallelism, other.parallelism * (1 + tolerance)),
        )
        return [f"{name} {mine:.3f} against {theirs:.3f}" for name, mine, theirs, most in figures if mine > most]


def needs_of(job: Job, seen: Observation) -> dict[str, int]:
    """How many instances each operator needed, by what was measured of it.

    What its instances were busy with, carried to the rate that was offered; a bottleneck needed more than it had.
    """
    metrics = seen.operators
    passed = {key: selectivity(one) for key, one in metrics.items()}
    demand = input_rates(job.dataflow, passed, dict(seen.source_rates), edge_ratios(seen))
    labels = label_observation(job.dataflow, seen)
    needs = {}
    for operator in job.dataflow.operators:
        one = metrics.get(operator.id)
        if one is None or operator.is_source or not one.is_complete or one.records_in_per_s <= 0:
            continue
        busy = hottest_busy_share(one)
        if not math.isfinite(busy) or busy <= 0:
            continue
        scale = max(1.0, demand[operator.id] / one.records_in_per_s)
        need = max(1, math.ceil(one.parallelism * min(1.0, busy) * scale - 0.05))
        if labels[operator.id] == BOTTLENECK:
            need = max(need, one.parallelism + 1)
        needs[operator.id] = min(need, job.limit_of(operator.id))
    return needs


def job_of(run: Run, max_parallelism: int) -> Job:
    return Job(run.job, run.dataflow, max(max_parallelism, *(one.parallelism for one in run.operators)))


def replay(model: Path | None, runs: Iterable[Run], *, max_parallelism: int = 100) -> Scores | None:
    """Scores of a bundle (None: of the tuner without a model) over runs; None where nothing could be compared."""
    errors: list[float] = []
    short = advised_total = needed_total = 0
    advisers: dict[tuple[object, ...], _Adviser] = {}
    bundle = _load(model)
    for run in runs:
        job = job_of(run, max_parallelism)
        shape = (run.job, tuple(job.dataflow.index), tuple(job.dataflow.edge_indices))
        adviser = advisers.get(shape)
        if adviser is None:
            adviser = advisers[shape] = _Adviser(bundle, job)
        seen = run.observation
        advised = adviser.advise(seen)
        for key, need in needs_of(job, seen).items():
            degree = advised.get(key)
            if degree is None:
                continue
            errors.append(abs(math.log(degree / need)))
            short += degree < need
            advised_total += degree
            needed_total += need
    if not errors:
        return None
    return Scores(median(errors), short / len(errors), advised_total / needed_total, len(errors))


def _load(model: Path | None) -> object | None:
    if model is None:
        return None
    from streamtune.models.bundle import ModelBundle

    return ModelBundle.load(model)


class _Adviser:
    """What the tuner says about a job of which it has seen nothing yet: the model's own contribution."""

    def __init__(self, bundle: object | None, job: Job) -> None:
        from streamtune.models.assigned import AssignedModel
        from streamtune.models.bundle import ModelBundle
        from streamtune.tuners.streamtune import StreamTune

        assigned = AssignedModel.of(bundle, job) if isinstance(bundle, ModelBundle) else None
        self._tuner = StreamTune(job, model=assigned)

    def advise(self, seen: Observation) -> Mapping[str, int]:
        return {key: verdict.degree for key, verdict in self._tuner.verdicts(seen).items() if verdict.told}
