"""The commands, in process, on a small world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from streamtune.cli.sundog import app
from streamtune.errors import StreamTuneError
from sundog.brute_force import count_window
from sundog.examples import ENTITIES, RELATIONS, make_lines

pytestmark = pytest.mark.spark

REQUIRED = ["events", "users", "entity_events", "entity_users", "related_events", "related_users"]


def call(*arguments: str) -> Any:
    """The JSON that a command prints."""
    answer = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def refused(*arguments: str) -> str:
    answer = CliRunner().invoke(app, list(arguments))
    assert isinstance(answer.exception, StreamTuneError), answer.output
    return str(answer.exception)


@pytest.mark.usefixtures("spark")
def test_the_fixed_command(tmp_path: Path, knowledge_folder: Path, write_log: Any) -> None:
    lines = make_lines(120)
    write_log(tmp_path / "logs" / "a.jsonl", lines)
    out = tmp_path / "out"
    arguments = [str(tmp_path / "logs"), "--knowledge", str(knowledge_folder), "--as-of", "2014-01-16", "--window", "7"]
    report = call("run", *arguments, "--out", str(out))
    assert report["counts"]["lines"] == 120
    for name in ("features", "rankings"):
        table = pd.read_parquet(out / name)
        assert set(REQUIRED) <= set(table.columns)
        rows = table.set_index(["entity", "related"])[REQUIRED].to_dict("index")
        assert rows == count_window(lines, ENTITIES, RELATIONS, "2014-01-16", 7)
    answer = CliRunner().invoke(app, ["run", *arguments, "--out", str(out)])
    assert answer.exit_code == 0
    assert "120 lines:" in answer.stdout, "the same again replaces what was there"


@pytest.mark.usefixtures("spark")
def test_the_whole_way(tmp_path: Path) -> None:
    world, out = tmp_path / "world", str(tmp_path / "out")
    knowledge, truth = ["--knowledge", str(world / "knowledge")], ["--truth", str(world / "truth")]
    made = call("generate", str(world), "--lines", "4000", "--days", "3", "--entities", "40", "--users", "200")
    assert made["lines"] == 4000
    streamed = call(
        "stream", str(world / "logs"), *knowledge, "--out", out, "--window", "2", "--once", "--rank", "newest"
    )
    assert streamed["counts"]["lines"] == 4000
    for day in ("2013-12-03", "2013-12-04"):
        ranked = call("rank", out, *knowledge, "--as-of", day, "--window", "2")
        assert ranked["rankings"][0]["pairs"] > 50
    model = ["--model", str(tmp_path / "model")]
    trained = call("train", out, "--as-of", "2013-12-03", "--window", "2", *truth, *model, "--folds", "2")
    assert trained["ndcg"] > 0.7
    call("rank", out, *knowledge, "--as-of", "2013-12-04", "--window", "2", *model)
    judged = call("evaluate", out, "--as-of", "2013-12-04", "--window", "2", *truth, "--queries", "20")
    assert judged["relevance"]["NDCG@10"] > 0.7
    assert set(judged) == {"queries", "relevance", "freshness"}
    page = tmp_path / "page.html"
    entity = pd.read_parquet(Path(out) / "rankings")["entity"].mode()[0]
    shown = call("show", entity, "--out", out, "--window", "2", *knowledge, "--page", str(page))
    assert [day["day"] for day in shown["days"]] == ["2013-12-03", "2013-12-04"]
    text = page.read_text()
    assert "<polyline" in text
    assert shown["name"] in text
    plain = CliRunner().invoke(app, ["show", entity, "--out", out, "--window", "2"])
    assert plain.exit_code == 0
    message = refused("rank", out, *knowledge, "--as-of", "2013-12-04", "--window", "3", *model)
    assert "trained on windows of 2 days, but --window is 3" in message


def test_bad_input_is_told_in_a_sentence(tmp_path: Path, knowledge_folder: Path) -> None:
    knowledge, out = ["--knowledge", str(knowledge_folder)], ["--out", str(tmp_path / "out")]
    assert "but got '2014-13-01'" in refused("run", "logs", *knowledge, "--as-of", "2014-13-01", *out)
    (tmp_path / "foreign" / "features").mkdir(parents=True)
    (tmp_path / "foreign" / "features" / "thesis.txt").write_text("mine")
    foreign = ["--out", str(tmp_path / "foreign")]
    assert "not from Sundog" in refused("run", "logs", *knowledge, "--as-of", "2014-01-01", *foreign)
    file = ["--out", str(knowledge_folder / "entities.jsonl")]
    assert "is not a folder" in refused("run", "logs", *knowledge, "--as-of", "2014-01-01", *file)
    assert "jsonl or parquet, but got 'csv'" in refused("generate", str(tmp_path / "w"), "--format", "csv")
    assert "there are no rankings" in refused("show", "x", *out)
    assert "no entity has the id or the name 'nix'" in refused("show", "nix", *out, *knowledge)
    assert "2 entities are called 'å'" in refused("show", "å", *out, *knowledge)
    assert "it is a folder" in refused("show", "ny", *out, "--page", str(tmp_path))
    assert (
        CliRunner().invoke(app, ["run", "logs", *knowledge, "--as-of", "2014-01-01", *out, "--window", "0"]).exit_code
    )


def test_paths_that_are_not_there_are_refused_before_spark_starts(
    tmp_path: Path, knowledge_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamtune.spark.session.build_session", lambda *_: pytest.fail("Spark was started"))
    knowledge, day = ["--knowledge", str(knowledge_folder)], ["--as-of", "2014-01-01"]
    out, nowhere = ["--out", str(tmp_path / "out")], str(tmp_path / "nowhere")
    file = str(knowledge_folder / "entities.jsonl")
    assert f"no file or folder '{nowhere}'" in refused("run", nowhere, *knowledge, *day, *out)
    assert f"there is no folder '{nowhere}'" in refused("run", file, "--knowledge", nowhere, *day, *out)
    assert f"{file} is not a folder" in refused("run", file, "--knowledge", file, *day, *out)
    assert "has no entities.jsonl" in refused("run", file, "--knowledge", str(tmp_path), *day, *out)
    assert f"there is no folder '{nowhere}' to follow" in refused("stream", nowhere, *knowledge, *out)
    assert f"there are no rankings in {nowhere}" in refused("rank", nowhere, *knowledge, *day)
    assert f"there are no rankings in {nowhere}" in refused("train", nowhere, *day, "--model", str(tmp_path / "m"))
