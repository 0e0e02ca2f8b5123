"""Ordinary jobs on hosts: adapters to the workloads' catalogue live here alone."""

from __future__ import annotations

from collections.abc import Iterator

from streamtune.experiments.placement.arena import PlacementStudy
from streamtune.experiments.placement.findings import Cell
from streamtune.placement import Hosts, Problem, scheduler
from streamtune.placement.comparison import COMPARED
from streamtune.placement.unroll import rates_of, unrolled
from streamtune.workloads import catalogue

JOBS = ("nexmark-q5", "nexmark-q8", "pqp-linear-0", "pqp-2way-0", "pqp-3way-0", "random-7")
MULTIPLE = 10.0


def ordinary_rows(scale: PlacementStudy) -> Iterator[tuple[Cell, ...]]:
    """Every job at ten times its unit rate with the parallelism it needs there, on the smallest cluster."""
    hosts = scale.ends[0]
    for name in JOBS:
        workload = catalogue.load(name)
        flow = workload.spec.job.dataflow
        plan = {key: max(1, need or 1) for key, need in workload.needs_at(MULTIPLE).items()}
        selectivities = {key: physics.selectivity for key, physics in workload.physics.items()}
        graph = unrolled(flow, plan, rates_of(flow, workload.rates_at(MULTIPLE), selectivities))
        problem = Problem(graph, Hosts.equal(hosts))
        for which in ("flink", *COMPARED):
            placed = scheduler(which, scale.effort).place(problem)
            remote = 100 * placed.remote_share
            yield name, len(graph), hosts, which, remote, placed.remote_bytes_per_s / 1e6, placed.imbalance
