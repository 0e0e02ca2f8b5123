"""Every option of every command with hostile values: no traceback, no hang, exit codes 0, 1, 2 and 130 only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from cli_fuzz import WORKING, command_lines, commands, problem, warm_up, without_pauses, write_inputs

CASES = 500


@pytest.fixture(scope="module")
def hostile_folder(tmp_path_factory: pytest.TempPathFactory, small_model: Path) -> Iterator[Path]:
    import uvicorn

    from streamtune.engines.flink.client import FlinkClient

    folder = tmp_path_factory.mktemp("hostile")
    write_inputs(folder, small_model)
    before, served = dict(FlinkClient.__init__.__kwdefaults__), uvicorn.Server.run
    without_pauses()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", "/nope")
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        warm_up(folder)
    yield folder
    FlinkClient.__init__.__kwdefaults__.update(before)
    uvicorn.Server.run = served  # type: ignore[method-assign]


def test_all_commands_are_drawn() -> None:
    paths = {path for path, _ in commands()}
    assert {("tune",), ("history", "ingest"), ("flink", "up"), ("costmodel", "fine-tune")} <= paths
    assert {path[0] for path in paths} >= {"place", "plan", "provision", "autoconfig", "sundog"}
    assert {path[0] for path in paths} >= {"serve", "learn", "token"}
    assert set(WORKING) <= paths
    assert len(paths) >= 50


@given(words=command_lines())
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_a_user_types_ends_in_a_traceback(words: list[str], hostile_folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", "/nope")  # whatever gets as far as Spark is refused there, quickly
        patch.setenv("XDG_STATE_HOME", str(hostile_folder / "state"))
        assert problem(words, hostile_folder) is None, words
