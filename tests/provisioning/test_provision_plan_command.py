"""``streamtune provision plan``: the fixed format, and one clear sentence for each kind of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streamtune.cli.provision import app
from streamtune.errors import StreamTuneError
from streamtune.provisioning import Problem, SolverSettings, methods, plan_by
from streamtune.provisioning.plans import ProvisionPlan
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
    "no_epoch": ({"workload": []}, "workload: is empty: give at least one"),
    "a_word": ({"workload": ["many"]}, "workload.0: "),
    "two_of_a_name": ({"sizes": [GOOD["sizes"][0]] * 2}, "two sizes are called 'small'"),
    "unknown_initial": ({"initial": {"huge": 1}}, "no size 'huge': the sizes are small, large"),
    "negative_initial": ({"initial": {"small": -1}}, "'small' must be at least 0, but got -1"),
    "negative_start": ({"start_cost": -1}, "start_cost: Input should be greater than or equal to 0, but got -1"),
    "unknown_key": (
        {"stopcost": 1},
        "stopcost: unknown field; the fields are sizes, start_cost, stop_cost, workload, initial, largest_machine",
    ),
    "unknown_key_of_a_size": (
        {"sizes": [{**GOOD["sizes"][0], "gpu": 1}]},
        "size 'small': gpu: unknown field; the fields are name, cpu, memory_mb, performance_per_s, price",
    ),
    "a_price_below_nought": ({"sizes": [{**GOOD["sizes"][0], "price": -1}]}, "size 'small': price: Input should be"),
    "no_price": (
        {"sizes": [{key: one for key, one in GOOD["sizes"][0].items() if key != "price"}]},
        "size 'small': price: is missing",
    ),
    "no_sizes": ({"sizes": []}, "sizes: is empty: give at least one"),
    "a_rate_for_all": ({"workload": 90}, "workload: must be a list, but got 90"),
    "a_gap": ({"workload": [90, None, 120]}, "the workload of epoch 1 is missing: fill the gap or remove the epoch"),
    "true_as_a_count": ({"initial": {"small": True}}, "initial.small: must be a number, but got true"),
    "true_as_a_rate": ({"workload": [True]}, "workload.0: must be a number, but got true"),
    "a_billion_running": ({"initial": {"small": 10**9}}, "'small' must be at most 1,000,000, but got 1,000,000,000"),
    "more_cores_than_exist": (
        {"sizes": [{**GOOD["sizes"][0], "cpu": 1e6}]},
        "size 'small' (1e+06 cores, 256 MiB) fits on no machine: none has more than 1,024 cores or 64 TiB. Check the",
    ),
    "more_memory_than_exists": ({"sizes": [{**GOOD["sizes"][0], "memory_mb": 1e15}]}, "fits on no machine: none has"),
    "no_machine": (
        {"largest_machine": {"cpu": 1, "memory_mb": 4096}},
        "size 'large' (2 cores, 512 MiB) fits on no machine: the largest has 1 core and 4096 MiB",
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


def workload_of(folder: Path, text: str) -> tuple[float, ...]:
    (folder / "rates.csv").write_text(text)
    return load_problem(Path(written(folder, {**GOOD, "workload": "rates.csv"}))).workload


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("90,340,120\n", "has a single row of 3 columns: write one row per epoch"),
        ("time,rate\n0,90\n60,340\n240,120\n300,9\n", "line 4: 2 epochs are missing before it. Fill the gap"),
        ("0,90\n60,340\n180,120\n240,5\n", "line 3: one epoch is missing before it. Fill the gap"),
        ("time,rate\n23:30,9\n23:45,9\n00:00,9\n00:45,9\n", "line 5: 2 epochs are missing before it"),
        ("date,rate\n2024-01-01 00:00,9\n2024-01-01 01:00,9\n2024-01-01 05:00,9\n", "line 4: 3 epochs are missing"),
        ("time,rate\n0,9\n60,9\n145,9\n205,9\n", "line 4: 85 s after the row before it, but epochs are 60 s"),
        ("time,rate\n120,9\n60,9\n0,9\n", "line 3: its time is not after the one before it: sort the rows"),
        ("offered,time\n9,0\n", "the last column is called 'time', and no other one is the rate"),
        ("0,90\n60,340,3\n", "line 2: 3 columns, but the first row has 2"),
        ("time,rate\n0,90\n60\n", "line 3: 1 column, but the first row has 2"),
    ],
)
def test_a_csv_is_not_taken_for_something_else(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StreamTuneError) as error:
        workload_of(tmp_path, text)
    assert str(tmp_path / "rates.csv") in str(error.value)
    assert message in str(error.value)


def test_the_rates_are_the_column_that_says_so(tmp_path: Path) -> None:
    assert workload_of(tmp_path, "rate,time\n90,0\n340,60\n120,120\n") == (90, 340, 120)
    assert workload_of(tmp_path, "rate,offered,time\n9,8,0\n") == (9,)
    assert workload_of(tmp_path, "rate (1/s)\n90\n340\n") == (90, 340)
    assert workload_of(tmp_path, "time,rate\n0.2,90\n60,340\n119.7,120\n") == (90, 340, 120)  # stamps jitter
    months = "date,rate\n2024-01-01,9\n2024-02-01,8\n2024-03-01,7\n2024-04-01,6\n"
    assert workload_of(tmp_path, months) == (9, 8, 7, 6)
    assert workload_of(tmp_path, "3,90\n1,340\n9,120\n") == (90, 340, 120)  # no times


def test_files_may_begin_with_the_mark_that_windows_writes(tmp_path: Path) -> None:
    assert workload_of(tmp_path, "\ufeff90\n340\n") == (90, 340)
    assert load_problem(Path(written(tmp_path, "\ufeff" + json.dumps(GOOD)))).epochs == 3


def test_the_bound_of_a_rival_takes_two_seconds_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = []

    def seen(method: str, problem: Problem, settings: SolverSettings) -> ProvisionPlan:
        spent.append((method, settings.seconds))
        return plan_by(method, problem, settings)

    monkeypatch.setattr(methods, "plan_by", seen)
    file = written(tmp_path, GOOD)
    for method, *more in (("peak",), ("cba:small",), ("exact",), ("peak", "--seconds", "5")):
        answer("plan", file, "--method", method, *more)
    assert [seconds for _, seconds in spent[:2]] == [2.0, 2.0]
    assert (spent[2][1] or 0) > 2
    assert spent[3][1] == 5.0


def test_empty_lines_at_the_end_of_a_csv_are_no_epochs(tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("rate\n90\n340\n\n \n")
    assert load_problem(Path(written(tmp_path, {**GOOD, "workload": "rates.csv"}))).workload == (90, 340)


def test_unknown_methods_and_sizes(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    for method, message in (("best", "unknown method 'best'"), ("cba:huge", "there is no size 'huge'")):
        result = CliRunner().invoke(app, ["plan", file, "--method", method])
        assert isinstance(result.exception, StreamTuneError)
        assert message in str(result.exception)
