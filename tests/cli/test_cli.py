"""The command line as a newcomer meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from streamtune.cli import main
from streamtune.control.audit import read_audit
from streamtune.tuners import TUNERS

BAD = sorted((Path(__file__).parents[1] / "jobs" / "bad").glob("*.yaml"))
COMMANDS = [
    *("validate", "simulate", "oracle", "tune", "recommend", "compare", "demo", "distance", "cluster", "pretrain"),
    *("collect", "predict", "advise", "bench"),
]
GROUPS = ["workloads", "history", "model", "flink", "costmodel", "config"]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of a command run in this process."""
    monkeypatch.setattr(sys, "argv", ["streamtune", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    code = caught.value.code
    return code if isinstance(code, int) else 0


def run_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(monkeypatch, *arguments, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert isinstance(result, dict)
    return result


@pytest.mark.parametrize("command", [*COMMANDS, *GROUPS])
def test_help_explains_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(monkeypatch, command, "--help") == 0
    text = capsys.readouterr().out
    assert "Usage: streamtune" in text or "Usage:" in text
    if command not in GROUPS:
        assert f"streamtune {command}" in text.split("Example", 1)[1]


def test_help_names_every_tuner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "tune", "--help") == 0
    text = capsys.readouterr().out
    assert all(name in text for name in TUNERS)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
@pytest.mark.parametrize("command", ["validate", "simulate", "tune"])
def test_a_bad_spec_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, path: Path
) -> None:
    assert run(monkeypatch, command, str(path)) == 2
    captured = capsys.readouterr()
    expected = path.read_text().splitlines()[0].removeprefix("# expect: ")
    assert captured.out == ""
    assert captured.err.startswith(f"error: {path}")
    assert expected in captured.err
    assert len(captured.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simulate", "nexmark-q99"), "no job or workload 'nexmark-q99'"),
        (("simulate", "absent.yaml"), "absent.yaml: cannot be read"),
        (("simulate", "nexmark-q1", "--plan", "nope"), "expected name=number pairs"),
        (("simulate", "nexmark-q1", "--plan", "snik=3"), "the plan names 'snik', but the operators are"),
        (("simulate", "nexmark-q1", "--plan", "sink=1.5"), "needs a whole number, but got 1.5"),
        (("simulate", "nexmark-q1", "--plan", "sink=0"), "must be a whole number of at least 1, but got 0"),
        (("simulate", "nexmark-q1", "--plan", "sink=500"), "the plan asks for parallelism 500, the limit is 100"),
        (("simulate", "nexmark-q1", "--rate", "-5"), "must be a finite rate of at least 0, but got -5.0"),
        (("simulate", "nexmark-q1", "--rate", "asks=5"), "rates are needed for the sources bids"),
        (("simulate", "nexmark-q1", "--bias", "2"), "--bias must be in [0, 1), but got 2"),
        (("simulate", "nexmark-q1", "--window-s", "0"), "Input should be greater than or equal to 1"),
        (("tune", "nexmark-q1", "--tuner", "magic"), "unknown tuner 'magic': choose one of"),
        (("tune", "nexmark-q1", "--engine", "storm"), "unknown engine 'storm'"),
        (("tune", "nexmark-q1", "--rates", "absent.yaml"), "--rates: absent.yaml cannot be read"),
        (("tune", "nexmark-q1", "--exclude", "snik"), "cannot exclude 'snik'"),
        (("tune", "nexmark-q1", "--max-parallelism", "0"), "greater than or equal to 1"),
        (("tune", "nexmark-q1", "--max-reconfigurations", "0"), "greater than or equal to 1"),
        (("tune", "nexmark-q1", "--audit", "/dev/null/audit"), "--audit /dev/null/audit cannot be written"),
    ],
)
def test_bad_arguments_are_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert run(monkeypatch, *arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("entries", ["[]", "3", "[a]", "[-1]", "- {bids: fast}", "- {asks: 3}", "]"])
def test_bad_rate_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, entries: str
) -> None:
    path = tmp_path / "rates.yaml"
    path.write_text(entries)
    assert run(monkeypatch, "tune", "nexmark-q1", "--rates", str(path)) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_tune_json_has_what_a_script_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rates = tmp_path / "rates.yaml"
    rates.write_text("[3, 10, {bids: 123456}]")
    story = run_json(monkeypatch, capsys, "tune", "nexmark-q5", "--tuner", "ds2", "--rates", str(rates), "--seed", "7")
    assert (story["tuner"], story["engine"], story["seed"]) == ("ds2", "simulator", 7)
    assert [change["rates"]["bids"] for change in story["changes"]] == [240_000, 800_000, 123_456]
    for change in story["changes"]:
        assert change["total_parallelism"] == sum(change["plan"].values())
        assert isinstance(change["backpressure"], bool)
        assert change["reconfigurations"] >= 0
        assert change["oracle_total"] >= len(change["plan"])


def test_the_papers_pattern_has_120_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    story = run_json(monkeypatch, capsys, "tune", "nexmark-q1", "--rates", "pattern")
    assert len(story["changes"]) == 120


def test_simulate_and_oracle_agree(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    best = run_json(monkeypatch, capsys, "oracle", "pqp-linear-0", "--rate", "9.7x")
    plan = ",".join(f"{key}={degree}" for key, degree in best["plan"].items())
    at_best = run_json(monkeypatch, capsys, "simulate", "pqp-linear-0", "--rate", "9.5x", "--plan", plan)
    assert at_best["backpressure"] is False
    at_one = run_json(monkeypatch, capsys, "simulate", "pqp-linear-0", "--rate", "9.5x", "--plan", "1")
    assert at_one["backpressure"] is True


def test_a_dry_run_changes_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    story = run_json(monkeypatch, capsys, "tune", "pqp-linear-0", "--changes", "2", "--dry-run")
    assert all(change["stop_reason"] in ("dry_run", "unchanged") for change in story["changes"])
    assert all(change["reconfigurations"] == 0 for change in story["changes"])


def test_report_and_audit_are_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report, audit = tmp_path / "out" / "report.html", tmp_path / "audit.jsonl"
    arguments = ("tune", "nexmark-q5", "--changes", "2", "--report", str(report), "--audit", str(audit))
    assert run(monkeypatch, *arguments) == 0
    text = capsys.readouterr().out
    assert "reconfigurations per change" in text
    assert report.read_text().lstrip().lower().startswith("<!doctype html>")
    assert sum(event["event"] == "stopped" for event in read_audit(audit)) == 2


def test_importing_the_package_loads_neither_torch_nor_spark() -> None:
    code = (
        "import sys, streamtune, streamtune.cli; print([m for m in ('torch', 'pyspark', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_killed_tune_leaves_a_readable_trail(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    command = [sys.executable, "-c", "from streamtune.cli import main; main()"]
    command += ["tune", "pqp-3way-0", "--rates", "pattern", "--settle", "20000", "--audit", str(audit)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ))
    deadline = time.monotonic() + 60
    while not (audit.exists() and audit.read_text().count("\n") >= 8):
        assert time.monotonic() < deadline, "the tune did not get going"
        assert process.poll() is None, "the tune ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    events = read_audit(audit)
    assert len(events) >= 8
    assert {"observed", "recommended"} <= {event["event"] for event in events}
