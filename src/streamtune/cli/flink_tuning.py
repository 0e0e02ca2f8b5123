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
from streamtune.engines.base import Deployment, JobNotYetRunningError, MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine, Overrides, Program, load_overrides
from streamtune.engines.flink.access import Access
from streamtune.engines.flink.engine import FlinkSettings
from streamtune.engines.flink.journal import Journal
from streamtune.engines.flink.responses import ENDED
from streamtune.engines.flink.resuming import resume_all

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
        clock = clock or SystemClock()
        job = tuning.job
        if not guards.dry_run:
            job = _resume(client, journal, tuning.job, tell, clock, settings)
        program = None
        if tuning.jar is not None:
            program = Program(client.upload_jar(tuning.jar), tuning.entry_class, tuning.arguments)
        engine = FlinkEngine(
            client, program=program, overrides=overrides, settings=settings, clock=clock, journal=journal
        )
        began_s = clock.steady()
        deployment = _attach(engine, job, tuning.supervision, audit, tell, clock)
        left_s = max(0.0, tuning.supervision.watch_s - (clock.steady() - began_s))
        audit.write(
            "attached",
            {"url": client.url, "job_id": deployment.id, "job": deployment.job.name, "plan": dict(deployment.plan)},
        )
        preflight = engine.preflight()
        for warning in preflight.notes() if guards.dry_run else preflight.check_cluster():
            tell(warning)
        finding = preflight.checkpoint(client.job(deployment.id))
        if finding.verdict == "failed":
            if not (guards.dry_run or tuning.supervision.watch_s):
                preflight.check_job(deployment.id)
            tell(f"checkpoint: {finding.seen}. {finding.to_do.capitalize()}")

        def controller_of(found: Deployment, guards: Guards = guards) -> Controller:
            controller = Controller(engine, make_tuner(found.job), guards, window, audit, clock)
            controller.watch = watch_of(found.job)
            return controller

        supervisor = Supervisor(tuning.supervision.replace(watch_s=left_s), clock)
        supervised = supervisor.add(controller_of(deployment), deployment, remake=controller_of, tell=tell)
        supervisor.run()
        if supervised.error is not None:
            raise supervised.error
        return supervised.outcomes


def _resume(
    client: FlinkClient,
    journal: Journal,
    job: str | None,
    tell: Callable[[str], None],
    clock: Clock,
    settings: FlinkSettings,
) -> str | None:
    """Finish what was interrupted on this cluster; returns how the job is called now."""
    names = {entry.job_id: entry.job_name for entry in journal.entries(client.url)}
    resume_all(
        client,
        journal,
        tell,
        needed=lambda entry: entry.is_called(job),
        clock=clock,
        settings=settings.rescale,
    )
    if job in names and job not in {entry.job_id for entry in journal.entries(client.url)}:
        alive = {one.id for one in client.jobs() if one.state not in ENDED}
        return job if job in alive else names[job]  # started again, it has another id
    return job


def _attach(
    engine: FlinkEngine,
    job: str | None,
    supervision: SupervisorSettings,
    audit: AuditTrail,
    tell: Callable[[str], None],
    clock: Clock,
) -> Deployment:
    """Attach to a job; a watch waits for one that starts or restarts, for as long as it was to last."""
    began_s, noted = clock.steady(), ""
    while True:
        try:
            return engine.attach(job)
        except JobNotYetRunningError as error:
            if clock.steady() - began_s >= supervision.watch_s:
                raise
            if str(error) != noted:
                audit.write("waiting", {"reason": str(error)})
                tell(str(error))
            noted = str(error)
            clock.sleep(supervision.wait_s)
