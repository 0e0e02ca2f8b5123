"""The lease that ``tune`` takes on a Flink job, so that it and a service never fight over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from streamtune.cli.options import resolved
from streamtune.service.settings import ServiceSettings

StoreOption = Annotated[
    str | None, typer.Option("--store", help="flink: the service's store, whose lease on the job is taken.")
]


@contextmanager
def job_lease(store: str | None, url: str, job: str | None, *, acts: bool) -> Iterator[None]:
    """Hold the job's lease for a block, where a store is named or the user's own is there."""
    settings = resolved(ServiceSettings, store=store)
    url_of_store = settings.store_url
    is_there = not url_of_store.startswith("sqlite:///") or Path(url_of_store.removeprefix("sqlite:///")).exists()
    if not acts or not (is_there or store is not None):
        yield
        return
    from streamtune.cli.flink import flink_client
    from streamtune.service.leasing import flink_lease

    with flink_lease(url_of_store, flink_client(url), job):
        yield
