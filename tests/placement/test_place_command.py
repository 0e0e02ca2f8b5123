"""``streamtune place`` from outside: the fixed format, the table, files, and one line per mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from streamtune.cli.place import place
from streamtune.errors import StreamTuneError

GRAPH = {
    "tasks": [{"id": name, "load": 1, "memory_mb": 10} for name in "abcd"],
    "edges": [
        {"from": "a", "to": "b", "bytes_per_s": 10},
        {"from": "c", "to": "d", "bytes_per_s": 20},
        {"from": "b", "to": "c", "bytes_per_s": 1},
    ],
}
app = typer.Typer()
app.command()(place)


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH))
    return str(path)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def answer(*arguments: str) -> dict[str, Any]:
    found = json.loads(run(*arguments, "--json"))
    assert isinstance(found, dict)
    return found


def test_the_fixed_format(graph: str) -> None:
    found = answer("--graph", graph, "--hosts", "2")
    assert set(found["assignment"]) == set("abcd")
    assert found["assignment"]["a"] == found["assignment"]["b"] != found["assignment"]["c"]
    assert (found["remote_bytes_per_s"], found["total_bytes_per_s"], found["imbalance"]) == (1, 31, 1)
    assert 0 <= found["seconds"] < 60


@pytest.mark.parametrize(
    "name", ["ours", "even", "even-random", "greedy", "metis", "metis-vol", "metis-recursive", "exact", "ours-link"]
)
def test_every_scheduler_answers(graph: str, name: str) -> None:
    found = answer("--graph", graph, "--hosts", "2", "--scheduler", name, "--imbalance", "1.5")
    assert found["scheduler"] == name
    remote = sum(
        edge["bytes_per_s"]
        for edge in GRAPH["edges"]
        if found["assignment"][edge["from"]] != found["assignment"][edge["to"]]  # type: ignore[index]
    )
    assert found["remote_bytes_per_s"] == remote


def test_hosts_from_a_file_with_zones_and_prices(graph: str, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(
        "hosts:\n- {name: x, cpu: 2, zone: east}\n- {name: y, cores: 2, memory_gb: 1, zone: west}\nprice_per_gb: 0.02\n"
    )
    found = answer("--graph", graph, "--hosts", str(hosts))
    assert set(found["assignment"].values()) == {"x", "y"}
    assert found["cross_zone_bytes_per_s"] == 1
    assert found["price_per_s"] == pytest.approx(0.02e-9)


def test_what_would_move_and_pins(graph: str, tmp_path: Path) -> None:
    today = tmp_path / "today.json"
    today.write_text(json.dumps({"a": "h0", "b": "h1", "c": "h0", "d": "h1"}))
    found = answer("--graph", graph, "--hosts", "2", "--current", str(today))
    assert len(found["moves"]) == 2
    pinned = answer("--graph", graph, "--hosts", "2", "--pin", "a=h1", "--pin", "c=h0")
    assert pinned["assignment"] == {"a": "h1", "b": "h1", "c": "h0", "d": "h0"}


def test_a_job_is_compared_and_advised() -> None:
    text = run("nexmark-q5", "--plan", "4", "--hosts", "4", "--price-per-gb", "0.02")
    for word in ("even-random", "greedy", "metis", "ours", "month", "subtask i of all operators into one slot"):
        assert word in text.replace("\n", " ")
    found = answer("nexmark-q5", "--plan", "4", "--hosts", "4")
    assert set(found["comparison"]) == {"flink", "even", "even-random", "greedy", "metis", "ours", "ours-link"}
    assert found["comparison"]["ours"]["remote_bytes_per_s"] <= found["comparison"]["flink"]["remote_bytes_per_s"]
    assert "cannot be pinned" in found["advice"][0]["text"]


def test_files_are_written(tmp_path: Path) -> None:
    out, groups, plot = tmp_path / "new" / "out.json", tmp_path / "groups.json", tmp_path / "hosts.svg"
    run(
        "nexmark-q1",
        "--plan",
        "2",
        "--hosts",
        "2",
        "--out",
        str(out),
        "--slot-groups",
        str(groups),
        "--plot",
        str(plot),
    )
    assignment = json.loads(out.read_text())
    written = json.loads(groups.read_text())
    assert written["task_groups"] == assignment
    for host, group in written["groups"].items():
        assert all(assignment[task] == host for task in group["tasks"])
        assert group["external_resource"] in group["java"]
    assert plot.read_text().startswith("<?xml")


def refusals(tmp_path: Path) -> dict[str, list[str]]:
    files = {
        "broken.json": "{",
        "list.json": "[]",
        "twice.json": '{"tasks": [{"id": "a", "load": 1}, {"id": "a", "load": 1}]}',
        "missing.json": '{"tasks": [{"id": "a"}]}',
        "text.json": '{"tasks": [{"id": "a", "load": "much"}]}',
        "negative.json": '{"tasks": [{"id": "a", "load": -1}]}',
        "nan.json": '{"tasks": [{"id": "a", "load": NaN}]}',
        "edge.json": '{"tasks": [{"id": "a", "load": 1}], "edges": [{"from": "a", "to": "z", "bytes_per_s": 1}]}',
        "key.json": '{"tasks": [{"id": "a", "load": 1, "cpu": 1}]}',
        "endless.json": '{"tasks": [{"id": "a", "load": 1e308}, {"id": "b", "load": 1e308}]}',
        "empty.json": '{"tasks": [], "edges": []}',
        "good.json": json.dumps(GRAPH),
        "hosts.yaml": "- {name: a, memory: 5}\n",
        "small.yaml": "- {name: a, memory_mb: 5}\n",
        "nothing.yaml": "3\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    good = ["--graph", "good.json", "--hosts"]
    return {
        "in line 1. Expected a JSON object with tasks and edges": ["--graph", "broken.json", "--hosts", "2"],
        "must be an object with tasks and edges": ["--graph", "list.json", "--hosts", "2"],
        "'a' is used twice": ["--graph", "twice.json", "--hosts", "2"],
        "task #1 has no load": ["--graph", "missing.json", "--hosts", "2"],
        "task 'a': load must be a number, but got 'much'": ["--graph", "text.json", "--hosts", "2"],
        "at least 0, but got -1": ["--graph", "negative.json", "--hosts", "2"],
        "NaN is not a JSON number": ["--graph", "nan.json", "--hosts", "2"],
        "edge #1: to names task 'z', which is not there": ["--graph", "edge.json", "--hosts", "2"],
        "unknown key 'cpu'": ["--graph", "key.json", "--hosts", "2"],
        "load adds up to inf, the most is 1e+250: use a larger unit": ["--graph", "endless.json", "--hosts", "2"],
        "has no tasks": ["--graph", "empty.json", "--hosts", "2"],
        "cannot be read: No such file": ["--graph", "nowhere.json", "--hosts", "2"],
        "--hosts is missing": ["--graph", "good.json"],
        "must be between 1 and": [*good, "0"],
        "number of hosts must be between 1 and 100000, but got -3": [*good, "-3"],
        "expected a number such as 10": [*good, "ten"],
        "extra inputs are not permitted": [*good, "hosts.yaml"],
        "must be a list of hosts": [*good, "nothing.yaml"],
        "needs 10 MB, the largest host has 5": [*good, "small.yaml"],
        "no scheduler 'magic'": [*good, "2", "--scheduler", "magic"],
        "at least 1, but got 0.5": [*good, "2", "--imbalance", "0.5"],
        "but got nan": [*good, "2", "--imbalance", "nan"],
        "--price-per-gb must be finite": [*good, "2", "--price-per-gb", "-1"],
        "expected task=host": [*good, "2", "--pin", "a"],
        "that host is not there": [*good, "2", "--pin", "a=h9"],
        "--current": [*good, "2", "--current", "list.json"],
        "cannot be written: it is a folder": [*good, "2", "--out", "."],
        "one of JOB, --graph FILE and --engine": ["--hosts", "2"],
        "but got JOB and --graph": ["nexmark-q1", *good, "2"],
        "needs --url": ["--engine", "flink"],
        "can look at flink": ["--engine", "storm"],
        "http://127.0.0.1:9 cannot be reached": ["--engine", "flink", "--url", "http://127.0.0.1:9"],
        "no operator 'x'": ["nexmark-q1", "--hosts", "2", "--record-bytes", "x=3"],
        "needs a number of at least 0": ["nexmark-q1", "--hosts", "2", "--state-mb", "bids=-3"],
    }


@pytest.mark.slow
def test_mistakes_get_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = refusals(tmp_path)
    monkeypatch.chdir(tmp_path)
    for message, arguments in cases.items():
        with pytest.raises(StreamTuneError) as caught:
            run(*arguments)
        assert message in str(caught.value), arguments
        assert "\n" not in str(caught.value)
