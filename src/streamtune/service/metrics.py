"""``/metrics``: what operators watch, collected when it is asked for, so that a job that is gone leaves no series."""

from __future__ import annotations

import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamtune import __version__
from streamtune.service.fleet.context import Context
from streamtune.service.fleet.fleet import Fleet
from streamtune.service.views import JobSummary

_JOB = ("job_name", "cluster")  # not "job": Prometheus would make it exported_job
_STATES = ("running", "restarting", "failed", "finished", "unreachable", "unknown")


class ServiceCollector(Collector):
    """Everything about one service."""

    def __init__(self, context: Context, fleet: Fleet) -> None:
        self._context = context
        self._fleet = fleet
        self._lock = threading.Lock()
        self._observations: Counter[tuple[str, bool]] = Counter()
        self._decisions: Counter[tuple[str, str]] = Counter()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._started = time.time()

    def observed(self, job: str, good: bool) -> None:
        with self._lock:
            self._observations[(job, good)] += 1

    def decided(self, job: str, status: str) -> None:
        with self._lock:
            self._decisions[(job, status)] += 1

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        jobs = self._fleet.summaries()
        yield from self._per_job(jobs)
        yield from self._per_operator()
        yield from self._counted(jobs)
        yield from self._per_service(jobs)

    def _per_job(self, jobs: list[JobSummary]) -> Iterator[Metric]:
        now = self._context.now()
        gauges: dict[str, tuple[str, Callable[[JobSummary], float | None]]] = {
            "streamtune_job_rate": ("records per second that the sources are offered", lambda job: job.rate),
            "streamtune_job_backpressure": ("the worst operator's backpressured share", lambda job: job.backpressure),
            "streamtune_job_instances": ("instances that run", lambda job: job.instances),
            "streamtune_job_instances_recommended": ("instances recommended", lambda job: job.recommended_instances),
            "streamtune_job_instances_autoscaler": (
                "instances that the Flink autoscaler would run",
                lambda job: job.autoscaler_instances,
            ),
            "streamtune_job_restarts_today": ("changes since midnight UTC", lambda job: job.restarts_today),
            "streamtune_job_savings_instance_hours": (
                "instance-hours below what the autoscaler would have run since midnight UTC, without backpressure",
                lambda job: job.savings_today,
            ),
            "streamtune_job_seconds_since_observation": (
                "seconds since the last good observation",
                lambda job: None if job.last_observed is None else (now - job.last_observed).total_seconds(),
            ),
            "streamtune_job_approval_wanted": ("1 while a decision waits", lambda job: int(job.pending is not None)),
            "streamtune_job_paused": ("1 while nothing is done to the job", lambda job: int(job.paused)),
        }
        for name, (text, value) in gauges.items():
            family = GaugeMetricFamily(name, text, labels=_JOB)
            for job in jobs:
                found = value(job)
                if found is not None:
                    family.add_metric((job.name, job.cluster), found)
            yield family
        state = GaugeMetricFamily("streamtune_job_state", "1 for the state that a job is in", labels=(*_JOB, "state"))
        for job in jobs:
            for one in _STATES:
                state.add_metric((job.name, job.cluster, one), int(job.state == one))
        yield state

    def _per_operator(self) -> Iterator[Metric]:
        labels = (*_JOB, "operator")
        runs = GaugeMetricFamily("streamtune_operator_parallelism", "instances of an operator", labels=labels)
        wanted = GaugeMetricFamily("streamtune_operator_recommended", "instances recommended for it", labels=labels)
        for keeper in self._fleet.keepers():
            state, deployment = keeper.state, keeper.state.deployment
            where = (state.name, state.summary().cluster)
            for key, degree in ({} if deployment is None else deployment.plan).items():
                runs.add_metric((*where, key), degree)
            for key, degree in (state.recommended or {}).items():
                wanted.add_metric((*where, key), degree)
        yield runs
        yield wanted

    def _counted(self, jobs: list[JobSummary]) -> Iterator[Metric]:
        where = {job.id: (job.name, job.cluster) for job in jobs}
        with self._lock:
            observations, decisions = dict(self._observations), dict(self._decisions)
        seen = CounterMetricFamily(
            "streamtune_observations", "observations, good ones and failures", labels=(*_JOB, "result")
        )
        for (job_id, good), count in observations.items():
            if job_id in where:
                seen.add_metric((*where[job_id], "good" if good else "failed"), count)
        decided = CounterMetricFamily("streamtune_decisions", "decisions by status", labels=(*_JOB, "status"))
        for (job_id, status), count in decisions.items():
            if job_id in where:
                decided.add_metric((*where[job_id], status), count)
        yield seen
        yield decided

    def _per_service(self, jobs: list[JobSummary]) -> Iterator[Metric]:
        context, load = self._context, self._fleet.load()
        info = GaugeMetricFamily("streamtune_info", "this service", labels=("version", "holder"))
        info.add_metric((__version__, context.holder), 1)
        yield info
        up = GaugeMetricFamily("streamtune_cluster_up", "1 while a cluster answers", labels=("cluster",))
        for cluster in self._fleet.views():
            up.add_metric((cluster.name,), int(cluster.state == "ok"))
        yield up
        usage = resource.getrusage(resource.RUSAGE_SELF)
        mine = sum(
            one.holder == context.holder and not one.job.endswith(":watch") for one in list(context.leases.values())
        )
        values = {
            "streamtune_jobs": ("jobs that are looked after", len(jobs)),
            "streamtune_queue_tasks": ("tasks of all loops", load["tasks"]),
            "streamtune_queue_unwritten": ("observations that wait to be written", load["unwritten"]),
            "streamtune_poll_lag_seconds": ("how late the latest step was", load["lag_s"]),
            "streamtune_leases_held": ("jobs that this service acts on", mine),
            "streamtune_events_clients": ("listeners to live changes", context.events.listening),
            "streamtune_webhooks_waiting": ("messages that wait to be sent", context.store.outbox.waiting()),
            "streamtune_start_time_seconds": ("when the service started", self._started),
        }
        for name, (text, value) in values.items():
            yield GaugeMetricFamily(name, text, value=float(value))
        yield CounterMetricFamily("streamtune_engine_calls", "requests to engines", value=load["calls"])
        yield CounterMetricFamily(
            "streamtune_cpu_seconds", "CPU time of this service", value=usage.ru_utime + usage.ru_stime
        )
        yield GaugeMetricFamily(
            "streamtune_memory_peak_bytes", "most memory that was resident", value=float(usage.ru_maxrss * 1024)
        )
