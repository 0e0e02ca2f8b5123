"""Polling a running job: its state in words, and its counters in as few calls as possible."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streamtune.clock import Clock
from streamtune.engines.base import NotReady
from streamtune.engines.flink.client import FlinkClient
from streamtune.engines.flink.latency import LatencyReader
from streamtune.engines.flink.metrics import Snapshot, counters_of
from streamtune.engines.flink.plan import ImportedJob
from streamtune.engines.flink.responses import FINISHED, RUNNING, JobDetails

_LAG_METRIC = "pendingRecords"
# How far behind a source is in time; the first that a source has counts.
_TIME_LAG_METRICS = ("currentEmitEventTimeLag", "currentFetchEventTimeLag", "watermarkLag")
# What the source operator itself has read, or passed on where it does not count that.
_READ_METRICS = ("numRecordsIn", "numRecordsOut")
# A fetch arrives once in a second or less often: the second time is mostly enough. Where every question makes the
# JobManager fetch, no two answers are of one fetch, and little lies between them.
_TRIES = 3
# Of a window, by the subtasks' own clocks; the rest is the time between two fetches of the JobManager.
COVERED_SHARE = 0.8


@dataclass(frozen=True)
class _SourceMetrics:
    """The names under which one source reports; None where it does not."""

    lag: str | None
    time_lag: str | None
    reads: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [*self.reads, *(name for name in (self.lag, self.time_lag) if name is not None)]


def state_of(details: JobDetails) -> str | None:
    """Why a job cannot be measured now; None if all of its subtasks run, or have read a bounded source to its end."""
    if not details.is_running:
        return f"the job is {details.state}"
    for vertex in details.vertices:
        running, finished = vertex.tasks.get(RUNNING, 0), vertex.tasks.get(FINISHED, 0)
        if running + finished < vertex.parallelism:
            done = f", {finished} have finished" if finished else ""
            return f"{running} of {vertex.parallelism} subtasks of '{vertex.name}' run{done}"
    if details.vertices and all(vertex.has_finished for vertex in details.vertices):
        return "all of its subtasks have finished: the job is about to end"
    return None


def without_work(details: JobDetails, grown: Collection[str]) -> str | None:
    """Of the vertices that were just given more instances, one of whose instances some ended at once; others run.

    Of all other vertices, subtasks that have finished are those of a bounded source: they had work, and have done it.
    """
    for vertex in details.vertices:
        if vertex.id not in grown or not 0 < vertex.tasks.get(RUNNING, 0) < vertex.parallelism:
            continue
        return (
            f"{vertex.tasks[FINISHED]} of {vertex.parallelism} subtasks of '{vertex.name}' ended at once, because its "
            "source has no more splits (partitions) to give them: more instances of it do not help. Leave it as it is "
            "(without --tune-sources, or excluded), or start the job anew with more splits"
        )
    return None


def difference(details: JobDetails, degrees: Mapping[str, int] | None) -> str | None:
    """The first vertex that is not on its parallelism, in words."""
    for vertex in details.vertices:
        wanted = (degrees or {}).get(vertex.id, vertex.parallelism)
        if vertex.parallelism != wanted:
            return f"'{vertex.name}' runs with parallelism {vertex.parallelism}, not {wanted}"
    return None


def _is_of_one_fetch(details: JobDetails, imported: ImportedJob, found: Snapshot) -> bool:
    """Whether the subtasks' counters add up to those of the vertices, which were asked for first."""
    vertices = {vertex.id: vertex.metrics for vertex in details.vertices}
    for key, subtasks in found.operators.items():
        of_vertex = vertices.get(imported.vertex_of[key])
        if of_vertex is None:
            continue
        for name in ("records_in", "records_out", "idle_ms", "backpressured_ms"):
            first, later = getattr(of_vertex, name), sum(getattr(one, name) for one in subtasks)
            if math.isfinite(first) and math.isfinite(later) and not math.isclose(first, later, abs_tol=0.5):
                return False
    return True


