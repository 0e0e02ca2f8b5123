"""The Spark harness on a tiny application, in the session that all tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamtune.autoconfig.problem import parse_problem
from streamtune.autoconfig.session import Budget, Plan, run_session
from streamtune.autoconfig.spaces import engine_problem
from streamtune.autoconfig.spark.application import load_application
from streamtune.autoconfig.spark.harness import SparkTarget, spark_objective
from streamtune.errors import StreamTuneError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "autoconfig" / "events.py"
SPACE = {
    "engine": "spark",
    "objective": {"timeout": 120},
    "knobs": {
        "shuffle_partitions": {
            "type": "int", "low": 1, "high": 6, "log": True, "default": 6, "key": "spark.sql.shuffle.partitions",
        },
        "files_per_batch": {"type": "int", "low": 1, "high": 3, "default": 1},
    },
}  # fmt: skip


@pytest.mark.spark
def test_a_users_application_is_tuned_in_one_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTS_FOLDER", str(tmp_path / "events"))
    monkeypatch.setenv("EVENTS_FILES", "3")
    monkeypatch.setenv("EVENTS_ROWS", "50")
    problem = parse_problem(SPACE, "tiny")
    load_application(EXAMPLE).prepare(spark)  # type: ignore[misc]
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        with spark_objective(problem, EXAMPLE, tmp_path, SparkTarget(warm_up=0), session=spark) as objective:
            outcome = run_session(problem, Plan("random", 0, Budget(steps=2)), objective, tmp_path / "store")
            bad = objective.measure(9, 0, {"shuffle_partitions": 2, "files_per_batch": 0})
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before or "2")
    assert [trial.failed for trial in outcome.trials] == [False, False], [trial.reason for trial in outcome.trials]
    figures = outcome.trials[0].measurements[0].figures
    assert outcome.trials[0].value == pytest.approx(figures["rows_per_s"] / figures["baseline_rows_per_s"])
    assert bad.failed  # a batch of no files is refused by Spark: a result, not the end
    assert not list((tmp_path / "checkpoints").glob("*"))


@pytest.mark.parametrize("engine", ["spark", "flink"])
def test_the_spaces_of_the_engines(engine: str) -> None:
    problem = engine_problem(engine)
    assert problem.engine == engine
    assert problem.space.has_defaults
    for knob in problem.space.knobs.values():
        assert knob.description
        assert knob.default is not None


def test_an_engine_without_a_space_is_refused() -> None:
    with pytest.raises(StreamTuneError, match="no space for engine 'storm'"):
        engine_problem("storm")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "needs a function query"),
        ("def query(spark): pass", "needs a function query"),
        ("import nothing_like_this", "does not import: ModuleNotFoundError"),
        ("def query(", "does not import: SyntaxError"),
    ],
)
def test_a_file_that_is_no_application_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(StreamTuneError, match=message):
        load_application(path)


def test_a_missing_application_is_named(tmp_path: Path) -> None:
    with pytest.raises(StreamTuneError, match="is not a file"):
        load_application(tmp_path / "app.py")
