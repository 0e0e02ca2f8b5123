"""An option that would be ignored is refused, before anything is loaded or started."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from streamtune.cli import main
from streamtune.dataflow import Run


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["streamtune", "tune", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code if isinstance(caught.value.code, int) else 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--engine flink --rates pattern", "--rates has no effect with --engine flink, only with simulator and timely"),
        ("--engine flink --prices p.yaml", "--prices weighs what is foreseen: add --forecast"),
        ("--engine flink --seed 0", "--seed has no effect with --engine flink"),
        ("--engine flink --report r.html", "--report has no effect with --engine flink"),
        ("--engine flink --bias 0.1", "--bias has no effect with --engine flink, only with simulator"),
        ("--engine flink --changes 3", "--changes has no effect with --engine flink"),
        ("nexmark-q1 --engine flink", "a running job is chosen with --job ID"),
        ("nexmark-q1 --jar job.jar", "--jar has no effect with --engine simulator, only with flink"),
        ("nexmark-q1 --watch 60", "--watch-s has no effect with --engine simulator, only with flink"),
        ("nexmark-q1 --max-per-hour 5", "--max-per-hour has no effect with --engine simulator"),
        ("nexmark-q1 --url http://127.0.0.1:1", "--url has no effect with --engine simulator"),
        ("nexmark-q1 --backlog-growth 0.1", "--backlog-growth has no effect with --engine simulator, only with timely"),
        ("nexmark-q1 --engine timely --noise 0.1", "--noise has no effect with --engine timely"),
        ("nexmark-q1 --engine timely --start-from m", "--start-from has no effect with --engine timely"),
        ("nexmark-q1 --cost-model nope", "--cost-model has no effect with --tuner streamtune, only with zerotune"),
        ("nexmark-q1 --tuner ds2 --model nope", "--model has no effect with --tuner ds2, only with ds2-calibrated"),
        ("nexmark-q1 --tuner ds2 --state s.db", "--state has no effect with --tuner ds2, only with streamtune"),
        ("--engine flink --entry-class Main", "--entry-class says how to start the job's jar again: give --jar"),
        ("--engine flink --argument x", "--argument says how to start the job's jar again: give --jar as well"),
        ("--engine simulator", "which job? Give a job spec or a workload"),
    ],
)
def test_options_without_effect_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    assert run(monkeypatch, *arguments.split()) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""


def test_what_tune_observes_can_go_to_a_history(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Every observation of the audit trail is a record, with the plan that ran."""
    audit, folder = tmp_path / "audit.jsonl", tmp_path / "runs"
    where = ("--audit", str(audit), "--history", str(folder))
    assert run(monkeypatch, "nexmark-q1", "--tuner", "ds2", "--changes", "3", *where, "--json") == 0
    capsys.readouterr()
    events = [json.loads(line) for line in audit.read_text().splitlines()]
    observed = [event for event in events if event["event"] == "observed"]
    runs = [Run.model_validate_json(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(runs) == len(observed) > 3
    assert {run.engine for run in runs} == {"simulator"}
    ran = sorted(sum(operator.parallelism for operator in run.operators) for run in runs)
    assert ran == sorted(sum(one["parallelism"] for one in event["operators"].values()) for event in observed)


def test_a_history_folder_that_cannot_be_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert run(monkeypatch, "nexmark-q1", "--tuner", "ds2", "--history", str(tmp_path / "file" / "runs")) == 2
    assert "cannot be written" in capsys.readouterr().err
