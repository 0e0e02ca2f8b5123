"""``Cluster``: jobs that can be found, attached to, observed and rescaled."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from streamtune.engines.base import Deployment, Engine, MeasurementWindow
from streamtune.service.views import JobState


@dataclass(frozen=True)
class FoundJob:
    """A job as its cluster lists it. ``label`` tells apart jobs of one name."""

    id: str
    name: str
    state: JobState
    label: str = ""


class Cluster(ABC):
    """One cluster: an engine, and which jobs run on it."""

    name: str
    url: str
    window: MeasurementWindow

    @property
    @abstractmethod
    def engine(self) -> Engine: ...

    @abstractmethod
    def jobs(self) -> Sequence[FoundJob]:
        """Jobs that are there, ended ones included as long as the cluster lists them."""

    @abstractmethod
    def attach(self, found: FoundJob) -> Deployment:
        """Take a running job as it is."""

    @property
    def calls(self) -> int:
        """How many requests were sent so far."""
        return 0

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Let go of connections."""


def job_key(engine: str, url: str, name: str) -> str:
    """The id of a job: the same for every service and every ``tune`` that can reach it at the same address.

    >>> job_key("flink", "http://localhost:8081/", "q5") == job_key("flink", "http://127.0.0.1:8081", "q5")
    True
    >>> job_key("flink", "http://127.0.0.1:8081", "Fraud / v2")
    'fraud-v2-09078670'
    """
    place = re.sub(r"//(localhost|\[::1\])(?=[:/]|$)", "//127.0.0.1", url.rstrip("/").lower())
    digest = hashlib.sha256(f"{engine}|{place}|{name}".encode(errors="replace")).hexdigest()[:8]
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    return f"{slug or 'job'}-{digest}"


def unique_jobs(found: Sequence[tuple[str, str, JobState]]) -> list[FoundJob]:
    """Jobs from ids, names and states. Of several with one name the one that runs keeps it; others get their id too.

    >>> [job.name + job.label for job in unique_jobs([("a1", "q5", "running"), ("b2", "q5", "running")])]
    ['q5', 'q5 (b2)']
    """
    order = sorted(found, key=lambda one: (one[1], one[2] != "running", one[0]))
    jobs: list[FoundJob] = []
    running: set[str] = set()
    for job_id, name, state in order:
        if name not in running:
            running.add(name)
            jobs.append(FoundJob(job_id, name, state))
        elif state in ("running", "restarting"):
            jobs.append(FoundJob(job_id, name, state, f" ({job_id[:8]})"))
    return jobs
