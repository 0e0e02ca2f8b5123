"""``streamtune tune --engine flink``: the loop on a job that runs somewhere, bounded in how often it may act."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from streamtune.clock import Clock, SystemClock
from streamtune.control.audit import AuditTrail
from streamtune.control.controller import Controller, Guards, Moment, Outcome
from streamtune.dataflow import Job, Observation
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine, Overrides, Program, load_overrides
from streamtune.engines.flink.engine import FlinkSettings
from streamtune.engines.flink.rescaling import RescaleFailedError
from streamtune.errors import StreamTuneError

if TYPE_CHECKING:
    from streamtune.tuners.base import Tuner

_AN_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class FlinkTuning:
    """What to tune and how far to go.

    ``watch_s`` of 0 is one tuning process; else the job is watched that long, and a process begins whenever there is
    backpressure or a source rate has moved by more than ``rate_change``. ``max_per_hour`` bounds the reconfigurations.
    """

    url: str
    job: str | None = None
    overrides: Path | None = None
    jar: Path | None = None
    entry_class: str | None = None
    arguments: tuple[str, ...] = ()
    watch_s: float = 0.0
    max_per_hour: int = 12
    rate_change: float = 0.1
    settings: FlinkSettings | None = None

    def __post_init__(self) -> None:
        if self.max_per_hour < 1:
            raise StreamTuneError(f"--max-per-hour must be at least 1, but got {self.max_per_hour}")


def tune_flink(
    tuning: FlinkTuning,
    make_tuner: Callable[[Job], Tuner],
    guards: Guards,
    window: MeasurementWindow,
    audit: AuditTrail,
    *,
    watch: Callable[[Moment], None] = lambda _moment: None,
    clock: Clock | None = None,
) -> list[Outcome]:
    """Attach to a running job and tune it; returns one outcome per tuning process.

    Nothing but the parallelism of vertices that are not excluded is ever changed.
    """
    overrides = load_overrides(tuning.overrides) if tuning.overrides else Overrides()
    with FlinkClient(tuning.url) as client:
        program = None
        if tuning.jar is not None:
            program = Program(client.upload_jar(tuning.jar), tuning.entry_class, tuning.arguments)
        engine = FlinkEngine(client, program=program, overrides=overrides, settings=tuning.settings, clock=clock)
        deployment = engine.attach(tuning.job)
        audit.write(
            "attached",
            {"url": tuning.url, "job_id": deployment.id, "job": deployment.job.name, "plan": dict(deployment.plan)},
        )
        guards = replace(guards, exclude=guards.exclude | engine.excluded(deployment))
        controller = Controller(
            engine, make_tuner(deployment.job), guards, window, audit, clock or SystemClock(), watch
        )
        return _Session(tuning, engine, controller, guards, clock or SystemClock()).run(deployment)


class _Session:
    """Keeps count of what was done, and begins tuning processes."""

    def __init__(
        self, tuning: FlinkTuning, engine: FlinkEngine, controller: Controller, guards: Guards, clock: Clock
    ) -> None:
        self._tuning = tuning
        self._engine = engine
        self._controller = controller
        self._guards = guards
        self._clock = clock
        self._acted: deque[datetime] = deque()

    def run(self, deployment: Deployment) -> list[Outcome]:
        audit = self._controller.audit
        started = self._clock.now()
        outcomes = []
        tuned_for: Mapping[str, float] | None = None
        while True:
            try:
                if tuned_for is None or self._is_due(deployment, tuned_for):
                    outcome = self._tune(deployment)
                    if outcome is not None:
                        deployment, tuned_for = outcome.deployment, outcome.rates
                        outcomes.append(outcome)
            except StreamTuneError as error:
                audit.write("failed", {"error": str(error), **self._state(deployment)})
                is_running = isinstance(error, RescaleFailedError) and error.job_id is not None
                if not is_running or not self._tuning.watch_s:
                    raise
                tuned_for = tuned_for or {}
            if (self._clock.now() - started).total_seconds() >= self._tuning.watch_s:
                return outcomes

    def _tune(self, deployment: Deployment) -> Outcome | None:
        """One tuning process within what the hour still allows and the slots there are now; None if nothing is left."""
        left = self._allowed_now()
        if left == 0 and not self._guards.dry_run:
            wait_s = (self._acted[0] + _AN_HOUR - self._clock.now()).total_seconds()
            self._controller.audit.write("held", {"reason": "max_per_hour", "free_again_in_s": round(wait_s)})
            self._clock.sleep(min(wait_s, self._controller.window.length_s))
            return None
        slots = self._engine.slots_in_reach(deployment)
        limit = max(slots, max(deployment.plan.values()))
        highest = min(self._guards.max_parallelism or limit, limit)
        self._controller.guards = replace(
            self._guards,
            max_parallelism=max(highest, self._guards.min_parallelism),
            max_reconfigurations=max(1, min(self._guards.max_reconfigurations, left)),
        )
        before = len(self._acted)
        controller_watch = self._controller.watch
        self._controller.watch = self._counting(controller_watch)
        try:
            return self._controller.tune(deployment)
        except RescaleFailedError:
            if len(self._acted) == before:
                self._acted.append(self._clock.now())  # an attempt that failed has shaken the job as well
            raise
        finally:
            self._controller.watch = controller_watch

    def _counting(self, watch: Callable[[Moment], None]) -> Callable[[Moment], None]:
        def take(moment: Moment) -> None:
            if moment.kind == "applied":
                self._acted.append(self._clock.now())
            watch(moment)

        return take

    def _allowed_now(self) -> int:
        now = self._clock.now()
        while self._acted and now - self._acted[0] >= _AN_HOUR:
            self._acted.popleft()
        return max(0, self._tuning.max_per_hour - len(self._acted))

    def _is_due(self, deployment: Deployment, tuned_for: Mapping[str, float]) -> bool:
        seen = self._engine.observe(deployment, self._controller.window)
        if not isinstance(seen, Observation):
            self._controller.audit.write("not_ready", {"reason": seen.reason})
            self._clock.sleep(seen.retry_after_s)
            return False
        moved = any(
            abs(rate - tuned_for.get(source, 0.0)) > self._tuning.rate_change * max(rate, tuned_for.get(source, 0.0))
            for source, rate in seen.source_rates.items()
        )
        return seen.has_backpressure or moved

    def _state(self, deployment: Deployment) -> dict[str, object]:
        """Where the job stands after a failure, as far as Flink can be asked."""
        try:
            job_id = self._engine.job_id(deployment)
            details = self._engine.client.job(job_id)
            return {
                "job_id": job_id,
                "job_state": details.state,
                "runs_with": {vertex.name: vertex.parallelism for vertex in details.vertices},
            }
        except StreamTuneError as error:
            return {"job_state": f"not known: {error}"}
