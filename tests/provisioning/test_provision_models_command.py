"""``streamtune provision sample | train | show``, on the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streamtune.cli.provision import app
from streamtune.errors import StreamTuneError


def run(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_from_samples_to_predictions(tmp_path: Path) -> None:
    file, model = str(tmp_path / "co2.json"), str(tmp_path / "model")
    taken = run("sample", "CO2", "--simulated", "--algorithm", "fssa:2", "--out", file)
    assert len(taken["samples"]) == 9
    learned = run("train", file, "--out", model, "--model", "physical")
    assert learned["model"] == "physical"
    shown = run("show", model, "--at", "0.5:64")
    # Half a core of an operator that does 178,700 records/s per core and saturates at 0.88.
    assert shown["predicted"][0]["performance_per_s"] == pytest.approx(0.5 * 178_700, rel=0.1)
    text = CliRunner().invoke(app, ["show", model], catch_exceptions=False).stdout
    assert "physical of 9 samples" in text


@pytest.mark.parametrize("algorithm", ["ours", "dsa"])
def test_every_algorithm_writes_its_samples(tmp_path: Path, algorithm: str) -> None:
    file = tmp_path / "samples.json"
    taken = run("sample", "CMO2", "--simulated", "--algorithm", algorithm, "--out", str(file))
    assert json.loads(file.read_text())["algorithm"] == algorithm
    assert len(taken["samples"]) >= 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "CO7", "--out", "x.json"], "unknown operator 'CO7': choose from CO1"),
        (["sample", "CO1", "--algorithm", "best", "--simulated", "--out", "x.json"], "unknown algorithm 'best'"),
        (["sample", "CO1", "--smallest", "much", "--out", "x.json"], "--smallest: expected CORES:MIB such as 0.5:64"),
        (["sample", "CO1", "--largest=-1:5", "--out", "x.json"], "--largest: expected CORES:MIB"),
        (["train", "missing.json", "--out", "x"], "missing.json cannot be read"),
        (["show", "missing"], "missing is not a streamtune-oprpm"),
    ],
)
def test_bad_arguments_have_one_clear_sentence(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, StreamTuneError)
    assert message in str(result.exception)
