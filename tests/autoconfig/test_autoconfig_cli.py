"""The command line as the issue fixes it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from streamtune.cli import autoconfig
from streamtune.errors import StreamTuneError

app = typer.Typer()
app.add_typer(autoconfig.app)
COMMAND = "echo $(( 100 - ($0 - 5) * ($0 - 5) ))"


def space_file(folder: Path, **more: Any) -> Path:
    data = {
        "objective": {
            "command": ["sh", "-c", COMMAND, "{threads}"],
            "direction": "maximize",
            "timeout": 10,
            "repeats": 1,
        },
        "knobs": {
            "threads": {"type": "int", "low": 1, "high": 16, "key": "spark.cores", "default": 2},
            "codec": {"type": "category", "choices": ["a", "b"]},
        },
        "constraints": ["threads <= 12"],
        **more,
    }
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def invoke(*arguments: str, fails: type[BaseException] | None = None) -> Any:
    result = CliRunner().invoke(app, ["autoconfig", *arguments])
    if fails is None:
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout) if "--json" in arguments else result.stdout
    assert isinstance(result.exception, fails), (result.output, result.exception)
    return str(result.exception)


def test_run_answers_as_fixed(tmp_path: Path) -> None:
    arguments = ["run", str(space_file(tmp_path)), "--steps", "8", "--strategy", "random", "--seed", "3"]
    answer = invoke(*arguments, "--store", str(tmp_path / "s"), "--json")
    assert [one["number"] for one in answer["trials"]] == list(range(8))
    for one in answer["trials"]:
        assert {"number", "knobs", "value", "failed", "seconds"} <= one.keys()
        assert one["value"] == 100 - (one["knobs"]["threads"] - 5) ** 2
        assert one["knobs"]["threads"] <= 12
    assert answer["best"]["value"] == max(one["value"] for one in answer["trials"])
    assert answer["best"]["knobs"] in [one["knobs"] for one in answer["trials"]]
    assert invoke(*arguments, "--store", str(tmp_path / "s"), "--json") == answer  # the same command again
    fresh = invoke(*arguments, "--store", str(tmp_path / "t"), "--json")
    drop = {"seconds"}
    assert [{k: v for k, v in one.items() if k not in drop} for one in fresh["trials"]] == [
        {k: v for k, v in one.items() if k not in drop} for one in answer["trials"]
    ]


def test_resume_and_show(tmp_path: Path) -> None:
    store = str(tmp_path / "s")
    invoke("run", str(space_file(tmp_path)), "--steps", "6", "--strategy", "random", "--store", store)
    answer = invoke("resume", store, "--steps", "10", "--json")
    assert len(answer["trials"]) == 10
    shown = invoke("show", store, "--plots", str(tmp_path / "plots"), "--json")
    assert shown["best"] == answer["best"]
    assert next(iter(shown["importance"])) == "threads"
    assert shown["config_file"].splitlines()[0].startswith("spark.cores: ")
    assert {Path(path).name for path in shown["plots"]} == {"convergence.svg", "parallel.svg"}
    assert all(Path(path).read_text().startswith("<?xml") for path in shown["plots"])
    text = invoke("show", store, "--trials")
    assert "best: " in text
    assert "spark.cores: " in text


def test_resume_keeps_the_limits_that_are_not_given_again(tmp_path: Path) -> None:
    store = str(tmp_path / "s")
    slow = {"command": ["sh", "-c", "sleep 0.2; echo 1"], "timeout": 10}
    path = space_file(tmp_path, objective=slow)
    limits = ["--max-seconds", "0.5", "--max-cost", "9", "--price", "3600"]
    first = invoke("run", str(path), "--steps", "9", "--strategy", "random", "--store", store, *limits, "--json")
    assert first["stopped"].startswith("time: ")
    result = CliRunner().invoke(app, ["autoconfig", "resume", store])
    assert "limits: 9 trials, 0.5 s, 9 of money at 3600 an hour" in result.stderr
    assert "stopped after time: 0." in result.stderr
    assert ", the next trial would take about 0.2" in result.stderr
    result = CliRunner().invoke(app, ["autoconfig", "resume", store, "--max-cost", "0.5", "--max-seconds", "60"])
    assert "limits: 9 trials, 60 s, 0.5 of money at 3600 an hour" in result.stderr
    assert "stopped after money: 0." in result.stderr


@pytest.mark.parametrize(("strategy", "twin"), [("ibo", "bo"), ("ipla", "pla")])
def test_informed_strategies_without_weights_say_so(tmp_path: Path, strategy: str, twin: str) -> None:
    store = str(tmp_path / "s")
    arguments = ["run", str(space_file(tmp_path)), "--steps", "1", "--strategy", strategy, "--store", store]
    result = CliRunner().invoke(app, ["autoconfig", *arguments])
    assert f"no knob has a weight: {strategy} is {twin}" in result.stderr
    assert ("did not measure the defaults" in invoke("show", store)) == (strategy == "ipla")


def test_every_trial_failing_is_told_not_raised(tmp_path: Path) -> None:
    path = space_file(tmp_path, objective={"command": ["false"]})
    answer = invoke("run", str(path), "--steps", "3", "--store", str(tmp_path / "s"), "--json")
    assert answer["best"] is None
    assert [one["failed"] for one in answer["trials"]] == [True] * 3
    assert [one["value"] for one in answer["trials"]] == [None] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--strategy", "best"], "no strategy 'best'"),
        (["--max-seconds", "nan"], "--max-seconds must be a number above 0, but got nan"),
        (["--max-seconds", "-1"], "--max-seconds must be a number above 0, but got -1"),
        (["--max-cost", "inf", "--price", "1"], "--max-cost must be a number above 0, but got inf"),
        (["--max-cost", "5"], "--max-cost and --price belong together"),
        (["--warm-from", "nowhere"], "nowhere holds no session"),
        (["--engine", "storm"], "--engine: expected flink"),
        (["--master", "local[2]"], "--master has no effect without --spark-app"),
        (["--conf", "a=b"], "--conf has no effect without --spark-app"),
        (["--spark-app", "app.py", "--conf", "a"], "--conf must be KEY=VALUE, for instance"),
        (["--engine", "flink", "--url", "http://x:1"], "--engine flink needs --url and --jar"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    store = ["--store", str(tmp_path / "s")]
    assert message in invoke("run", str(space_file(tmp_path)), *arguments, *store, fails=StreamTuneError)
    assert not (tmp_path / "s").exists()


def test_a_space_without_a_command_is_refused(tmp_path: Path) -> None:
    assert "objective.command is missing" in invoke(
        "run", str(space_file(tmp_path, objective={})), fails=StreamTuneError
    )
    assert "nothing to tune" in invoke("run", fails=StreamTuneError)
    assert "holds no session" in invoke("show", str(tmp_path / "none"), fails=StreamTuneError)


def test_markup_in_names_and_values_is_shown_as_it_is(tmp_path: Path) -> None:
    knobs = {"codec": {"type": "category", "choices": ["[red]x[/]", "[bold]"]}}
    path = space_file(tmp_path, knobs=knobs, constraints=[], objective={"command": ["echo", "1"]})
    text = invoke("run", str(path), "--steps", "4", "--strategy", "random", "--store", str(tmp_path / "s"))
    assert "[red]x[/]" in text


def test_a_session_of_a_similar_job_is_a_warm_start(tmp_path: Path) -> None:
    first = str(tmp_path / "first")
    invoke("run", str(space_file(tmp_path)), "--steps", "10", "--strategy", "random", "--store", first)
    best = invoke("show", first, "--json")["best"]
    warm = ["--warm-from", first, "--store", str(tmp_path / "second"), "--json"]
    answer = invoke("run", str(space_file(tmp_path)), "--steps", "2", "--strategy", "ours", *warm)
    assert answer["trials"][0]["knobs"] == best["knobs"]
    assert answer["trials"][0]["why"] == "what a similar job ended with"


def test_a_misspelt_placeholder_is_named(tmp_path: Path) -> None:
    knobs = {"threads": {"type": "int", "low": 1, "high": 4}}
    path = space_file(tmp_path, knobs=knobs, constraints=[], objective={"command": ["echo", "{treads}"]})
    result = CliRunner().invoke(app, ["autoconfig", "run", str(path), "--steps", "1", "--store", str(tmp_path / "s")])
    told = " ".join(result.stderr.split())
    assert "no {placeholder} in the command for threads; {treads} in it names no knob and stays as it is" in told


def test_master_and_conf_reach_the_session_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamtune.autoconfig.spark import harness

    seen: list[harness.SparkTarget] = []

    def build(settings: harness.SparkTarget, _properties: dict[str, str]) -> None:
        seen.append(settings)
        raise StreamTuneError("enough")

    monkeypatch.setattr(harness, "build_session", build)
    (tmp_path / "app.py").write_text("def query(spark, knobs): pass", encoding="utf-8")
    options = ["--master", "local[3]", "--conf", "spark.driver.memory=2g", "--conf", "spark.a=b=c"]
    where = ["--spark-app", str(tmp_path / "app.py"), "--store", str(tmp_path / "s")]
    invoke("run", *where, *options, fails=StreamTuneError)
    assert (seen[0].master, seen[0].conf) == ("local[3]", {"spark.driver.memory": "2g", "spark.a": "b=c"})


def test_a_terminal_gets_a_live_table_and_a_pipe_gets_lines(tmp_path: Path) -> None:
    from rich.console import Console

    from streamtune.autoconfig.choice import choose
    from streamtune.autoconfig.problem import load_problem
    from streamtune.autoconfig.trial import Measurement, Trial
    from streamtune.cli.autoconfig_trials import TrialsView

    problem = load_problem(space_file(tmp_path))
    values = [9.0, 1.0, None, 2.0, 3.0, 4.0, 5.0]
    trials = [
        Trial(number=place, knobs={"threads": place + 1, "codec": "a"},
              measurements=(Measurement(value=value, failed=value is None, reason="" if value else "too many"),))
        for place, value in enumerate(values)
    ]  # fmt: skip
    screens = {}
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=100, height=12)
        with TrialsView(problem, 60, live=True, console=console) as view:
            for place, trial in enumerate(trials):
                view.tell(trial, choose(trials[: place + 1], problem))
        written = console.file.getvalue()  # type: ignore[attr-defined]
        screens[terminal] = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    assert "Trial 7 of 60" in screens[True]
    last = screens[True].rpartition("Trial 7 of 60")[2]
    assert "9 *" in last  # the best is still there, above the newest four
    assert [line.split()[1] for line in last.splitlines() if " a " in line] == ["0", "3", "4", "5", "6"]
    assert screens[False].splitlines()[2] == "3/60  failed: too many  0.0 s  threads=3, codec=a"
    assert "Trial 7" not in screens[False]
