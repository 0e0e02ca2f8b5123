"""Polling a running job: its state in words, and its counters in as few calls as possible."""

from __future__ import annotations

import math

from streamtune.clock import Clock
from streamtune.engines.base import NotReady
from streamtune.engines.flink.client import FlinkClient
from streamtune.engines.flink.latency import LatencyReader
from streamtune.engines.flink.metrics import Snapshot, counters_of
from streamtune.engines.flink.plan import ImportedJob
from streamtune.engines.flink.responses import RUNNING, JobDetails

_LAG_METRIC = "pendingRecords"


def state_of(details: JobDetails) -> str | None:
    """Why a job cannot be measured now; None if all of its subtasks run."""
    if not details.is_running:
        return f"the job is {details.state}"
    for vertex in details.vertices:
        running = vertex.tasks.get(RUNNING, 0)
        if running < vertex.parallelism:
            return f"{running} of {vertex.parallelism} subtasks of '{vertex.name}' run"
    return None


class Poller:
    """Takes snapshots: one call for the job's state, one per vertex for the counters of its subtasks.

    Which sources report a lag is asked once per job.
    """

    def __init__(self, client: FlinkClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lag_metrics: dict[str, dict[str, str]] = {}
        self._latencies = LatencyReader(client)

    def totals(self, job_id: str) -> dict[str, tuple[float, ...]]:
        """Sums over the subtasks, in one call: enough to see whether new values have arrived."""
        return {
            vertex.id: (vertex.metrics.records_in, vertex.metrics.records_out, vertex.metrics.idle_ms)
            for vertex in self._client.job(job_id).vertices
        }

    def snapshot(self, job_id: str, imported: ImportedJob) -> Snapshot | NotReady:
        details = self._client.job(job_id)
        trouble = state_of(details)
        if trouble is not None:
            return NotReady(trouble)
        taken_at = self._clock.now()
        operators = {}
        for key, vertex_id in imported.vertex_of.items():
            counters = counters_of(self._client.vertex(job_id, vertex_id))
            if isinstance(counters, NotReady):
                return counters
            operators[key] = counters
        youngest_ms = max(vertex.start_ms for vertex in details.vertices)
        started_ms = max((one.incarnation[1] for many in operators.values() for one in many), default=youngest_ms)
        age_s = max(0.0, (details.now_ms - max(started_ms, youngest_ms)) / 1000)
        return Snapshot(taken_at, operators, age_s, self._lags(job_id, imported))

    def latency_ms(self, job_id: str, imported: ImportedJob, seen: Snapshot) -> float | None:
        """The job's latency by its latency markers; None where it has none."""
        flow = imported.job.dataflow
        last = {imported.vertex_of[key]: seen.degrees[key] for key in flow.index if not flow.successors(key)}
        return self._latencies.read_ms(job_id, last)

    def _lags(self, job_id: str, imported: ImportedJob) -> dict[str, float]:
        names = self._lag_metrics.get(job_id)
        if names is None:
            names = self._find_lag_metrics(job_id, imported)
            self._lag_metrics[job_id] = names
        lags = {}
        for key, name in names.items():
            found = self._client.vertex_metrics(job_id, imported.vertex_of[key], [name], "sum").get(name)
            if found is not None and math.isfinite(found.total):
                lags[key] = found.total
        return lags

    def _find_lag_metrics(self, job_id: str, imported: ImportedJob) -> dict[str, str]:
        found = {}
        for source in imported.job.dataflow.sources:
            names = self._client.metric_names(job_id, imported.vertex_of[source.id])
            lag = next((name for name in names if name.endswith(f".{_LAG_METRIC}")), None)
            if lag is not None:
                found[source.id] = lag
        return found

    @staticmethod
    def covered_s(first: Snapshot, last: Snapshot) -> float:
        """The least time between the snapshots by any operator's own clock; wall time where it has none."""
        wall_s = (last.taken_at - first.taken_at).total_seconds()
        covered = [wall_s]
        for key, before in first.operators.items():
            after = last.operators.get(key, ())
            if len(after) == len(before):
                lengths = [b.clock_ms - a.clock_ms for a, b in zip(before, after, strict=True)]
                known = [length for length in lengths if math.isfinite(length)]
                if known:
                    covered.append(sum(known) / len(known) / 1000)
        return min(covered)
