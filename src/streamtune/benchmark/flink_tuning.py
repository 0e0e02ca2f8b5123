"""One tuning story on a real Flink: the same shape as on the simulator, so that one report shows both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streamtune.audit import AuditTrail
from streamtune.benchmark.tuning import Change, Step, TuningStory
from streamtune.controller import Controller, Guards, Moment, Outcome
from streamtune.dataflow import Job
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkEngine
from streamtune.engines.simulator import SimulatorSettings, find_oracle
from streamtune.tuners import Tuner


def tune_on_flink(
    engine: FlinkEngine,
    spec: JobSpec,
    make_tuner: Callable[[Job], Tuner],
    rates: Iterable[Mapping[str, float]],
    *,
    guards: Guards,
    window: MeasurementWindow,
    audit: AuditTrail | None = None,
) -> TuningStory:
    """Deploy a spec, run a tuner over a sequence of source rates, stop the job.

    The oracle knows the emulated physics and is asked afterwards, for scoring alone.
    """
    steps = _Steps()
    tuner = make_tuner(spec.job)
    controller = Controller(engine, tuner, guards, window, audit or AuditTrail(None), watch=steps.take)
    deployment = engine.deploy(spec.job, spec.job.initial_plan)
    outcomes: list[Outcome] = []
    try:
        for outcome in controller.tune_over(deployment, rates):
            deployment = outcome.deployment
            outcomes.append(outcome)
    finally:
        engine.stop(deployment)
    return TuningStory(
        job=spec.job.name,
        tuner=tuner.name,
        engine=engine.capabilities.name,
        seed=0,
        operators=tuple((operator.id, operator.type) for operator in spec.job.dataflow.operators),
        edges=tuple((edge.source, edge.target) for edge in spec.job.dataflow.edges),
        changes=tuple(_change(spec, outcome, guards) for outcome in outcomes),
        steps=tuple(steps.steps),
    )


class _Steps:
    """Keeps what was observed, and whether a new plan had just been deployed."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._reconfigured = False
        self._start_s: float | None = None

    def take(self, moment: Moment) -> None:
        if moment.observation is None:
            self._reconfigured = True
            return
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


def _change(spec: JobSpec, outcome: Outcome, guards: Guards) -> Change:
    plan = outcome.deployment.plan
    fixed = {
        operator.id: plan[operator.id]
        for operator in spec.job.dataflow.operators
        if operator.id in guards.exclude or (operator.is_source and not guards.tune_sources)
    }
    oracle = find_oracle(spec.job, spec.physics or {}, outcome.rates, fixed=fixed, settings=SimulatorSettings.exact())
    return Change(
        rates=outcome.rates,
        reconfigurations=outcome.reconfigurations,
        backpressure=outcome.backpressure,
        backpressure_seen=outcome.backpressure_seen,
        stop_reason=outcome.stop_reason,
        plan=dict(plan),
        total_parallelism=plan.total,
        oracle_total=oracle.total,
        oracle_plan=dict(oracle.plan),
    )
