"""One tuning story on a real Timely Dataflow: what ``streamtune tune --engine timely`` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streamtune.control.audit import AuditTrail
from streamtune.control.controller import Controller, Moment
from streamtune.control.guards import Guards
from streamtune.control.story import Change, Recorder, TuningStory
from streamtune.dataflow import Job
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.timely import EpochLatencies, TimelyEngine, TimelySettings
from streamtune.engines.timely.settings import TimelyWindow
from streamtune.tuners import Tuner

DEFAULT_WINDOW = TimelyWindow()


def tune_on_timely(
    spec: JobSpec,
    make_tuner: Callable[[Job], Tuner],
    rates: Iterable[Mapping[str, float]],
    *,
    seed: int = 0,
    settings: TimelySettings | None = None,
    guards: Guards | None = None,
    window: MeasurementWindow | None = None,
    audit: AuditTrail | None = None,
    watch: Callable[[Moment], None] = lambda _moment: None,
    afterwards: Callable[[TimelyEngine, Deployment], None] = lambda _engine, _deployment: None,
) -> TuningStory:
    """Run a tuner over a sequence of source rates; ``afterwards`` gets the job on its final plan, still running."""
    settings = (settings or TimelySettings()).model_copy(update={"seed": seed})
    tuner = make_tuner(spec.job)
    recorder = Recorder(watch)
    with TimelyEngine.of(spec, settings=settings) as engine:
        controller = Controller(
            engine,
            tuner,
            guards or Guards(),
            window or DEFAULT_WINDOW,
            audit or AuditTrail(None),
            watch=recorder.take,
        )
        deployment = engine.deploy(spec.job, spec.job.initial_plan)
        outcomes = list(controller.tune_over(deployment, rates))
        afterwards(engine, outcomes[-1].deployment if outcomes else deployment)
        name = engine.capabilities.name
    changes = [Change.of(outcome) for outcome in outcomes]  # there is no oracle on a real engine
    return TuningStory.of(spec.job, tuner, name, seed, changes, recorder.steps)


def measure_latency(
    engine: TimelyEngine, deployment: Deployment, window: MeasurementWindow, times: int
) -> EpochLatencies:
    """The per-epoch latencies of several windows under the plan that runs now."""
    found = EpochLatencies((), ())
    for _ in range(times):
        engine.observe(deployment, window)
        found = found.and_then(engine.epoch_latencies(deployment))
    return found
