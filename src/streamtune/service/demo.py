"""The simulated fleet: some forty jobs with daily patterns, faults and a few bad citizens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import time

from streamtune.dataflow import Dataflow, Job, Plan
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import MeasurementWindow
from streamtune.extras import is_installed
from streamtune.service.clocks import ServiceClock
from streamtune.service.clusters.simulated import Fault, Pattern, SimulatedCluster, SimulatedJob
from streamtune.service.settings import LearnSettings, MaintenanceWindow, Policy, ServiceSettings
from streamtune.workloads import catalogue
from streamtune.workloads.workload import Workload

SPEED = 60.0
WINDOW = MeasurementWindow(60.0, 60.0)

# Name → workload that it behaves like.
_PAYMENTS = {
    "fraud-detection": "nexmark-q5",
    "card-authorisation": "pqp-2way-1",
    "chargeback-matching": "pqp-3way-2",
    "ledger-export": "pqp-linear-3",
    "currency-conversion": "nexmark-q1",
    "settlement-batches": "pqp-2way-4",
    "velocity-checks": "pqp-linear-5",
    "merchant-risk": "random-11",
    "dispute-alerts": "nexmark-q2",
    "refund-joins": "pqp-2way-7",
    "sanction-screening": "random-12",
    "tokenisation": "pqp-linear-1",
    "balance-snapshots": "pqp-3way-5",
}
_ADVERTS = {
    "click-sessions": "nexmark-q3",
    "impression-dedup": "pqp-linear-2",
    "bid-enrichment": "pqp-3way-0",
    "auction-winners": "nexmark-q8",
    "budget-pacing": "pqp-2way-3",
    "attribution": "pqp-3way-4",
    "audience-segments": "random-21",
    "creative-ctr": "pqp-linear-4",
    "frequency-caps": "random-22",
    "viewability": "pqp-2way-6",
    "<script>alert('ads')</script>": "pqp-linear-6",
    "conversion-joins": "pqp-3way-7",
    "page-features": "random-23",
    "geo-rollups": "pqp-linear-7",
}
_SENSORS = {
    "vehicle-telemetry": "pqp-linear-0",
    "battery-anomalies": "nexmark-q5",
    "geofences": "pqp-2way-0",
    "trip-segments": "random-31",
    "tyre-pressure": "nexmark-q1",
    "charging-sessions": "pqp-2way-2",
    "firmware-rollout": "nexmark-q2",
    "fleet-heatmap": "pqp-3way-1",
    "predictive-maintenance": "random-32",
    "speed-profiles": "pqp-2way-5",
    "road-conditions": "pqp-3way-3",
    "driver-scores": "random-33",
    "parking-events": "pqp-3way-6",
}
_STARVED = {"bid-enrichment", "geofences", "merchant-risk"}
_LAVISH = {"creative-ctr", "fleet-heatmap", "ledger-export", "parking-events"}
_BURSTY = {"auction-winners", "velocity-checks", "charging-sessions"}
_OVERLOADED = {"attribution"}
_STUCK = {"firmware-rollout"}
_CRASHING = {"audience-segments": "failed", "settlement-batches": "restarting", "road-conditions": "restarting"}


def demo_settings() -> ServiceSettings:
    """Policies of every kind, so that there is something to see of each."""
    night = MaintenanceWindow(start=time(2), end=time(4), allow="scale_up")
    return ServiceSettings(
        policies=(
            Policy(pattern="payments/*", mode="auto", maintenance=(night,), max_per_hour=6, group="payments"),
            Policy(pattern="adverts/*", mode="approve", max_per_hour=6),
            Policy(pattern="vehicle-*", mode="auto", tuner="ds2"),
            Policy(pattern="sensors/*", mode="recommend"),
        ),
        budgets={"payments": 1500},
        window_s=WINDOW.length_s,
        settle_s=WINDOW.settle_s,
        lease_s=60.0,
        learn=demo_learning(min_runs=1000),
    )


def demo_learning(min_runs: int) -> LearnSettings:
    """A round every few minutes, where all that learning needs is installed."""
    packages = ("pyspark", "pandas", "pyarrow", "torch", "torch_geometric", "xgboost")
    return LearnSettings(every_hours=0.1 if all(map(is_installed, packages)) else 0.0, min_runs=min_runs)


def demo_clusters(clock: ServiceClock, window: MeasurementWindow = WINDOW) -> Iterator[SimulatedCluster]:
    """Three clusters; one of them is away for some minutes every few hours."""
    fleets = {"payments": _PAYMENTS, "adverts": _ADVERTS, "sensors": _SENSORS}
    for number, (name, jobs) in enumerate(fleets.items()):
        away = Fault("unreachable", 6 * 3600, 600, 5400) if name == "sensors" else None
        made = [_job(job, workload, number * 20 + place) for place, (job, workload) in enumerate(jobs.items())]
        yield SimulatedCluster(name, made, window, clock, away=away, seed=number)


def _job(name: str, workload_name: str, number: int) -> SimulatedJob:
    workload = _renamed(catalogue.load(workload_name), name)
    low, high = 1.0 + number % 3, 5.0 + number % 4
    pattern = Pattern(low, high, peak_hour=(9 + 3 * number) % 24)
    if name in _BURSTY:
        pattern = replace(pattern, burst=3.0)
    if name in _OVERLOADED:
        pattern = Pattern(14.0, 40.0, 12.0)
    faults: tuple[Fault, ...] = ()
    if name in _CRASHING:
        kind = _CRASHING[name]
        faults = (Fault(kind, 4 * 3600, 1200 if kind == "failed" else 240, 1800 + 300 * (number % 7)),)  # type: ignore[arg-type]
    return SimulatedJob(workload, pattern, _start(name, workload, high), faults, name in _STUCK)


def _start(name: str, workload: Workload, high: float) -> Plan:
    """Sized by hand for the peak, as people do: some too small, some far too large."""
    factor = 0.4 if name in _STARVED else 3.0 if name in _LAVISH else 1.3
    job, needs = workload.spec.job, workload.needs_at(high)
    degrees = {}
    for operator in job.dataflow.operators:
        needed = needs[operator.id] or job.max_parallelism
        degrees[operator.id] = (
            job.initial_plan[operator.id]
            if operator.is_source
            else min(job.max_parallelism, max(1, round(factor * needed)))
        )
    return Plan(degrees)


def _renamed(workload: Workload, name: str) -> Workload:
    spec = workload.spec
    job = Job(name, Dataflow(spec.job.dataflow.operators, spec.job.dataflow.edges), spec.job.max_parallelism)
    return replace(workload, spec=JobSpec(job, spec.physics))
