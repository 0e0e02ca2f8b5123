"""Commands that use a model: tune, recommend, compare, pretrain, model show, bench."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from streamtune.cli import main
from streamtune.tuners import NEED_A_COST_MODEL, tuner_names


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["streamtune", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code if isinstance(caught.value.code, int) else 0


def answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run(monkeypatch, *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_tune_with_a_model_and_a_state(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], small_model: Path, tmp_path: Path
) -> None:
    options = ("--model", str(small_model), "--state", str(tmp_path / "state.db"), "--changes", "2")
    first = answer(monkeypatch, capsys, "tune", "nexmark-q5", *options)
    assert first["tuner"] == "streamtune"
    assert not any(change["backpressure"] for change in first["changes"])
    assert (tmp_path / "state.db").exists()
    again = answer(monkeypatch, capsys, "tune", "nexmark-q5", *options)
    assert again["changes"][0]["reconfigurations"] <= 1, "what it learnt is still there"


def test_recommend_shows_curves_and_reasons(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], small_model: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "curves.png"
    common = ("recommend", "nexmark-q5", "--model", str(small_model), "--rate", "7x")
    found = answer(monkeypatch, capsys, *common, "--observe", "1", "--plot", str(picture))
    busy = found["operators"]["bids_per_auction"]
    curve = busy["keeps_up"]
    assert len(curve) == 100
    assert curve[busy["parallelism"] - 1] >= 0.9 > curve[busy["parallelism"] - 2], "the least that is sure enough"
    assert "by its own readings" in busy["why"]
    assert picture.stat().st_size > 5000
    why = {
        job: answer(monkeypatch, capsys, "recommend", job, *common[2:])["operators"]["bids_per_auction"]["why"]
        for job in ("nexmark-q5", "nexmark-q5~tenant-1")
    }
    assert re.search(r"as it did in \d+ earlier readings$", why["nexmark-q5"]), "the model has seen this very job"
    assert "as 'bids_per_auction' of nexmark-q5" in why["nexmark-q5~tenant-1"], "and not its relative"
    assert run(monkeypatch, *common) == 0
    assert "nothing is deployed" in capsys.readouterr().out


def test_a_rate_that_nothing_can_serve_takes_all_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], small_model: Path
) -> None:
    """12 M records/s at 107 k an instance: all 100 of the operator that is short, and the others for the whole rate."""
    known = ("--model", str(small_model))
    totals = {}
    for rate in ("1x", "10x", "90x", "150x", "100000x"):
        found = answer(monkeypatch, capsys, "plan", "nexmark-q5", *known, "--rate", rate)
        totals[rate] = found["plan"]
        short = found["out_of_reach"]
        assert all(found["plan"][key] == 100 for key in short)
        assert ("bids_per_auction" in short) == (rate in ("150x", "100000x"))
        assert (found["certainty"]["reached"] < 0.5) == bool(short)
    plans = list(totals.values())
    for fewer, more in itertools.pairwise(plans):
        assert all(fewer[key] <= more[key] for key in fewer), "more rate never needs fewer instances"
    advised = answer(monkeypatch, capsys, "recommend", "nexmark-q5", *known, "--rate", "150x")["operators"]
    assert advised["bids_per_auction"]["parallelism"] == 100
    assert "even the limit of 100 is not expected to keep up" in advised["bids_per_auction"]["why"]
    assert advised["hot_items"]["parallelism"] == totals["150x"]["hot_items"]


def test_compare_sets_all_tuners_side_by_side(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], small_model: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    stories = answer(
        monkeypatch,
        capsys,
        *("compare", "nexmark-q1", "--model", str(small_model), "--changes", "2", "--report", str(report)),
    )
    assert {story["tuner"] for story in stories} == set(tuner_names()) - set(NEED_A_COST_MODEL)
    assert "conttune" in report.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tune",), "which job?"),
        (("tune", "nexmark-q1", "--engine", "storm"), "unknown engine 'storm'"),
        (("tune", "nexmark-q1", "--tuner", "streamtune-paper"), "needs a model: give --model"),
        (("tune", "nexmark-q1", "--tuner", "magic"), "unknown tuner 'magic'"),
        (("tune", "nexmark-q1", "--model", "nowhere"), "is not a model bundle"),
        (("tune", "nexmark-q1", "--backlog-growth", "0.03"), "has no effect with --engine simulator, only with timely"),
        (("compare", "nexmark-q1", "--tuners", "ds2,magic"), "unknown tuner 'magic'"),
        (("bench", "fig6", "zerotune-speed"), "run the experiments of different papers one after the other"),
        (("bench", "zerotune-oops"), "unknown experiment 'zerotune-oops'"),
        (("bench", "zerotune-speed", "--seeds", "0,1"), "take one seed, but got 0,1"),
        (("bench", "zerotune-real"), "give their file with --real-runs"),
        (("bench", "fig99"), "unknown experiment 'fig99'"),
        (("bench", "fig6", "--seeds", "a"), "--seeds: expected whole numbers"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_model_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], small_model: Path, tmp_path: Path
) -> None:
    assert run(monkeypatch, "model", "show", str(small_model), "--plot", str(tmp_path / "model.png")) == 0
    shown = capsys.readouterr().out
    assert "global" in shown
    assert shown.count("240") >= 3, "the title, the global encoder and the cluster's"
    assert (tmp_path / "model.png").stat().st_size > 5000


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_from_history_to_findings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The main figures on a tiny scale: a history, a model with and without the queries, all tuners, a report."""
    report = tmp_path / "paper.html"
    found = answer(
        monkeypatch,
        capsys,
        *("bench", "fig6", "fig7a", "table3", "--quick", "--changes", "2", "--runs", "120"),
        *("--work", str(tmp_path / "work"), "--report", str(report)),
    )
    by_name = {finding["name"]: finding for finding in found}
    rows = {row[0]: row[1:] for row in by_name["fig7a"]["tables"][0]["rows"]}
    assert {"streamtune", "streamtune, never seen", "paper, svm", "ds2", "conttune", "zerotune"} <= set(rows)
    left = {row[0]: row[1:] for row in by_name["table3"]["tables"][0]["rows"]}
    assert all(float(cell) == 0 for cell in left["streamtune"]), "even so little history leaves no backpressure"
    text = report.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "Table III" in text
    model = next((tmp_path / "work").glob("model-*"))
    assert run(monkeypatch, "tune", "nexmark-q2", "--model", str(model), "--changes", "1") == 0
