"""One tuning story on a real Flink: the same shape as on the simulator, so that one report shows both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streamtune.control.audit import AuditTrail
from streamtune.control.controller import Controller, Outcome
from streamtune.control.guards import Guards
from streamtune.control.story import Change, Recorder, TuningStory
from streamtune.dataflow import Job
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkEngine
from streamtune.engines.simulator import SimulatorSettings
from streamtune.labs.simulator import oracle_of
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
    recorder = Recorder()
    tuner = make_tuner(spec.job)
    controller = Controller(engine, tuner, guards, window, audit or AuditTrail(None), watch=recorder.take)
    deployment = engine.deploy(spec.job, spec.job.initial_plan)
    outcomes: list[Outcome] = []
    try:
        for outcome in controller.tune_over(deployment, rates):
            deployment = outcome.deployment
            outcomes.append(outcome)
    finally:
        engine.stop(deployment)
    best = oracle_of(spec, guards, SimulatorSettings.exact())
    changes = [Change.of(outcome, best(outcome.rates).plan) for outcome in outcomes]
    return TuningStory.of(spec.job, tuner, engine.capabilities.name, 0, changes, recorder.steps)
