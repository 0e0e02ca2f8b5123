"""Workloads at rates that a Timely Dataflow on one small machine can run: Nexmark Q3, Q5 and Q8, and random jobs.

The StreamTune paper's Timely experiments (Section V-F) offer up to 100 million records/s to 128 cores and ten workers.
Here rates are divided and service times multiplied until the job fits a budget of records/s and its heaviest operator
needs about as many instances as the paper had workers. What a tuner has to find out stays the same: the DAG, the
proportions of the sources (Table II, Timely column), selectivities, skew, and how the operators' loads compare.
Windows are shortened, so that an observation of ten seconds sees many of them fire.
"""

from __future__ import annotations

import re
from dataclasses import replace

from streamtune.dataflow import Dataflow, Job, Operator, Window
from streamtune.dataflow.physics import OperatorPhysics, smallest_parallelism
from streamtune.dataflow.spec import JobSpec
from streamtune.readings.demand import input_rates
from streamtune.workloads import nexmark
from streamtune.workloads.catalogue import UnknownWorkloadError
from streamtune.workloads.random_jobs import random_job
from streamtune.workloads.settings import TimelyScale
from streamtune.workloads.workload import PEAK_MULTIPLE, Workload

# Table II, Timely column, in millions of records/s. Q1 and Q2 run well with parallelism 1 there.
_PROPORTIONS = {
    "nexmark-q3": {"auctions": 5.0, "persons": 5.0},
    "nexmark-q5": {"bids": 10.0},
    "nexmark-q8": {"auctions": 4.0, "persons": 4.0},
}
_RANDOM_NAME = re.compile(r"random-(\d+)")
_LARGEST_RANDOM_JOB = 9
_SOURCE_HEADROOM = 2.0


def names() -> list[str]:
    """The queries of Fig. 8; ``load`` also knows ``random-<seed>``."""
    return list(_PROPORTIONS)


def load(name: str, scale: TimelyScale | None = None) -> Workload:
    """A workload by name, scaled.

    >>> load("nexmark-q8").units["auctions"] == load("nexmark-q8").units["persons"]
    True
    """
    scale = scale or TimelyScale()
    if name in _PROPORTIONS:
        workload = nexmark.build(name.removeprefix("nexmark-"))
        return scaled(replace(workload, units=_PROPORTIONS[name]), scale)
    if match := _RANDOM_NAME.fullmatch(name):
        return scaled(random_job(int(match[1]), _LARGEST_RANDOM_JOB), scale)
    raise UnknownWorkloadError(name)


def scaled(workload: Workload, scale: TimelyScale) -> Workload:
    """The same job with its rates and service times moved to what the machine can run."""
    flow, physics = workload.spec.job.dataflow, workload.physics
    selectivities = {key: truth.selectivity for key, truth in physics.items()}
    arriving = input_rates(flow, selectivities, workload.rates_at(PEAK_MULTIPLE))
    slower = scale.records_per_s / sum(arriving.values())
    load = max(arriving[key] * slower * truth.service_us / 1e6 for key, truth in physics.items())
    stretched = {
        key: truth.model_copy(update={"service_us": truth.service_us * scale.workers / load})
        for key, truth in physics.items()
    }
    units = {source: unit * slower for source, unit in workload.units.items()}
    operators = tuple(_fitted(operator, units, stretched, scale) for operator in flow.operators)
    job = Job(workload.name, Dataflow(operators, flow.edges), scale.max_parallelism)
    return Workload(JobSpec(job, stretched), units, workload.template)


def _fitted(
    operator: Operator, units: dict[str, float], physics: dict[str, OperatorPhysics], scale: TimelyScale
) -> Operator:
    """Sources get the parallelism that keeps them at most half busy at the peak; time windows get shorter."""
    if operator.is_source:
        unit = units[operator.id]
        peak = unit * PEAK_MULTIPLE * _SOURCE_HEADROOM
        degree = smallest_parallelism(physics[operator.id], peak, scale.max_parallelism)
        return operator.model_copy(update={"rate": unit, "parallelism": degree or scale.max_parallelism})
    window = operator.window
    if window is None or window.policy == "count":
        return operator
    slide = None if window.slide is None else window.slide * scale.window_factor
    shorter = Window(type=window.type, length=window.length * scale.window_factor, slide=slide)
    return operator.model_copy(update={"window": shorter})
