"""What all keepers share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from streamtune.dataflow import Job, Observation
from streamtune.service.clocks import ServiceClock
from streamtune.service.events import Events
from streamtune.service.settings import Policy, ServiceSettings
from streamtune.service.store import Store
from streamtune.service.store.jobs import ObservationRow
from streamtune.service.store.leases import Lease
from streamtune.service.views import Decision, JobSummary
from streamtune.tuners.base import Tuner


class TunerMaker(Protocol):
    """Makes the tuner that a policy asks for, with the model in force; ``version`` names that model."""

    def make(self, policy: Policy, job: Job) -> Tuner: ...

    def version(self, policy: Policy) -> str | None: ...

    def refresh(self) -> None:
        """Look which model is running."""


@dataclass
class Context:
    """Store, time, settings in force, and who is told of what."""

    store: Store
    clock: ServiceClock
    holder: str
    settings: ServiceSettings
    tuners: TunerMaker
    events: Events = field(default_factory=Events)
    record: Callable[[Job, str, Observation], None] = lambda _job, _engine, _seen: None
    notify: Callable[[str, JobSummary, Decision | None, str], None] = lambda _event, _job, _decision, _text: None
    observed: Callable[[str, bool], None] = lambda _job, _good: None
    decided: Callable[[str, str], None] = lambda _job, _status: None
    leases: dict[str, Lease] = field(default_factory=dict)
    data: Path | None = None
    _rows: list[ObservationRow] = field(default_factory=list)
    _summaries: dict[str, object] = field(default_factory=dict)
    _claims: dict[str, tuple[str, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lease_now(self) -> datetime:
        """The time that leases go by."""
        return self.store.lease_clock.now()

    def now(self) -> datetime:
        return self.clock.now()

    def keep(self, row: ObservationRow, summary: JobSummary, group: str | None) -> None:
        """Keep an observation; many are written at once by ``flush``."""
        with self._lock:
            self._rows.append(row)
            self._summaries[row.job] = summary.model_dump(mode="json")
            if group is not None:
                self._claims[row.job] = (group, row.instances)

    def claims_itself(self, job: str) -> None:
        """A decision claims what the job needs from now on; what was seen before and not written yet is old."""
        with self._lock:
            self._claims.pop(job, None)

    def flush(self) -> int:
        """Write what was kept; where the store cannot be written it is kept on, up to a limit."""
        with self._lock:
            rows, summaries, claims = self._rows, self._summaries, self._claims
            self._rows, self._summaries, self._claims = [], {}, {}
        if not rows:
            return 0
        try:
            self.store.jobs.record(rows, summaries, claims)
        except Exception:
            with self._lock:
                self._rows = [*rows, *self._rows][-20_000:]
                self._summaries = {**summaries, **self._summaries}
                self._claims = {**claims, **self._claims}
            raise
        return len(rows)

    @property
    def unwritten(self) -> int:
        return len(self._rows)
