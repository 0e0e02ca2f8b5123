"""Learning on a schedule: when it is due, what is told meanwhile, and what a stop or a restart of the service does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamtune.cli import app
from streamtune.service.demo_flink import flink_demo_settings
from streamtune.service.learn import schedule
from streamtune.service.learn.rounds import Rounds
from streamtune.service.learn.schedule import Schedule
from streamtune.service.service import learn_command
from streamtune.service.settings import STORE_VARIABLE

GOOD = "import sys, os; print('ingest: 1 of 7', file=sys.stderr); print('model m1: promoted', file=sys.stderr)"
BAD = "import sys; print('error: 3 new runs are fewer than 200', file=sys.stderr); sys.exit(1)"
LONG = "import sys, time; print('pretrain: 5 of 7', file=sys.stderr, flush=True); time.sleep(60)"


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_LOOK_S", 0.02)


@pytest.fixture
def made() -> Iterator[Callable[..., Schedule]]:
    all_of_them: list[Schedule] = []

    def make(code: str, done: Callable[[], None] = lambda: None, every_hours: float = 1.0, **more: float) -> Schedule:
        one = Schedule(lambda: [sys.executable, "-c", code], {"STORE": "x"}, lambda: every_hours, done, **more)  # type: ignore[arg-type]
        all_of_them.append(one)
        return one

    yield make
    for one in all_of_them:
        one.stop()


def wait_for(found: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not found():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_round_that_is_due_is_run_and_the_new_model_looked_for(made: Callable[..., Schedule]) -> None:
    looked: list[bool] = []
    one = made(GOOD, lambda: looked.append(True), since_last_s=3700.0)
    one.start()
    wait_for(lambda: looked)
    told = one.view()
    assert told is not None
    assert (told["state"], told["text"], told["every_hours"]) == ("idle", "model m1: promoted", 1.0)
    time.sleep(0.2)
    assert looked == [True], "the next one is an hour away"


def test_one_that_is_not_due_waits_and_none_at_all_is_not_shown(made: Callable[..., Schedule]) -> None:
    looked: list[bool] = []
    for every_hours, since_s in ((1.0, 3500.0), (0.0, 1e9)):
        made(GOOD, lambda: looked.append(True), every_hours, since_last_s=since_s).start()
    time.sleep(0.3)
    assert looked == []
    assert made(GOOD, every_hours=0.0).view() is None


def test_a_round_that_fails_is_told_and_the_service_lives(made: Callable[..., Schedule]) -> None:
    one = made(BAD)
    assert one.learn() == 1
    told = one.view()
    assert told is not None
    assert (told["state"], told["text"]) == ("failed", "error: 3 new runs are fewer than 200")


def test_a_command_that_cannot_be_started_is_told(made: Callable[..., Schedule]) -> None:
    one = made(GOOD, since_last_s=1e9)
    one._command = lambda: ["/no/such/program"]
    one.start()
    wait_for(lambda: (one.view() or {})["state"] == "failed")


def test_a_round_learns_as_the_service_is_told(tmp_path: Path) -> None:
    """The demo on Flink wants 30 runs; its rounds asked for the 200 of the defaults, and never made a model."""
    command = learn_command(tmp_path, flink_demo_settings().learn.replace(engine="flink"))
    words = command[command.index("learn") :]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "one.jsonl").write_text("{}\n")
    told = CliRunner().invoke(app, words, env={STORE_VARIABLE: f"sqlite:///{tmp_path}/service.db"})
    assert told.exit_code != 0
    assert "fewer than 30" in str(told.exception or told.output)
    assert words[words.index("--engine") + 1] == "flink"


def test_a_stop_breaks_a_round_off(made: Callable[..., Schedule]) -> None:
    one = made(LONG, since_last_s=1e9)
    one.start()
    wait_for(lambda: (one.view() or {}).get("step") == "pretrain")
    began = time.monotonic()
    one.stop()
    assert time.monotonic() - began < 10
    assert one._process is not None
    assert one._process.poll() is not None


def test_the_last_round_is_known_after_a_restart(tmp_path: Path) -> None:
    assert Rounds(tmp_path).age_s() == 0.0
    (tmp_path / "learn.json").write_text("{}")
    import os

    os.utime(tmp_path / "learn.json", (time.time() - 500, time.time() - 500))
    assert 499 < Rounds(tmp_path).age_s() < 510
