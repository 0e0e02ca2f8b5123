"""The stored runs of real engines go through the whole pipeline: ingest, label, featurise, pre-train, per engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from streamtune.history.featurise import featurise
from streamtune.history.ingest import ingest
from streamtune.history.label import label
from streamtune.history.store import History
from streamtune.models.bundle import ModelBundle
from streamtune.training.costmodel import plans_of_history
from streamtune.training.pretrain import pretrain

pytestmark = pytest.mark.spark

DATA = Path(__file__).parents[2] / "benchmarks" / "data"
RUNS = {"flink": 320, "timely": 240}


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    history = History(spark, str(tmp_path_factory.mktemp("real")))
    ingest(history, [str(DATA / engine / "runs.jsonl.gz") for engine in RUNS])
    label(history)
    featurise(history)
    return history


@pytest.mark.parametrize("engine", RUNS)
def test_nearly_all_runs_are_valid_and_some_operators_are_bottlenecks(history: History, engine: str) -> None:
    runs = history.runs.read().where(sql.col("engine") == engine).select("run_id")
    assert 0.95 * RUNS[engine] <= runs.count() <= RUNS[engine]
    labels = history.labels.read().join(runs, "run_id", "left_semi").select(sql.explode("labels").alias("label"))
    counts = {row["label"]: row["count"] for row in labels.groupBy("label").count().toLocalIterator()}
    assert counts[1] >= 80
    assert counts[0] > counts[1]


@pytest.mark.parametrize("engine", RUNS)
def test_each_engine_gets_a_model_of_its_own(history: History, engine: str, tmp_path: Path) -> None:
    pretrain(history, tmp_path / "model", engine=engine)
    bundle = ModelBundle.load(tmp_path / "model")
    assert bundle.manifest.engine == engine
    assert "window_aggregate" in bundle.capacity.types
    often = [found for found in bundle.capacity.types.values() if found.readings >= 40]
    assert len(often) >= 4
    assert all(0.85 < found.mean[1] < 1.1 and found.noise_sd < 0.1 for found in often)


@pytest.mark.parametrize("engine", RUNS)
def test_cost_models_can_learn_from_them(history: History, engine: str) -> None:
    """Nearly every run has latency (Flink: by its latency markers) and throughput."""
    assert plans_of_history(history, engine) >= 0.9 * RUNS[engine]
