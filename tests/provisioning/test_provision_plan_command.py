"""``streamtune provision plan``: the fixed format, and one clear sentence for each kind of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streamtune.cli.provision import app
from streamtune.errors import StreamTuneError
from streamtune.provisioning.problem import load_problem

GOOD: dict[str, Any] = {
    "sizes": [
        {"name": "small", "cpu": 0.5, "memory_mb": 256, "performance_per_s": 100, "price": 1},
        {"name": "large", "cpu": 2, "memory_mb": 512, "performance_per_s": 350, "price": 3},
    ],
    "start_cost": 0.5,
    "stop_cost": 0,
    "workload": [90, 340, 120],
}


def written(folder: Path, problem: Any, name: str = "problem.json") -> str:
    file = folder / name
    file.write_text(problem if isinstance(problem, str) else json.dumps(problem))
    return str(file)


def answer(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_the_answer_has_the_fixed_format(tmp_path: Path) -> None:
    found = answer("plan", written(tmp_path, GOOD))
    # Running 1 + 3 + 2, and three starts at 0.5: one large, then two small.
    assert found["cost"] == pytest.approx(7.5)
    assert found["running_cost"] == pytest.approx(6.0)
    assert (found["starts"], found["stops"], found["optimal"], found["gap"]) == (3, 2, True, 0)
    assert found["plan"] == [{"small": 1, "large": 0}, {"small": 0, "large": 1}, {"small": 2, "large": 0}]
    assert found["seconds"] > 0


def test_a_workload_may_be_a_csv_beside_a_yaml_problem(tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("time,rate\n00:00,90\n00:15,340\n00:30,120\n")
    problem = "\n".join(
        [
            "sizes:",
            "  - {name: small, cpu: 0.5, memory_mb: 256, performance_per_s: 100, price: 1}",
            "start_cost: 0.5",
            "stop_cost: 0",
            "workload: rates.csv",
            "initial: {small: 1}",
        ]
    )
    found = answer("plan", written(tmp_path, problem, "problem.yaml"))
    assert found["plan"] == [{"small": 1}, {"small": 4}, {"small": 2}]
    assert found["starts"] == 3


@pytest.mark.parametrize("method", ["exact", "qcesa", "cba:small", "cba:large", "peak"])
def test_every_method_serves_every_epoch(tmp_path: Path, method: str) -> None:
    found = answer("plan", written(tmp_path, GOOD), "--method", method)
    for row, rate in zip(found["plan"], GOOD["workload"], strict=True):
        assert 100 * row["small"] + 350 * row["large"] >= rate
    assert found["cost"] >= 7.5 - 1e-9
    assert found["gap"] == pytest.approx(1 - 7.5 / found["cost"])


def test_the_table_names_what_was_proven(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["plan", written(tmp_path, GOOD)], catch_exceptions=False)
    assert "optimal" in result.stdout
    assert "3 starts, 2 stops" in result.stdout


BAD = {
    "negative_rate": ({"workload": [1, -2]}, "workload of epoch 1 must be finite and at least 0, but got -2"),
    "no_epoch": ({"workload": []}, "workload: "),
    "a_word": ({"workload": ["many"]}, "workload.0: "),
    "two_of_a_name": ({"sizes": [GOOD["sizes"][0]] * 2}, "two sizes are called 'small'"),
    "unknown_initial": ({"initial": {"huge": 1}}, "no size 'huge': the sizes are small, large"),
    "negative_initial": ({"initial": {"small": -1}}, "'small' must be at least 0, but got -1"),
    "negative_start": ({"start_cost": -1}, "start_cost: Input should be greater than or equal to 0, but got -1"),
    "unknown_key": ({"stopcost": 1}, "stopcost: Extra inputs are not permitted"),
    "no_machine": (
        {"largest_machine": {"cpu": 1, "memory_mb": 4096}},
        "size 'large' (2 cores, 512 MiB) fits on no machine: the largest has 1 cores",
    ),
    "nothing_serves": (
        {"sizes": [{"name": "idle", "cpu": 1, "memory_mb": 1, "performance_per_s": 0, "price": 1}]},
        "nothing can serve the workload of epoch 1 (340 records/s)",
    ),
    "wrong_units": ({"workload": [1e12]}, "needs more than a million instances of the strongest size"),
    "no_csv": ({"workload": "missing.csv"}, "missing.csv cannot be read"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_problems_have_one_clear_sentence(tmp_path: Path, case: str) -> None:
    change, message = BAD[case]
    file = Path(written(tmp_path, {**GOOD, **change}))
    with pytest.raises(StreamTuneError) as error:
        load_problem(file)
    assert message in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"), [("[1, 2", "is not valid JSON: .* in line 1"), ("[1, 2]", "must be a mapping")]
)
def test_files_that_hold_no_problem(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StreamTuneError, match=message):
        load_problem(Path(written(tmp_path, text)))


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_json_numbers_that_are_none(tmp_path: Path, value: str) -> None:
    text = json.dumps(GOOD).replace("340", value)
    with pytest.raises(StreamTuneError, match=f"is not valid JSON: {value} is not a JSON number"):
        load_problem(Path(written(tmp_path, text)))


@pytest.mark.parametrize(
    ("text", "line", "got"),
    [
        ("rate\n90\n,\n120\n", 3, "nothing"),
        ("rate\n90\n\n120\n", 3, "nothing"),  # an empty line is an epoch without a rate, not no epoch
        ("\n\nrate\n90\n", 1, "nothing"),
        ("00:00,\n00:15,340\n", 1, "nothing"),  # no header: an empty first rate
        ("9o\n340\n", 1, "'9o'"),
        ('"two\nlines",rate\n0,90\n1,much\n', 4, "'much'"),
        ("time,rate\n0,90\n1,\n", 3, "nothing"),
    ],
)
def test_a_gap_in_a_csv_is_named_by_its_line(tmp_path: Path, text: str, line: int, got: str) -> None:
    (tmp_path / "rates.csv").write_text(text)
    with pytest.raises(StreamTuneError, match=rf"rates\.csv, line {line}: expected records/s, but got {got}\. Fill"):
        load_problem(Path(written(tmp_path, {**GOOD, "workload": "rates.csv"})))


def test_empty_lines_at_the_end_of_a_csv_are_no_epochs(tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("rate\n90\n340\n\n \n")
    assert load_problem(Path(written(tmp_path, {**GOOD, "workload": "rates.csv"}))).workload == (90, 340)


def test_unknown_methods_and_sizes(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    for method, message in (("best", "unknown method 'best'"), ("cba:huge", "there is no size 'huge'")):
        result = CliRunner().invoke(app, ["plan", file, "--method", method])
        assert isinstance(result.exception, StreamTuneError)
        assert message in str(result.exception)
