"""Nexmark, PQP and random jobs with their physics, and the rate pattern they are tuned over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.workloads.catalogue import UnknownWorkloadError, load, names
    from streamtune.workloads.random_jobs import random_dataflow, random_job
    from streamtune.workloads.rates import cycle, pattern
    from streamtune.workloads.workload import Workload
else:
    __getattr__ = lazily(
        __name__,
        {
            "catalogue": ["UnknownWorkloadError", "load", "names"],
            "random_jobs": ["random_dataflow", "random_job"],
            "rates": ["cycle", "pattern"],
            "workload": ["Workload"],
        },
    )

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
