"""The documentation's tools stand beside the pages, outside of our package."""

import sys
from pathlib import Path

import pytest

from streamtune.dataflow import Job, Observation
from streamtune.engines.simulator import simulate_once
from streamtune.workloads import load

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))


@pytest.fixture(scope="session")
def tuner_case() -> tuple[Job, Observation]:
    """A job, and one observation of it on the simulator."""
    workload = load("nexmark-q1")
    job = workload.spec.job
    return job, simulate_once(job, workload.physics, job.initial_plan, workload.rates_at(10))
