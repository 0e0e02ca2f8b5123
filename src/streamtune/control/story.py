"""One tuning story: a job, a tuner, a sequence of rates, and everything that happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from streamtune.control.controller import Moment, Outcome, StopReason
from streamtune.dataflow import Job, Observation, Plan
from streamtune.frozen import Frozen
from streamtune.tuners.base import Tuner


class Step(Frozen):
    """One observation within the story. ``reconfigured`` says that a new plan was deployed just before it."""

    time_s: float
    change: int
    reconfigured: bool
    observation: Observation


class Change(Frozen):
    """One change of the source rates and how its tuning process ended."""

    rates: Mapping[str, float]
    reconfigurations: int
    backpressure: bool
    backpressure_seen: int
    stop_reason: StopReason
    plan: Mapping[str, int]
    total_parallelism: int
    oracle_total: int | None = None
    oracle_plan: Mapping[str, int] | None = None

    @classmethod
    def of(cls, outcome: Outcome, best: Plan | None = None) -> Self:
        plan: Plan = outcome.deployment.plan
        return cls(
            rates=outcome.rates,
            reconfigurations=outcome.reconfigurations,
            backpressure=outcome.backpressure,
            backpressure_seen=outcome.backpressure_seen,
            stop_reason=outcome.stop_reason,
            plan=dict(plan),
            total_parallelism=plan.total,
            oracle_total=best.total if best else None,
            oracle_plan=dict(best) if best else None,
        )


class TuningStory(Frozen):
    """Everything a report needs; ``summary()`` is what a script needs."""

    job: str
    tuner: str
    engine: str
    seed: int
    operators: tuple[tuple[str, str], ...]
    edges: tuple[tuple[str, str], ...]
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]

    @classmethod
    def of(
        cls, job: Job, tuner: Tuner, engine: str, seed: int, changes: Iterable[Change], steps: Iterable[Step]
    ) -> Self:
        return cls(
            job=job.name,
            tuner=tuner.name,
            engine=engine,
            seed=seed,
            operators=tuple((operator.id, operator.type) for operator in job.dataflow.operators),
            edges=tuple((edge.source, edge.target) for edge in job.dataflow.edges),
            changes=tuple(changes),
            steps=tuple(steps),
        )

    def summary(self) -> dict[str, Any]:
        return self.model_dump(mode="json", include={"job", "tuner", "engine", "seed", "changes"})

    @property
    def reconfigurations_per_change(self) -> float:
        return sum(change.reconfigurations for change in self.changes) / max(1, len(self.changes))

    @property
    def backpressure_after_tuning(self) -> int:
        return sum(change.backpressure for change in self.changes)

    @property
    def over_oracle(self) -> float | None:
        """Total parallelism over the oracle's, summed over all changes."""
        best = [change.oracle_total for change in self.changes]
        if any(total is None for total in best) or not best:
            return None
        return sum(change.total_parallelism for change in self.changes) / sum(total or 0 for total in best)


class Recorder:
    """Keeps the steps while passing every moment on."""

    def __init__(self, watch: Callable[[Moment], None] = lambda _moment: None) -> None:
        self._watch = watch
        self._reconfigured = False
        self.steps: list[Step] = []
        self._start_s: float | None = None

    def take(self, moment: Moment) -> None:
        if moment.kind == "applied":
            self._reconfigured = True
        elif moment.observation is not None:
            at_s = moment.observation.observed_at.timestamp()
            if self._start_s is None:
                self._start_s = at_s - moment.observation.window_s
            self.steps.append(
                Step(
                    time_s=at_s - self._start_s,
                    change=moment.change,
                    reconfigured=self._reconfigured,
                    observation=moment.observation,
                )
            )
            self._reconfigured = False
        self._watch(moment)