class Poller:
    """Takes snapshots: one call for the job's state, one per vertex for the counters of its subtasks.

    Under which names its sources report their lag and what they read is asked once per job.
    """

    def __init__(self, client: FlinkClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._names: dict[str, dict[str, _SourceMetrics]] = {}
        self._latencies = LatencyReader(client)

    def totals(self, job_id: str) -> dict[str, tuple[float, ...]]:
        """Sums over the subtasks, in one call: enough to see whether new values have arrived."""
        return {
            vertex.id: tuple(
                value
                for value in (one.records_in, one.records_out, one.idle_ms, one.busy_ms, one.backpressured_ms)
                if math.isfinite(value)
            )
            for vertex in self._client.job(job_id).vertices
            for one in (vertex.metrics,)
        }

    def snapshot(self, job_id: str, imported: ImportedJob) -> Snapshot | NotReady:
        """All counters, of one fetch of the JobManager's.

        What it serves is as old as its last fetch, and asking makes it fetch: new values may arrive between two calls,
        and what a source read until then would be compared with what the others did until now. Then it is asked again.
        """
        for _ in range(_TRIES):
            details = self._client.job(job_id)
            found = self._snapshot_once(details, imported)
            if isinstance(found, NotReady) or _is_of_one_fetch(details, imported, found):
                break
        return found

    def _snapshot_once(self, details: JobDetails, imported: ImportedJob) -> Snapshot | NotReady:
        job_id = details.id
        trouble = state_of(details)
        if trouble is not None:
            return NotReady(trouble, is_unhealthy=True)
        taken_at, taken_s = self._clock.now(), self._clock.steady()
        # Between the first and the last that are asked for their counters: if those are of one fetch, so is this.
        of_sources = self._source_metrics(job_id, imported)
        operators = {}
        for key, vertex_id in imported.vertex_of.items():
            counters = counters_of(self._client.vertex(job_id, vertex_id))
            if isinstance(counters, NotReady):
                return counters
            operators[key] = counters
        youngest_ms = max(vertex.start_ms for vertex in details.vertices)
        started_ms = max((one.incarnation[1] for many in operators.values() for one in many), default=youngest_ms)
        age_s = max(0.0, (details.now_ms - max(started_ms, youngest_ms)) / 1000)
        # Where the JobManager's clock was put back, the subtasks' own still say how long they have run at least.
        running = [one for many in operators.values() for one in many if not one.is_finished]
        clocks_ms = [one.clock_ms for one in running if math.isfinite(one.clock_ms)]
        age_s = max(age_s, min(clocks_ms, default=0.0) / 1000)
        return Snapshot(
            taken_at,
            taken_s,
            operators,
            age_s,
            lag_records={key: one["lag"] for key, one in of_sources.items() if "lag" in one},
            time_lag_ms={key: one["time_lag"] for key, one in of_sources.items() if "time_lag" in one},
            source_records={key: one["reads"] for key, one in of_sources.items() if "reads" in one},
        )

    def latency_ms(self, job_id: str, imported: ImportedJob, seen: Snapshot) -> float | None:
        """The job's latency by its latency markers; None where it has none."""
        flow = imported.job.dataflow
        last = {imported.vertex_of[key]: seen.degrees[key] for key in flow.index if not flow.successors(key)}
        return self._latencies.read_ms(job_id, last)

    def _source_metrics(self, job_id: str, imported: ImportedJob) -> dict[str, dict[str, float]]:
        """Source → what is read of it (``lag``, ``time_lag``, ``reads``), as far as it reports it."""
        names = self._names.get(job_id)
        if names is None:
            names = self._names[job_id] = self._find_names(job_id, imported)
        found: dict[str, dict[str, float]] = {}
        for key, one in names.items():
            if not one.names:
                continue
            values = self._client.vertex_metrics(job_id, imported.vertex_of[key], one.names, "sum,max")
            found[key] = {}
            # Flink says −1 where it has no value: a generator's records, for one, have no time to lag behind.
            if one.lag in values and 0 <= values[one.lag].total < math.inf:
                found[key]["lag"] = values[one.lag].total
            if one.time_lag in values and 0 <= values[one.time_lag].maximum < math.inf:
                found[key]["time_lag"] = values[one.time_lag].maximum
            reads = [values[name].total for name in one.reads if name in values and values[name].total > 0]
            if reads:
                found[key]["reads"] = reads[0]
        return found

    def _find_names(self, job_id: str, imported: ImportedJob) -> dict[str, _SourceMetrics]:
        found = {}
        for source in imported.job.dataflow.sources:
            # Names are asked for in a list with commas.
            given = self._client.metric_names(job_id, imported.vertex_of[source.id])
            names = [name for name in given if "," not in name]
            of_source = [name for name in names if name.startswith("Source")]

            def first(ending: str, among: list[str]) -> str | None:
                return next((name for name in among if name.endswith(f".{ending}")), None)

            reads = tuple(name for ending in _READ_METRICS if (name := first(ending, of_source)) is not None)
            times = (first(ending, names) for ending in _TIME_LAG_METRICS)
            found[source.id] = _SourceMetrics(
                first(_LAG_METRIC, names), next((name for name in times if name is not None), None), reads
            )
        return found

    @staticmethod
    def covered_s(first: Snapshot, last: Snapshot) -> float:
        """The least time between the snapshots by any operator's own clock; ours where it has none."""
        wall_s = last.taken_s - first.taken_s
        covered = [wall_s]
        for key, before in first.operators.items():
            after = last.operators.get(key, ())
            if len(after) == len(before):
                # The clock of a subtask that has finished stands still.
                lengths = [b.clock_ms - a.clock_ms for a, b in zip(before, after, strict=True) if not b.is_finished]
                known = [length for length in lengths if math.isfinite(length)]
                if known:
                    covered.append(sum(known) / len(known) / 1000)
        return min(covered)
