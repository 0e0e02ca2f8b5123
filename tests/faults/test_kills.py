"""kill −9 of tune, collect, learn and serve at some of their steps, and again; ``make bench-kill`` takes them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.processes import PROCESSES, Server, a_server

pytestmark = pytest.mark.slow
# How many steps of each process are tried, spread over its life.
KILLS = {"tune": 3, "collect": 2, "learn": 6, "serve": 1}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with a_server() as one:
        yield one


@pytest.mark.parametrize("kind", PROCESSES, ids=lambda kind: kind.name)
def test_killed_and_run_again_nothing_shows_it(kind: type, server: Server, tmp_path: Path) -> None:
    process = kind(server, tmp_path / kind.name)
    kills = KILLS[process.name]
    at = [process.steps * (2 * number + 1) // (2 * kills) for number in range(kills)]
    if process.name == "learn":
        at[-1] = process.steps  # when everything is done but the note that it is
    trials = [trial for number in at if (trial := process.kill(kill_at=number)) is not None]
    assert len(trials) == kills
    assert {(trial.last_step, *trial.wrong) for trial in trials if trial.wrong} == set()
