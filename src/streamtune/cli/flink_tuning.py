"""``streamtune tune --engine flink``: the loop on a job that runs somewhere, bounded in how often it may act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from streamtune.clock import Clock, SystemClock
from streamtune.control.audit import AuditTrail
from streamtune.control.controller import Controller, Guards, Outcome, Watcher
from streamtune.control.supervisor import Supervisor, SupervisorSettings
from streamtune.dataflow import Job
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine, Overrides, Program, load_overrides
from streamtune.engines.flink.access import Access
from streamtune.engines.flink.engine import FlinkSettings
from streamtune.engines.flink.journal import Journal, resume

if TYPE_CHECKING:
    from streamtune.tuners.base import Tuner


@dataclass(frozen=True)
class FlinkTuning:
    """Which job to attach to, how it can be started again, and how it is supervised."""

    url: str
    job: str | None = None
    overrides: Path | None = None
    jar: Path | None = None
    entry_class: str | None = None
    arguments: tuple[str, ...] = ()
    supervision: SupervisorSettings = field(default_factory=SupervisorSettings)
    settings: FlinkSettings | None = None


def tune_flink(
    tuning: FlinkTuning,
    make_tuner: Callable[[Job], Tuner],
    guards: Guards,
    window: MeasurementWindow,
    audit: AuditTrail,
    *,
    watch_of: Callable[[Job], Watcher] = lambda _job: lambda _moment: None,
    clock: Clock | None = None,
    tell: Callable[[str], None] = lambda _line: None,
    journal: Journal | None = None,
) -> list[Outcome]:
    """Attach to a running job and tune it; returns one outcome per tuning process.

    Nothing but the parallelism of vertices that are not excluded is ever changed.
    """
    journal = journal or Journal(None)
    overrides = load_overrides(tuning.overrides) if tuning.overrides else Overrides()
    settings = tuning.settings or FlinkSettings()
    with FlinkClient(tuning.url, access=Access.of(settings.access)) as client:
        for entry in journal.entries(client.url) if not guards.dry_run else ():
            tell(resume(client, journal, entry, clock=clock))
        program = None
        if tuning.jar is not None:
            program = Program(client.upload_jar(tuning.jar), tuning.entry_class, tuning.arguments)
        engine = FlinkEngine(
            client, program=program, overrides=overrides, settings=settings, clock=clock, journal=journal
        )
        deployment = engine.attach(tuning.job)
        audit.write(
            "attached",
            {"url": client.url, "job_id": deployment.id, "job": deployment.job.name, "plan": dict(deployment.plan)},
        )
        clock = clock or SystemClock()
        preflight = engine.preflight()
        if not guards.dry_run:
            for warning in preflight.check_cluster():
                tell(warning)
        finding = preflight.checkpoint(client.job(deployment.id))
        if finding.verdict == "failed":
            if not (guards.dry_run or tuning.supervision.watch_s):
                preflight.check_job(deployment.id)
            tell(f"checkpoint: {finding.seen}. {finding.to_do.capitalize()}")

        def controller_of(found: Deployment) -> Controller:
            controller = Controller(engine, make_tuner(found.job), guards, window, audit, clock or SystemClock())
            controller.watch = watch_of(found.job)
            return controller

        supervisor = Supervisor(tuning.supervision, clock)
        supervised = supervisor.add(controller_of(deployment), deployment, remake=controller_of, tell=tell)
        supervisor.run()
        if supervised.error is not None:
            raise supervised.error
        return supervised.outcomes
