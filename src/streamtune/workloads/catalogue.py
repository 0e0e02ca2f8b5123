"""The workloads by name: five Nexmark queries, 56 PQP queries, and any random job."""

from __future__ import annotations

import difflib
import re

from streamtune.errors import StreamTuneError
from streamtune.workloads import nexmark, pqp, relatives
from streamtune.workloads.random_jobs import random_job
from streamtune.workloads.workload import Workload

_RANDOM_NAME = re.compile(r"random-(\d+)")


class UnknownWorkloadError(StreamTuneError):
    """A name that is not in the catalogue."""

    def __init__(self, name: str) -> None:
        close = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        super().__init__(
            f"no job or workload '{name}': {hint}give the path of a job spec, or a name that "
            "'streamtune workloads list' shows; random-<seed> is a random job"
        )


def names() -> list[str]:
    """The 61 workloads of the StreamTune paper's experiments. ``load`` also knows ``random-<seed>`` and relatives."""
    return [*nexmark.names(), *pqp.names()]


def load(name: str, seed: int = 0) -> Workload:
    """The workload of that name; ``seed`` draws what its definition leaves open.

    For a random job the seed is in its name, and ``seed`` does not matter. ``NAME~tenant-1``, ``~added-1``,
    ``~removed-1`` and ``~replaced-1`` are relatives of NAME.

    >>> load("nexmark-q5").units
    {'bids': 80000.0}
    """
    if name in nexmark.names():
        return nexmark.build(name.removeprefix("nexmark-"), seed)
    for template, count in pqp.QUERIES.items():
        for index in range(count):
            if name == f"{template}-{index}":
                return pqp.build(template, index, seed)
    if (related := relatives.parse(name)) is not None:
        return relatives.relative(load(related[0], seed), related[1], related[2])
    if match := _RANDOM_NAME.fullmatch(name):
        return random_job(int(match[1]))
    raise UnknownWorkloadError(name)
