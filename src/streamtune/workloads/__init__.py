"""Nexmark, PQP and random jobs with their physics, and the rate pattern they are tuned over."""

from streamtune.workloads.catalogue import UnknownWorkloadError, load, names
from streamtune.workloads.random_jobs import random_dataflow, random_job
from streamtune.workloads.rates import cycle, pattern
from streamtune.workloads.workload import Workload

__all__ = [
    "UnknownWorkloadError",
    "Workload",
    "cycle",
    "load",
    "names",
    "pattern",
    "random_dataflow",
    "random_job",
]
