"""The Spark harness on a tiny application, in the session that all tests share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from streamtune.autoconfig.budget import Budget
from streamtune.autoconfig.problem import parse_problem
from streamtune.autoconfig.session import Plan, run_session
from streamtune.autoconfig.spaces import engine_problem
from streamtune.autoconfig.spark import harness
from streamtune.autoconfig.spark.application import Application, load_application
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


class FakeSpark:
    """A session whose serialiser cannot be changed while it runs, as Spark's cannot."""

    started = 0

    def __init__(self, properties: Mapping[str, str]) -> None:
        FakeSpark.started += 1
        self.properties = dict(properties)
        self.conf = SimpleNamespace(isModifiable=lambda key: key != "spark.serializer", set=self._set)
        self.stopped = False
        context = SimpleNamespace(isStopped=lambda: self.stopped)
        self.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context))

    def _set(self, key: str, value: str) -> None:
        assert key != "spark.serializer"
        self.properties[key] = value

    def stop(self) -> None:
        self.stopped = True


class FakeQuery:
    """Reads 100 rows: in 1 s, or in half a second with Kryo, and twice as slow with one shuffle partition."""

    isActive = False  # noqa: N815  as Spark spells it

    def __init__(self, spark: FakeSpark) -> None:
        assert not spark.stopped
        ms = 500 if spark.properties["spark.serializer"] == "kryo" else 1000
        ms *= 2 if spark.properties["spark.sql.shuffle.partitions"] == "1" else 1
        self.recentProgress = [{"batchId": 0, "numInputRows": 100, "durationMs": {"triggerExecution": ms}}]

    def option(self, *_: str) -> FakeQuery:
        return self

    def trigger(self, **_: bool) -> FakeQuery:
        return self

    def start(self) -> FakeQuery:
        return self

    def exception(self) -> None:
        return None


def test_a_static_knob_gets_a_new_session_and_keeps_its_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knobs = {
        "serializer": {"type": "category", "choices": ["java", "kryo"], "default": "java", "key": "spark.serializer"},
        "partitions": {"type": "int", "low": 1, "high": 6, "default": 6, "key": "spark.sql.shuffle.partitions"},
    }
    problem = parse_problem({"engine": "spark", "knobs": knobs}, "static")
    monkeypatch.setattr(harness, "build_session", lambda _settings, properties: FakeSpark(properties))
    application = Application(tmp_path / "app.py", lambda spark, _knobs: FakeQuery(spark), None)
    expected = {("java", 6): 1.0, ("kryo", 6): 2.0, ("java", 1): 0.5, ("kryo", 1): 1.0}
    for steps in (3, 8):  # a resumed session begins with a new session of Spark
        objective = harness.SparkObjective(problem, application, tmp_path, SparkTarget(baseline_every=3))
        outcome = run_session(problem, Plan("random", 1, Budget(steps=steps)), objective, tmp_path / "store")
        objective.close()
    assert len(outcome.trials) == 8
    assert {str(trial.knobs["serializer"]) for trial in outcome.trials} == {"java", "kryo"}
    for trial in outcome.trials:
        known = expected.get((str(trial.knobs["serializer"]), 1 if trial.knobs["partitions"] == 1 else 6))
        assert trial.value == pytest.approx(known), trial


def test_a_trial_that_ends_the_session_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = {
        "serializer": {"type": "category", "choices": ["java", "kryo"], "default": "java", "key": "spark.serializer"},
        "partitions": {"type": "int", "low": 1, "high": 6, "default": 6, "key": "spark.sql.shuffle.partitions"},
    }
    problem = parse_problem({"engine": "spark", "knobs": knobs}, "static")

    def build(_settings: SparkTarget, properties: Mapping[str, str]) -> FakeSpark:
        if properties["spark.serializer"] == "kryo":
            raise RuntimeError("no such class")
        return FakeSpark(properties)

    monkeypatch.setattr(harness, "build_session", build)
    application = Application(tmp_path / "app.py", lambda spark, _knobs: FakeQuery(spark), None)
    objective = harness.SparkObjective(problem, application, tmp_path, SparkTarget(baseline_every=3))
    measured = [objective.measure(n, 0, {"serializer": s, "partitions": 6}) for n, s in enumerate(["java", "kryo"] * 2)]
    assert [one.value for one in measured] == [1.0, None, 1.0, None]
    assert measured[1].reason == "RuntimeError: no such class"


class LongQuery(FakeQuery):
    """A hundred batches, a new one at every look."""

    isActive = True  # noqa: N815 - as Spark spells it

    def __init__(self, spark: FakeSpark) -> None:
        super().__init__(spark)
        self.batch = dict(self.recentProgress[0])
        self.recentProgress = []

    def awaitTermination(self, _seconds: float) -> None:  # noqa: N802 - as Spark spells it
        count = len(self.recentProgress) + 1
        self.recentProgress = [{**self.batch, "batchId": place} for place in range(count)]
        self.isActive = count < 100

    def stop(self) -> None:
        self.isActive = False


@pytest.mark.parametrize(("hopeless", "batches"), [(None, 100.0), (0.4, 100.0), (0.6, 4.0)])
def test_a_hopeless_run_is_stopped_as_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hopeless: float | None, batches: float
) -> None:
    """One partition is half as fast as the best: nothing to stop at 0.4 of it, four batches at 0.6."""
    knob = {"type": "int", "low": 1, "high": 6, "default": 6, "key": "spark.sql.shuffle.partitions"}
    data = {"engine": "spark", "knobs": {"partitions": knob}, "objective": {"hopeless": hopeless}}
    monkeypatch.setattr(harness, "build_session", lambda _s, p: FakeSpark({"spark.serializer": "java", **p}))
    application = Application(tmp_path / "app.py", lambda spark, _knobs: LongQuery(spark), None)
    settings = SparkTarget(warm_up=0, baseline_every=1)
    objective = harness.SparkObjective(parse_problem(data, "space.yaml"), application, tmp_path, settings)
    good, bad = (objective.measure(n, 0, {"partitions": partitions}) for n, partitions in enumerate((6, 1)))
    assert (good.value, good.figures["batches"]) == (1.0, 100.0)
    assert not bad.failed
    assert (bad.value, bad.figures["batches"]) == (0.5, batches)
    assert ("stopped_early" in bad.figures) == (batches == 4.0)
    assert bad.figures["baseline_rows_per_s"] == 100.0  # baselines are never stopped


def test_requirements_are_heeded_and_minimising_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knob = {"type": "int", "low": 1, "high": 6, "default": 6, "key": "spark.sql.shuffle.partitions"}
    data = {"engine": "spark", "knobs": {"partitions": knob}, "objective": {"require": "rows_per_s >= 90"}}
    monkeypatch.setattr(harness, "build_session", lambda _s, p: FakeSpark({"spark.serializer": "java", **p}))
    application = Application(tmp_path / "app.py", lambda spark, _knobs: FakeQuery(spark), None)
    problem = parse_problem(data, "space.yaml")
    objective = harness.SparkObjective(problem, application, tmp_path, SparkTarget())
    assert not objective.measure(0, 0, {"partitions": 6}).failed
    assert "'rows_per_s >= 90' is not met" in objective.measure(1, 0, {"partitions": 1}).reason
    less = parse_problem({**data, "objective": {"direction": "minimize"}}, "space.yaml")
    with pytest.raises(StreamTuneError, match="value of a Spark application is its throughput"):
        harness.SparkObjective(less, application, tmp_path, SparkTarget())


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
