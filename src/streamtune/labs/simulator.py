"""One tuning story on the simulator, scored by an oracle that knows the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streamtune.control.audit import AuditTrail
from streamtune.control.controller import Controller, Moment
from streamtune.control.guards import Guards
from streamtune.control.story import Change, Recorder, TuningStory
from streamtune.dataflow import Job
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import OraclePlan, Simulator, SimulatorSettings, find_oracle
from streamtune.errors import EngineError
from streamtune.tuners.base import Tuner


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
    changes = [Change.of(outcome, best(outcome.rates).plan if best else None) for outcome in outcomes]
    return TuningStory.of(spec.job, tuner, engine.capabilities.name, seed, changes, recorder.steps)


def oracle_of(
    spec: JobSpec, guards: Guards, settings: SimulatorSettings
) -> Callable[[Mapping[str, float]], OraclePlan]:
    """The least plan for given rates. What no tuner may change, the oracle does not change either."""
    plan = spec.job.initial_plan
    fixed = {
        operator.id: plan[operator.id]
        for operator in spec.job.dataflow.operators
        if operator.id in guards.exclude or (operator.is_source and not guards.tune_sources)
    }
    return lambda rates: find_oracle(spec.job, spec.physics or {}, rates, fixed=fixed, settings=settings)
