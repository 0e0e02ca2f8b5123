"""Every example of every ``--help``, the README and the documentation, run as it stands there."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cli_fuzz
from docs.example_folder import MADE_BY, one_engine_history, write_example_folder
from docs.example_lines import NOT_RUN, Example, Needs, examples, expanded
from engines.flink.fake_flink import FakeFlink

ALL = list(examples())
RUN = [example for example in ALL if example.reason is None]
MARKS = {
    Needs.LIBRARIES: (pytest.mark.slow,),
    Needs.SPARK: (pytest.mark.jvm, pytest.mark.slow),
    Needs.FLINK: (pytest.mark.slow,),
}
Run = Callable[[list[str]], tuple[int, str]]
LONGEST_S = 120
# Other examples put runs of several engines into my-history; these want a user who has one.
NEEDS_ONE_ENGINE = re.compile(r"pretrain my-history (--out|--clusters)|--forecast history")
# A user who lets something run until Ctrl-C presses it after this long, by the fake server's clock.
PATIENCE_S = 1.1 * 3600.0
# Where examples say that Flink is; the test's own server answers there.
FLINK_HOSTS = {"jobmanager", "flink.example", "localhost", "127.0.0.1"}


def test_examples_are_found_where_they_stand() -> None:
    origins = {example.origin for example in ALL}
    assert {"README.md", "docs/how-to/flink.md", "streamtune place --help", "streamtune sundog run --help"} <= origins
    assert len(ALL) > 120
    assert len(RUN) > len(ALL) / 2


def test_what_is_not_run_says_why() -> None:
    assert all(example.reason.strip() for example in ALL if example.reason is not None)
    for example in RUN:
        assert all(words[0] == "streamtune" for words in example.calls), f"{example} runs something else: say why not"


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_no_reason_is_given_for_what_is_not_there(pattern: str) -> None:
    assert any(re.search(pattern, example.line) for example in ALL)


def marks_of(example: Example) -> list[pytest.MarkDecorator]:
    return [mark for needed in example.needs for mark in MARKS[needed]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("examples") / "work"
    write_example_folder(place)
    return place


@pytest.fixture(autouse=True)
def own_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command keeps for its user (tokens, leases, rescales under way) stays within the test's folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))


@pytest.fixture
def fake_flink_everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFlink]:
    """Every address that an example gives for Flink leads to one fake server, whose clock is the only one."""
    with FakeFlink() as server:
        server.job_name = "my-job"
        address, connect = server._server.server_address, socket.create_connection

        def redirected(where: tuple[str, int], *arguments: Any, **options: Any) -> Any:
            is_flink = where[0] in FLINK_HOSTS and where[1] == 8081
            return connect(address if is_flink else where, *arguments, **options)

        def sleep(_self: Any, seconds: float) -> None:
            server.clock.sleep(seconds)
            if server.now_s > PATIENCE_S:
                raise KeyboardInterrupt

        monkeypatch.setattr(socket, "create_connection", redirected)
        monkeypatch.setattr("streamtune.clock.SystemClock.now", lambda _self: server.clock.now())
        monkeypatch.setattr("streamtune.clock.SystemClock.sleep", sleep)
        yield server


@pytest.fixture(scope="module")
def on_spark(folder: Path) -> Iterator[Run]:
    """Runs commands in a process with one Spark session, whose working folder is that of the examples."""
    script = Path(__file__).with_name("spark_runner.py")
    with subprocess.Popen(
        [sys.executable, str(script)], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(words: list[str]) -> tuple[int, str]:
            print(json.dumps(words), file=process.stdin, flush=True)
            answer = json.loads(next(line for line in process.stdout if line.startswith('{"code"')))
            return answer["code"], answer["text"]

        yield run
        process.stdin.close()


@pytest.mark.parametrize("example", [pytest.param(one, id=one.line[:90], marks=marks_of(one)) for one in RUN])
def test_it_runs(example: Example, folder: Path, request: pytest.FixtureRequest) -> None:
    def run(words: list[str]) -> tuple[int, str]:
        line = " ".join(["streamtune", *words])
        if Needs.SPARK in Example("", line).needs:
            return request.getfixturevalue("on_spark")(words)
        return cli_fuzz.outcome(words, folder, LONGEST_S)

    if Needs.FLINK in example.needs:
        request.getfixturevalue("fake_flink_everywhere")
    for path, line in MADE_BY.items():
        if path in example.line and line != example.line and not (folder / path).exists():
            _run(Example("", line), folder, run)
    if NEEDS_ONE_ENGINE.search(example.line):
        with one_engine_history(folder, lambda line: _run(Example("", line), folder, run)):
            _run(example, folder, run)
    else:
        _run(example, folder, run)


def _run(example: Example, folder: Path, run: Run) -> None:
    for words in example.calls:
        code, text = run(expanded(words[1:], example.line, folder))
        allowed = {0, 130} if Needs.FLINK in example.needs else {0}  # 130: Ctrl-C, see above
        assert code in allowed, f"{example.origin}: {example.line}\n{text[-1500:]}"
        assert "Traceback" not in text
