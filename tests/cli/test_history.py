"""The command line, from generated runs to a picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from streamtune.cli.history import app
from streamtune.errors import StreamTuneError
from streamtune.models.features import FeatureEncoder

RUNNER = CliRunner()


def run(*arguments: str) -> Result:
    result = RUNNER.invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.spark
def test_all_steps_in_a_row(spark: SparkSession, tmp_path: Path) -> None:
    where = str(tmp_path / "history")
    made = json.loads(run("generate", where, "--runs", "30", "--random-jobs", "5", "--json").stdout)
    assert made["added"] == 30
    assert "0 runs added, 30 were there already" in run("generate", where, "--runs", "30", "--random-jobs", "5").stdout
    labelled = json.loads(run("label", where, "--json").stdout)
    assert labelled["runs"] == 30
    made = json.loads(run("featurise", where, "--test-share", "0.3", "--json").stdout)
    assert made["columns"] == FeatureEncoder.load(f"{where}/encoder.json").names
    shown = run("show", where, "--plot", str(tmp_path / "sizes.png")).stdout
    assert "30 rows in = 30 valid + 0 rejected" in shown
    assert "simulator" in shown
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")
    assert spark.range(1).count() == 1, "a session that was there before is not stopped"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_ingest_reports_and_show_counts(
    tmp_path: Path, good_run: Callable[..., Any], write_lines: Callable[..., Path]
) -> None:
    write_lines("in/a.jsonl", [good_run(), "oops"])
    where = str(tmp_path / "history")
    once = run("ingest", where, str(tmp_path / "in"), "--follow", "--once", "--json")
    assert json.loads(once.stdout) == {"files": 1, "rows_in": 2, "valid": 1, "rejected": 1, "new": True}
    again = run("ingest", where, str(tmp_path / "in"), "--min-window-s", "5")
    assert "2 rows in = 1 valid + 1 rejected (these files were ingested before" in again.stdout.replace("\n", " ")
    summary = json.loads(run("show", where, "--json").stdout)
    assert (summary["in"], summary["by_reason"], summary["by_operators"]) == (2, {"broken_json": 1}, {"3": 1})


def test_contradictory_options_start_no_spark(tmp_path: Path) -> None:
    with pytest.raises(StreamTuneError, match="--once needs --follow"):
        run("ingest", str(tmp_path), "x", "--once")
    with pytest.raises(StreamTuneError, match="reads one folder, but got 2"):
        run("ingest", str(tmp_path), "x", "y", "--follow")


@pytest.mark.parametrize("command", ["generate", "ingest", "label", "featurise", "show"])
def test_help_has_examples(command: str) -> None:
    assert "Examples:" in run(command, "--help").stdout
