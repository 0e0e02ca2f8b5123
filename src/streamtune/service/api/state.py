"""What the endpoints work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from fastapi import Request

from streamtune.service.errors import RequestError
from streamtune.service.fleet.context import Context
from streamtune.service.fleet.fleet import Fleet
from streamtune.service.fleet.keeper import Keeper
from streamtune.service.store import Store
from streamtune.service.views import HistoryView, JobDetail, JobSummary, Quarantine


@dataclass
class ApiState:
    """The running service, as far as requests may touch it."""

    context: Context
    fleet: Fleet
    started: datetime
    demo: Literal["simulated", "flink"] | None = None
    policy_source: str = "defaults"
    history: Callable[[], HistoryView] = lambda: HistoryView(days=[], quarantine=Quarantine(total=0, reasons=[]))
    learning: Callable[[], dict[str, Any] | None] = lambda: None
    metrics: Callable[[], bytes] = lambda: b""
    model_changed: Callable[[], None] = lambda: None
    dashboard: Path = field(default_factory=lambda: Path(__file__).parents[1] / "dashboard")

    @property
    def store(self) -> Store:
        return self.context.store

    def summaries(self) -> list[JobSummary]:
        return self.fleet.summaries()

    def keeper(self, job_id: str) -> Keeper:
        found = self.fleet.keeper(job_id)
        if found is None:
            raise RequestError(404, "no_job", f"no job '{job_id[:80]}'", "GET /api/v1/jobs lists them")
        return found

    def detail(self, job_id: str) -> JobDetail:
        keeper = self.keeper(job_id)
        keeper.state.set_excluded(keeper.excluded())
        return keeper.state.detail()


def state_of(request: Request) -> ApiState:
    """The state that the application was made with."""
    found: ApiState = request.app.state.service
    return found
