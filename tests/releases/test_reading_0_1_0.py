"""What release 0.1.0 wrote is read by this one: histories, bundles, cost models, state files, audit trails.

``v0_1_0/README.md`` says how each file was made; ``v0_1_0/expected`` is what 0.1.0 itself printed when it read them.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamtune.control.audit import read_audit
from streamtune.dataflow import Run
from streamtune.dataflow.spec import load_spec
from streamtune.engines.flink.overrides import load_overrides
from streamtune.history.cluster import assignment, centres
from streamtune.history.featurise import featurise
from streamtune.history.ingest import ingest
from streamtune.history.label import label, labelling_of
from streamtune.history.store import History
from streamtune.readings import LabelSettings, label_observation

FILES = Path(__file__).parent / "v0_1_0"


def expected(name: str) -> Any:
    return json.loads((FILES / "expected" / name).read_text())


def runs_of(name: str = "runs.jsonl") -> list[Run]:
    return [Run.model_validate_json(line) for line in (FILES / name).read_text().splitlines()]


def test_runs_of_version_1_are_observations() -> None:
    runs = runs_of()
    assert len(runs) == 72
    assert {run.schema_version for run in runs} == {1}
    for run in runs:
        seen = run.observation
        assert set(seen.operators) == set(run.dataflow.index)
        assert seen.reports_backpressure == (run.engine != "timely")
        assert seen.busy_resolution == (0.02 if run.engine == "flink" else 0.002)
        again = Run.of(run.run_id, _job(run), run.engine, seen)
        assert [one.model_dump(mode="json") for one in again.operators] == [
            one.model_dump(mode="json") for one in run.operators
        ]


def _job(run: Run) -> Any:
    from streamtune.dataflow import Job

    return Job(run.job, run.dataflow, 1000)


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    place = tmp_path_factory.mktemp("old") / "history"
    shutil.copytree(FILES / "history", place)
    return History(spark, str(place))


@pytest.mark.spark
def test_an_old_history_is_read_labelled_and_featurised(history: History) -> None:
    stored = {row.run_id: list(row.labels) for row in history.labels.read().collect()}
    assert history.runs.read().count() == 67
    assert labelling_of(history) == LabelSettings(), "0.1.0 did not keep the rule: it is the default one"
    label(history)
    assert {row.run_id: list(row.labels) for row in history.labels.read().collect()} == stored
    codes = {row.run_id: (list(row.codes), list(row.numbers)) for row in history.features.read().collect()}
    featurise(history)
    assert {row.run_id: (list(row.codes), list(row.numbers)) for row in history.features.read().collect()} == codes
    for run in runs_of():
        if run.run_id in stored:
            assert list(label_observation(run.dataflow, run.observation).values()) == stored[run.run_id]


@pytest.mark.spark
def test_an_old_history_takes_old_and_new_runs(history: History, tmp_path: Path) -> None:
    """The old runs again are all known: their contents still have the same hash. New ones come with new columns."""
    old = ingest(history, [str(FILES / "runs.jsonl")])
    assert (old.valid, old.rejected) == (expected("again.json")["valid"], expected("again.json")["rejected"]) == (0, 72)
    run = next(run for run in runs_of() if run.engine == "flink")
    told = {"lag_records": 12.0, "memory_mb": 512.0}
    operators = tuple(one.model_copy(update=told) for one in run.operators)
    new = run.model_copy(update={"run_id": "new", "schema_version": 2, "operators": operators, "hosts": {"a/0": "h1"}})
    (tmp_path / "new.jsonl").write_text(json.dumps(new.to_record()) + "\n")
    assert ingest(history, [str(tmp_path / "new.jsonl")]).valid == 1
    rows = {row.run_id: row for row in history.runs.read().collect()}
    assert len(rows) == 68
    assert rows["new"].hosts == {"a/0": "h1"}
    assert {one.memory_mb for one in rows["new"].operators} == {512.0}
    others = [row for key, row in rows.items() if key != "new"]
    assert all(row.hosts is None and row.operators[0].memory_mb is None for row in others)
    label(history)
    assert history.labels.rows() == 68


@pytest.mark.spark
def test_an_old_clustering_is_read(history: History) -> None:
    sizes = assignment(history, FILES / "clusters").groupBy("cluster").count().collect()
    known = {number: runs for number, runs in expected("clusters.json")["runs"].items() if runs}
    assert {str(row["cluster"]) for row in sizes} == set(known)
    middles = {str(number): list(flow.types) for number, flow in centres(FILES / "clusters").items()}
    assert middles == {number: types for number, (types, _) in expected("clusters.json")["centres"].items()}


@pytest.mark.parametrize(("model", "job", "answer"), [
    ("model", "nexmark-q5.yaml", "recommend.json"),
    ("model-clustered", "pqp-3way-0.yaml", "recommend-clustered.json"),
])  # fmt: skip
def test_an_old_bundle_recommends_what_it_did(
    model: str, job: str, answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from streamtune.cli import main

    command = ["recommend", str(FILES / job), "--model", str(FILES / model), "--rate", "5x", "--json"]
    monkeypatch.setattr("sys.argv", ["streamtune", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert_same(expected(answer), json.loads(capsys.readouterr().out))


_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def _numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(text)]


def assert_same(before: Any, now: Any) -> None:
    """Equal but for keys that only the newer release has, and 0.1 % of figures, in sentences too.

    0.2.0 keeps a fixed summary of what it has observed, and older windows count a little less, which moves what is
    believed by some 0.03 %; what is decided stays the same.
    """
    if isinstance(before, dict):
        for key, value in before.items():
            assert_same(value, now[key])
    elif isinstance(before, list):
        assert len(before) == len(now)
        for one, other in zip(before, now, strict=True):
            assert_same(one, other)
    elif isinstance(before, float):
        assert now == pytest.approx(before, rel=1e-3, abs=1e-9)
    elif isinstance(before, str) and isinstance(now, str):
        assert _NUMBER.sub("#", now) == _NUMBER.sub("#", before)
        assert _numbers(now) == pytest.approx(_numbers(before), rel=1e-3)
    else:
        assert before == now


def test_an_old_cost_model_predicts_what_it_did() -> None:
    from streamtune.models.costmodel.model import CostModel

    notes = CostModel.load(FILES / "costmodel").notes
    assert notes["plans"] == expected("costmodel.json")["plans"]


def test_an_old_state_file_and_audit_trail_are_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from streamtune.cli import main
    from streamtune.tuners.streamtune import Memory

    for name in ("state.db", "audit.jsonl"):
        shutil.copy(FILES / name, tmp_path / name)
    before = read_audit(tmp_path / "audit.jsonl")
    assert len(Memory(tmp_path / "state.db", load_spec(FILES / "nexmark-q5.yaml").job).load()) > 10
    where = ["--state", str(tmp_path / "state.db"), "--audit", str(tmp_path / "audit.jsonl")]
    command = ["tune", str(FILES / "nexmark-q5.yaml"), "--model", str(FILES / "model"), *where, "--changes", "3"]
    monkeypatch.setattr("sys.argv", ["streamtune", *command, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert_same(expected("tune-on.json"), json.loads(capsys.readouterr().out))
    after = read_audit(tmp_path / "audit.jsonl")
    assert after[: len(before)] == before
    lines = (FILES / "expected" / "audit-on.jsonl").read_text().splitlines()
    assert_same([json.loads(line) for line in lines], after[len(before) :])


def test_old_overrides_are_read() -> None:
    assert load_overrides(FILES / "overrides.yaml").operators
