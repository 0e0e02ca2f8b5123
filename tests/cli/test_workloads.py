"""``streamtune workloads``: tables for people, JSON for scripts, specs that can be read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamtune.cli.workloads import app
from streamtune.dataflow.spec import load_spec
from streamtune.errors import StreamTuneError
from streamtune.workloads import catalogue


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_list_names_all_workloads() -> None:
    listed = json.loads(run("list", "--json"))
    assert [entry["name"] for entry in listed] == catalogue.names()
    assert "pqp-3way-31" in run("list")


def test_list_filters_by_template() -> None:
    listed = json.loads(run("list", "--template", "pqp-2way", "--json"))
    assert len(listed) == 16
    with pytest.raises(StreamTuneError, match="must be one of nexmark, pqp-linear"):
        run("list", "--template", "ysb")


def test_show_prints_operators_and_what_they_need() -> None:
    shown = json.loads(run("show", "nexmark-q5", "--multiple", "5", "--json"))
    assert shown["units"] == {"bids": 80_000.0}
    assert shown["input_rates"]["bids_per_auction"] == 400_000.0
    assert shown["needs"] == catalogue.load("nexmark-q5").needs_at(5)
    assert "bids_per_auction" in run("show", "nexmark-q5")


def test_export_writes_specs_that_read_back(tmp_path: Path) -> None:
    written = json.loads(run("export", "nexmark-q8", "random-3", "--out", str(tmp_path / "jobs"), "--json"))
    assert set(written) == {"nexmark-q8", "random-3"}
    for name, path in written.items():
        assert load_spec(path) == catalogue.load(name).spec


def test_export_all(tmp_path: Path) -> None:
    assert len(run("export", "--all", "--out", str(tmp_path)).split()) == 61


def test_an_unknown_name_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(StreamTuneError, match="no job or workload 'nexmark-q7'"):
        run("export", "nexmark-q1", "nexmark-q7", "--out", str(tmp_path / "jobs"))
    assert not (tmp_path / "jobs").exists()


@pytest.mark.parametrize("arguments", [(), ("nexmark-q1", "--all")])
def test_export_wants_names_or_all(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(StreamTuneError, match="either names of workloads, or --all"):
        run("export", *arguments, "--out", str(tmp_path))


def test_export_into_a_file_says_so(tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.write_text("")
    with pytest.raises(StreamTuneError, match="Choose another folder for --out"):
        run("export", "nexmark-q1", "--out", str(target))


@pytest.mark.parametrize("command", ["list", "show", "export"])
def test_help_has_examples(command: str) -> None:
    assert f"streamtune workloads {command}" in run(command, "--help")
