"""Watching all jobs of a cluster and writing down what they do, as history records for the Spark pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streamtune.clock import Clock, SystemClock
from streamtune.dataflow import Run
from streamtune.dataflow.run_files import RunFiles
from streamtune.engines.base import NotReady
from streamtune.engines.flink.client import FlinkClient, FlinkRefusedError, FlinkUnreachableError
from streamtune.engines.flink.identity import operator_ids, resolve
from streamtune.engines.flink.metrics import Snapshot, observation_between
from streamtune.engines.flink.overrides import Overrides
from streamtune.engines.flink.plan import ImportedJob, import_job
from streamtune.engines.flink.polling import COVERED_SHARE, Poller
from streamtune.engines.flink.published import JOB_PARAMETER, RATES_PARAMETER, read_rates
from streamtune.engines.flink.responses import RUNNING, FlinkGarbledError
from streamtune.engines.flink.settings import CollectSettings as CollectSettings
from streamtune.engines.flink.settings import FlinkSettings
from streamtune.errors import StreamTuneError

ENGINE = "flink"
MOST_WAITING = 20_000
# What the JobManager waits between two fetches, by default.
_FETCH_S = 10.0


@dataclass
class _Watched:
    imported: ImportedJob
    rates_file: Path | None
    said_rates: dict[str, float]
    first: Snapshot | None = None


class Collector:
    """Looks at every running job in turn; ``tick`` returns the runs that have become complete.

    A job that restarts, is rescaled or goes away ends its window without a record; a new one begins when it has
    settled. A JobManager that does not answer is waited for.
    """

    def __init__(
        self,
        client: FlinkClient,
        settings: CollectSettings | None = None,
        *,
        overrides: Overrides | None = None,
        largest_guess: float = FlinkSettings().largest_guess,
        clock: Clock | None = None,
        tell: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._client = client
        self._largest_guess = largest_guess
        self._settings = settings or CollectSettings()
        self._overrides = overrides or Overrides()
        self._clock = clock or SystemClock()
        self._poller = Poller(client, self._clock)
        self._watched: dict[str, _Watched] = {}
        self.tell = tell
        self._is_away = False

    def tick(self) -> list[Run]:
        try:
            running = {job.id: job.name for job in self._client.jobs() if job.state == RUNNING}
        except (FlinkUnreachableError, FlinkGarbledError) as error:
            if not self._is_away:
                self.tell(f"{error}; waiting for it")
            self._is_away = True
            return []
        if self._is_away:
            self.tell(f"{self._client.url} answers again")
        self._is_away = False
        for job_id in [job_id for job_id in self._watched if job_id not in running]:
            self.tell(f"job {job_id} ({self._watched.pop(job_id).imported.job.name}) does not run any more")
        runs = []
        for job_id in running:
            try:
                run = self._look_at(job_id)
            except StreamTuneError as error:  # one broken job must not end the watch over the others
                self.tell(f"job {job_id} ({running[job_id]}): {error}")
                continue
            if run is not None:
                runs.append(run)
        return runs

    def _look_at(self, job_id: str) -> Run | None:
        watched = self._watched.get(job_id) or self._begin(job_id)
        seen = self._poller.snapshot(job_id, watched.imported)
        if isinstance(seen, NotReady):
            watched.first = None
            return None
        if watched.first is None:
            watched.first = seen if seen.age_s >= self._settings.settle_s else None
            return None
        passed_s = seen.taken_s - watched.first.taken_s
        if passed_s < self._settings.window_s or self._is_waited_for(watched.first, seen, passed_s):
            return None
        offered: dict[str, float | None] = dict(watched.said_rates)
        if watched.rates_file is not None:
            offered.update(read_rates(watched.rates_file) or {})
        latency_ms = self._poller.latency_ms(job_id, watched.imported, seen)
        observation = observation_between(
            watched.first, seen, watched.imported.job, offered, latency_ms, largest_guess=self._largest_guess
        )
        watched.first = seen if seen.age_s >= self._settings.settle_s else None
        if isinstance(observation, NotReady):
            self.tell(f"job {job_id}: {observation.reason}; its window begins anew")
            return None
        run_id = f"flink-{job_id}-{round(observation.observed_at.timestamp() * 1000)}"
        return Run.of(run_id, watched.imported.job, ENGINE, observation)

    def _is_waited_for(self, first: Snapshot, seen: Snapshot, passed_s: float) -> bool:
        """Counters are as old as the JobManager's last fetch: a short window may hold far less than it should.

        Generators that emit once a second are off by a tenth in ten seconds, where nothing shows it.
        """
        covered_s = self._poller.covered_s(first, seen)
        is_short = 0 < covered_s < COVERED_SHARE * self._settings.window_s
        return is_short and passed_s < self._settings.window_s + _FETCH_S + self._settings.poll_s

    def _begin(self, job_id: str) -> _Watched:
        details = self._client.job(job_id)
        try:
            parameters = self._client.user_parameters(job_id)
        except FlinkRefusedError:
            parameters = {}
        ids = operator_ids(details)
        # One file of overrides speaks about many jobs.
        own = {key: one for key, one in self._overrides.operators.items() if resolve(key, ids, details) is not None}
        said = Overrides(operators=own)
        imported = import_job(details, overrides=said, published=parameters.get(JOB_PARAMETER))
        rates_file = Path(parameters[RATES_PARAMETER]) if RATES_PARAMETER in parameters else None
        self._watched[job_id] = _Watched(imported, rates_file, dict(imported.said_rates))
        self.tell(f"watching job {job_id} ({imported.job.name})")
        return self._watched[job_id]


def collect(
    collector: Collector,
    files: RunFiles,
    settings: CollectSettings,
    *,
    clock: Clock | None = None,
    duration_s: float | None = None,
    limit: int | None = None,
) -> int:
    """Tick until time is up or there are enough records; returns how many were written.

    Where nothing can be written, records wait, the oldest going first when there are too many.
    """
    clock = clock or SystemClock()
    started_s = clock.steady()
    written = 0
    waiting: list[Run] = []
    trouble: StreamTuneError | None = None
    while True:
        waiting = [*waiting, *collector.tick()][-MOST_WAITING:]
        try:
            files.write(waiting)
            written += len(waiting)
            waiting, trouble = [], None
        except StreamTuneError as error:  # a full disk may have room again before the watch is over
            if trouble is None:
                collector.tell(f"{error}; records wait until it can be")
            trouble = error
        elapsed_s = clock.steady() - started_s
        if (duration_s is not None and elapsed_s >= duration_s) or (limit is not None and written >= limit):
            if trouble is not None:
                raise trouble
            return written
        try:
            clock.sleep(settings.poll_s)
        except KeyboardInterrupt:
            files.write(waiting)  # the last chance; what cannot be kept is said
            raise
