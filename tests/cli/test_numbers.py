"""Numbers, seeds, texts and paths that fuzzing found to get too far; each holds for every command and every setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from cli_fuzz import commands, outcome, write_inputs
from streamtune.cli.output import SafeConsole
from streamtune.config import all_sections
from streamtune.dataflow.documents import DocumentError, parse_json, parse_yaml
from streamtune.labs.settings import GenerateSettings, PlanDataSettings
from streamtune.placement import Hosts, Ours, OursSettings, Problem, parse_graph
from streamtune.settings import LARGEST_SEED, Settings, SettingsError, settings_within

HUGE = "9" * 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_inputs(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def every_kind() -> set[type[Settings]]:
    found, waiting = set(), list(all_sections().values())
    while waiting:
        kind = waiting.pop()
        found.add(kind)
        waiting += [inner for field in kind.model_fields if (inner := settings_within(kind, field)) is not None]
    return found


def test_every_seed_fits_the_libraries_that_draw() -> None:
    """``provision train --seed 999…`` was reported as a defect by scikit-learn's words."""
    options = [(path, one) for path, command in commands() for one in command.params if one.name == "seed"]
    assert len(options) > 15
    assert [path for path, one in options if one.max != LARGEST_SEED] == []
    kinds = [kind for kind in every_kind() if "seed" in kind.model_fields]
    assert len(kinds) > 5
    for kind in kinds:
        with pytest.raises(SettingsError, match="must be at most 4294967295"):
            kind.of({"seed": LARGEST_SEED + 1})


@pytest.mark.parametrize(
    "line",
    [
        "provision train samples.json --model forest --out new-model",
        "provision plan problem.yaml --seconds 0.2",
        *(f"autoconfig run space.yaml --steps 12 --strategy {name} --store s" for name in ("tpe", "cma-es", "random")),
        "compare good.yaml --tuners ds2 --rates two.yaml",
        "workloads show nexmark-q5",
    ],
)
def test_the_largest_seed_works(line: str, folder: Path) -> None:
    """Seeds of later draws are made from it, and must not leave the limit."""
    code, text = outcome([*line.split(), "--seed", str(LARGEST_SEED)], folder, longest_s=0)
    assert code == 0, text
    code, text = outcome([*line.split(), "--seed", str(LARGEST_SEED + 1)], folder)
    assert (code, "4294967295" in text) == (2, True)


def test_placement_takes_the_largest_seed_too() -> None:
    """METIS takes seeds of 31 bits."""
    tasks = [{"id": f"t{number}", "load": 1} for number in range(12)]
    edges = [{"from": f"t{n}", "to": f"t{(n + 1) % 12}", "bytes_per_s": n + 1} for n in range(12)]
    problem = Problem(parse_graph({"tasks": tasks, "edges": edges}).graph, Hosts.equal(3), 1.1)
    assert len(Ours(OursSettings(seed=LARGEST_SEED)).place(problem).part) == 12


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("plan good.yaml --forecast rates.csv --horizon 4 --capacity count=100 --epoch 1e400", "2678400"),
        ("autoconfig resume session --steps 3 --steps " + HUGE, "100000"),
        ("history show history --jobs " + HUGE, "must be at most 2147483647"),
        ("learn --tolerance inf", "must be a finite number"),
        ("collect --out x --poll-s 1e300", "must be at most 3155760000"),
        ("collect --out x --duration-s 1e300", "must be at most 3155760000"),
        ("bench fig6 --seeds 4294967296", "up to 4294967295"),
        ("bench fig6 --seeds=", "whole numbers"),
    ],
)
def test_no_number_is_larger_than_what_can_be_counted(line: str, says: str, folder: Path) -> None:
    code, text = outcome(line.split(), folder)
    assert code == 2, text
    assert says in text


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(GenerateSettings, "runs", 10**40), (GenerateSettings, "settle_s", 1e300), (PlanDataSettings, "window_s", 1e300)],
)
def test_neither_is_one_of_a_config_file(kind: type[Settings], name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=f"{name} must be at most"):
        kind.of({name: value})


def test_a_text_that_is_not_utf8_is_refused(folder: Path) -> None:
    code, text = outcome(["costmodel", "generate", "plans", "--ranges", "\udcff"], folder)
    assert (code, "every text must be UTF-8" in text) == (2, True), text
    with pytest.raises(SettingsError, match=r"labs: every text must be UTF-8, but got '\\udcff'"):
        PlanDataSettings.of({"ranges": "\udcff"}, "labs")


@pytest.mark.parametrize(
    "words",
    [["token", "revoke", "\udcff"], ["token", "list", "--store", "sqlite:///\udcff.db"], ["validate", "\udcff.yaml"]],
)
def test_a_text_in_the_store_neither(words: list[str], folder: Path) -> None:
    """It used to end as a defect, in whatever library was given it; a path may well have such bytes."""
    code, text = outcome(words, folder)
    assert code == 2, text
    assert "defect" not in text


@pytest.mark.parametrize(
    "line",
    [
        "sundog show E1 --out sqlite:///new.db",
        "sundog rank sqlite:///new.db --knowledge kb --as-of 2013-12-20",
        "sundog run logs --knowledge kb --as-of 2013-12-20 --out sqlite:///new.db",
    ],
)
def test_an_address_that_nobody_knows_is_refused(line: str, folder: Path) -> None:
    code, text = outcome(line.split(), folder)
    assert (code, "sqlite:///new.db is no address" in text) == (2, True), text


def test_neither_are_halves_of_letters_in_documents(folder: Path) -> None:
    for text, parse in (('{"a\\udcff": 1}', parse_json), ('"\\ud83d"', parse_json), ('"\\U0000D83D"', parse_yaml)):
        with pytest.raises(DocumentError, match="has half a letter"):
            parse(text)
    assert parse_json('"\\ud83e\\udd80"') == "🦀"
    code, text = outcome(["validate", "half.yaml"], folder)
    assert (code, "half a letter" in text) == (2, True), text


def test_a_path_is_shown_and_not_obeyed(folder: Path) -> None:
    """``workloads export`` printed paths, which are no strings and went by what cleans those."""
    code, text = outcome(["workloads", "export", "nexmark-q1", "--out", "\x1b]0;title\x07"], folder)
    assert code == 0, text
    assert "\x1b" not in text
    assert "\x07" not in text
    code, text = outcome(["workloads", "export", "nexmark-q1", "--out", "\x1b]0;title\x07", "--json"], folder)
    assert "\x1b" not in text
    assert json.loads(text)["nexmark-q1"].startswith("\x1b]0;")


def test_nothing_that_can_be_printed_gets_through() -> None:
    console, bad = SafeConsole(), "a\x1b[31mb\u202ec"
    table = Table("x")
    table.add_row(Text(bad))
    with console.capture() as captured:
        for one in (bad, Path(bad), Text(bad), table, [bad], {bad: Path(bad)}, ValueError(bad)):
            console.print(one)
    assert not {"\x1b", "\u202e"} & set(captured.get())


def test_a_report_needs_a_name(folder: Path) -> None:
    code, text = outcome(["demo", "--out", ""], folder)
    assert (code, "cannot be written" in text) == (2, True), text
