"""A Flink cluster by the address of its JobManager."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamtune.engines.base import Deployment, Engine, MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, Overrides, load_overrides
from streamtune.engines.flink.access import Access
from streamtune.service.clusters.base import Cluster, FoundJob, unique_jobs
from streamtune.service.views import JobState

if TYPE_CHECKING:
    from streamtune.clock import Clock

_STATES: dict[str, JobState] = {
    "RUNNING": "running",
    "RESTARTING": "restarting",
    "INITIALIZING": "restarting",
    "CREATED": "restarting",
    "FAILING": "restarting",
    "RECONCILING": "restarting",
    "SUSPENDED": "restarting",
    "CANCELLING": "finished",
    "FAILED": "failed",
    "CANCELED": "finished",
    "FINISHED": "finished",
}


class FlinkCluster(Cluster):
    """Jobs of one JobManager. A short patience: a cluster that is away is asked again at the next look."""

    def __init__(
        self,
        name: str,
        url: str,
        window: MeasurementWindow,
        *,
        overrides: Path | None = None,
        settings: FlinkSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = settings or FlinkSettings()
        self.name = name
        self.window = window
        self._client = FlinkClient(url, retries=1, access=Access.of(settings.access))
        self.url = self._client.url  # without a password in it: it is shown, and part of the jobs' ids
        self._engine = FlinkEngine(
            self._client,
            overrides=load_overrides(overrides) if overrides else Overrides(),
            settings=settings.replace(url=url),
            clock=clock,
        )

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def calls(self) -> int:
        return self._client.calls

    def jobs(self) -> Sequence[FoundJob]:
        return unique_jobs([(job.id, job.name, _STATES.get(job.state, "unknown")) for job in self._client.jobs()])

    def attach(self, found: FoundJob) -> Deployment:
        return self._engine.attach(found.id)

    def close(self) -> None:
        self._client.close()
