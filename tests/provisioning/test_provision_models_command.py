"""``streamtune provision sample | train | show``, on the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streamtune.cli.output import print_json
from streamtune.cli.provision import app
from streamtune.errors import StreamTuneError
from streamtune.provisioning.oprpm.model import OperatorModel
from streamtune.provisioning.oprpm.regressors import NAMES


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


def test_what_was_not_sampled_is_a_guess(tmp_path: Path) -> None:
    file, model, prices = (str(tmp_path / name) for name in ("co2.json", "model", "prices.yaml"))
    run("sample", "CO2", "--simulated", "--algorithm", "fssa:2", "--out", file)
    run("train", file, "--out", model, "--model", "physical")
    shown = run("show", model, "--at", "0.5:64", "--at", "4:64", "--at", "0.5:2048")["predicted"]
    assert [one["sampled"] for one in shown] == [True, False, False]
    text = CliRunner().invoke(app, ["show", model, "--at", "1:64", "--at", "4:64"], catch_exceptions=False).stdout
    assert "1 core, 64 MiB: " in text
    assert text.count("outside what was sampled (0.1 to 1.2 cores, 20 to 96 MiB): a guess") == 1
    Path(prices).write_text("per_core_hour: 0.04\n")
    assert OperatorModel.load(Path(model)).sampled[1].cpu == 1.2
    idle = CliRunner().invoke(app, ["show", model, "--prices", prices, "--at", "0.5:1"], catch_exceptions=False).stdout
    assert ("no size serves anything" in idle) == ("cheapest per record" not in idle)


def test_the_simulated_state_is_as_large_as_was_said(tmp_path: Path) -> None:
    asked = ("sample", "CMO1", "--simulated", "--algorithm", "fssa:3", "--out", str(tmp_path / "cmo1.json"))
    rates = [
        [one["performance_per_s"] for one in run(*asked, *more)["samples"]] for more in ((), ("--state-mb", "500"))
    ]
    assert rates[1][-1] < 0.8 * rates[0][-1]  # 96 MiB hold what is needed of 50 MiB, and a fifth of 500


def test_no_answer_has_numbers_that_json_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"error": float("inf"), "errors": [float("nan"), 1.5], "rows": ({"a": -float("inf")},)})
    assert json.loads(capsys.readouterr().out) == {"error": None, "errors": [None, 1.5], "rows": [{"a": None}]}


def test_the_help_names_all_models_and_no_summary_is_cut() -> None:
    told = "".join(CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).stdout.split())
    assert all(name in told for name in NAMES)
    summaries = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout.partition("Commands:")[2]
    assert summaries
    assert "..." not in summaries


def slowed(file: str, factor: float, every: int = 1) -> None:
    """The same samples of an operator that got slower, ``every`` so many of them."""
    document = json.loads(Path(file).read_text())
    document["samples"] = document["samples"][::every]
    for one in document["samples"]:
        one["performance_per_s"] *= factor
    Path(file).write_text(json.dumps(document))


@pytest.mark.slow
def test_a_model_is_checked_and_renewed(tmp_path: Path) -> None:
    old, new, model, renewed = (str(tmp_path / name) for name in ("old.json", "new.json", "model", "renewed"))
    run("sample", "CO2", "--simulated", "--algorithm", "fssa:2", "--out", old)
    run("train", old, "--out", model, "--model", "physical")
    run("sample", "CO2", "--simulated", "--algorithm", "fssa:3", "--seed", "4", "--out", new)
    assert run("check", model, new) == {"operator": "CO2", "samples": 6, "fits": True, "said": None}
    slowed(new, 0.6, every=2)
    told = CliRunner().invoke(app, ["check", model, new])
    assert told.exit_code == 1
    assert "'CO2' is slower than its model" in told.stdout
    learned = run("train", new, "--update", model, "--out", renewed, "--model", "physical")
    assert learned["samples"] == 9  # three new ones, each in the place of an old one
    assert run("check", renewed, new)["fits"] is True
    # Half a core did 89,350 records/s; all of it is 0.6 of that now.
    assert run("show", renewed, "--at", "0.5:64")["predicted"][0]["performance_per_s"] == pytest.approx(53_600, rel=0.1)


def test_samples_of_another_operator_are_refused(tmp_path: Path) -> None:
    file, model, other = (str(tmp_path / name) for name in ("co2.json", "model", "co1.json"))
    run("sample", "CO2", "--simulated", "--out", file)
    run("train", file, "--out", model, "--model", "physical")
    run("sample", "CO1", "--simulated", "--out", other)
    for arguments in (["check", model, other], ["train", other, "--update", model, "--out", str(tmp_path / "x")]):
        result = CliRunner().invoke(app, arguments)
        assert isinstance(result.exception, StreamTuneError)
        assert "is a model of 'CO2', but" in str(result.exception)


def test_the_cheapest_size_per_record_is_named(tmp_path: Path) -> None:
    file, model, prices = (str(tmp_path / name) for name in ("co2.json", "model", "prices.yaml"))
    Path(prices).write_text("per_core_hour: 0.04\nper_gib_hour: 0\n")
    run("sample", "CO2", "--simulated", "--algorithm", "fssa:2", "--out", file)
    run("train", file, "--out", model, "--model", "physical")
    # CO2 saturates at 0.88 cores: of 0.8 and 1.2 the smaller one costs less per record.
    advice = run("show", model, "--prices", prices, "--at", "1.2:96", "--at", "0.8:96")["advice"]
    assert (advice["cpu"], advice["memory_mb"], advice["per_hour"]) == (0.8, 96, pytest.approx(0.032))
    million_s = 1e6 / advice["performance_per_s"]
    assert advice["per_million_records"] == pytest.approx(0.032 * million_s / 3600)
    assert run("show", model, "--prices", prices)["advice"]["cpu"] <= 0.9  # of those that were sampled
    text = CliRunner().invoke(app, ["show", model, "--prices", prices], catch_exceptions=False).stdout
    assert "cheapest per record" in text
    assert "TaskManager" in text


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
        (
            ["sample", "CO1", "--largest", "0.1:90000000", "--out", "x.json"],
            "--largest: 0.1:90000000 (0.1 cores, 9e+07 MiB) fits on no machine",
        ),
        (["sample", "CO1", "--largest", "1:9000000", "--out", "x.json"], "9000000 MiB cannot be sampled"),
        (["sample", "CO1", "--simulated", "--largest", "1000:1e9", "--out", "x.json"], "fits on no machine: none has"),
        (
            ["sample", "CO1", "--simulated", "--smallest", "1:96", "--largest", "1:96", "--out", "x.json"],
            "a ladder rises, but got 1 core, 96 MiB as the smallest and 1 core, 96 MiB as the largest",
        ),
        (
            ["sample", "CO1", "--simulated", "--smallest", "1:96", "--largest", "0.1:20", "--out", "x.json"],
            "the largest must have more cores or more memory, and less of neither",
        ),
        (
            ["sample", "CO1", "--simulated", "--algorithm", "fssa:99", "--out", "x.json"],
            "fssa needs a step of at most 15 on a ladder of 16, but got 99",
        ),
        (["sample", "CO1", "--seed", "3", "--out", "x.json"], "--seed is of the simulator's noise: add --simulated"),
        (["sample", "CO1", "--simulated", "--state-mb", "9", "--out", "x.json"], "--state-mb: CO1 has no state"),
        (["train", "missing.json", "--out", "x"], "missing.json cannot be read"),
        (["show", "missing"], "missing is not a streamtune-oprpm"),
    ],
)
def test_bad_arguments_have_one_clear_sentence(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, StreamTuneError)
    assert message in str(result.exception)
