"""One tuning story on the simulator: a job, a tuner, a sequence of rates, and everything that happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from streamtune.audit import AuditTrail
from streamtune.controller import Controller, Guards, Moment, Outcome, StopReason
from streamtune.dataflow import Job, Observation, ParallelismPlan
from streamtune.dataflow.operator import Frozen
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import OraclePlan, Simulator, SimulatorSettings, find_oracle
from streamtune.errors import EngineError
from streamtune.tuners import FlinkAutoscaler, FlinkAutoscalerSettings, Tuner, make_tuner


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
    def of(cls, outcome: Outcome, oracle: OraclePlan | None = None) -> Self:
        plan: ParallelismPlan = outcome.deployment.plan
        return cls(
            rates=outcome.rates,
            reconfigurations=outcome.reconfigurations,
            backpressure=outcome.backpressure,
            backpressure_seen=outcome.backpressure_seen,
            stop_reason=outcome.stop_reason,
            plan=dict(plan),
            total_parallelism=plan.total,
            oracle_total=oracle.total if oracle else None,
            oracle_plan=dict(oracle.plan) if oracle else None,
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


def make_contestant(name: str, job: Job, *, model: Path | None = None, cost_model: Path | None = None) -> Tuner:
    """A tuner for a contest in which every rate is one tuning process: nobody waits an hour before scaling down."""
    if name == FlinkAutoscaler.name:
        return FlinkAutoscaler(job, FlinkAutoscalerSettings(scale_down_interval_s=0))
    return make_tuner(name, job, model=model, cost_model=cost_model)


def tune_on_simulator(
    spec: JobSpec,
    make: Callable[[Job], Tuner],
    rates: Iterable[Mapping[str, float]],
    *,
    seed: int = 0,
    settings: SimulatorSettings | None = None,
    guards: Guards | None = None,
    window: MeasurementWindow | None = None,
    audit: AuditTrail | None = None,
    watch: Callable[[Moment], None] = lambda _moment: None,
    with_oracle: bool = True,
) -> TuningStory:
    """Run a tuner over a sequence of source rates; the oracle is asked afterwards, for scoring alone."""
    if spec.physics is None:
        raise EngineError(
            f"job '{spec.job.name}' has no physics: the simulator needs it to run a job; add it to the spec"
        )
    settings, guards = settings or SimulatorSettings(), guards or Guards()
    engine = Simulator.of(spec, settings=settings, seed=seed)
    tuner = make(spec.job)
    recorder = Recorder(watch)
    controller = Controller(
        engine, tuner, guards, window or MeasurementWindow(), audit or AuditTrail(None), watch=recorder.take
    )
    deployment = engine.deploy(spec.job, spec.job.initial_plan)
    outcomes = list(controller.tune_over(deployment, rates))
    best = oracle_of(spec, guards, settings) if with_oracle else None
    changes = [Change.of(outcome, best(outcome.rates) if best else None) for outcome in outcomes]
    return TuningStory.of(spec.job, tuner, engine.capabilities.name, seed, changes, recorder.steps)


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


def oracle_of(
    spec: JobSpec, guards: Guards, settings: SimulatorSettings
) -> Callable[[Mapping[str, float]], OraclePlan]:
    """The least plan for given rates. What no tuner may change is not the oracle's to change either."""
    plan = spec.job.initial_plan
    fixed = {
        operator.id: plan[operator.id]
        for operator in spec.job.dataflow.operators
        if operator.id in guards.exclude or (operator.is_source and not guards.tune_sources)
    }
    return lambda rates: find_oracle(spec.job, spec.physics or {}, rates, fixed=fixed, settings=settings)
