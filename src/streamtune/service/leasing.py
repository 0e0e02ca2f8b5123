"""A lease for a command that acts on a job itself: ``tune`` and a service never fight."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamtune.errors import StreamTuneError
from streamtune.service.clusters.base import job_key, unique_jobs
from streamtune.service.store import Store

if TYPE_CHECKING:
    from streamtune.engines.flink import FlinkClient

log = logging.getLogger("streamtune.service")

LEASE_S = 60.0


@contextmanager
def flink_lease(store_url: str, client: FlinkClient, job: str | None) -> Iterator[str]:
    """Hold the lease of a running Flink job for a block; ``LeaseHeldError`` says who has it where it is taken.

    The client is closed as soon as the job is found.
    """
    from streamtune.engines.flink import FlinkEngine

    with client:
        found = FlinkEngine(client).find_job(job)
        listed = unique_jobs([(one.id, one.name, "running") for one in client.jobs() if one.state == "RUNNING"])
    label = next((one.label for one in listed if one.id == found.id), "")
    with held(store_url, job_key("flink", client.url, found.name + label)) as holder:
        yield holder


@contextmanager
def held(store_url: str, job: str, lease_s: float = LEASE_S) -> Iterator[str]:
    """Hold the lease of a job for a block, renewed meanwhile."""
    store = Store(store_url)
    holder = f"tune@{socket.gethostname()}:{os.getpid()}"
    over = threading.Event()

    def renew() -> None:
        while not over.wait(lease_s / 3):
            try:
                store.leases.renew(holder, store.lease_clock.now(), lease_s)
            except StreamTuneError as error:
                log.warning("the lease could not be renewed", extra={"job": job, "error": str(error)})

    try:
        store.leases.take(job, holder, store.lease_clock.now(), lease_s)
        renewing = threading.Thread(target=renew, daemon=True)
        renewing.start()
        try:
            yield holder
        finally:
            over.set()
            renewing.join(5.0)
            store.leases.release(holder, [job])
    finally:
        store.close()
