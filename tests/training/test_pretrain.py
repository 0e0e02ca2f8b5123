"""Pre-training on Spark: one task per cluster, failures that stay alone, and the same bundle every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import streamtune.training.pretrain as pretraining
from streamtune.dataflow import Dataflow
from streamtune.history.errors import HistoryError
from streamtune.history.featurise import featurise
from streamtune.history.label import label, labelling_of
from streamtune.history.store import History
from streamtune.labs.histories import generate
from streamtune.labs.settings import GenerateSettings
from streamtune.models.assigned import AssignedModel
from streamtune.models.bundle import ModelBundle
from streamtune.models.encoder import NetworkSettings, TrainingSettings
from streamtune.readings import LabelSettings
from streamtune.training.pretrain import Clustering, pretrain
from streamtune.training.settings import PretrainSettings
from streamtune.tuners.streamtune import StreamTune
from streamtune.workloads import load

pytestmark = pytest.mark.spark

QUICK = PretrainSettings(
    training=TrainingSettings(network=NetworkSettings(width=8, iterations=1), epochs=2),
    min_runs_to_cluster=10,
    min_cluster_runs=30,
    warmup_runs=25,
)
CENTRES = {
    0: Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)]),
    1: Dataflow.from_edges(["source", "map", "sink"], [(0, 1), (1, 2)]),
}


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    made = History(spark, str(tmp_path_factory.mktemp("pretrain")))
    generate(made, GenerateSettings(runs=300, settle_s=60, window_s=30, near_share=0.8))
    label(made)
    featurise(made)
    return made


def halves(history: History) -> Clustering:
    """Two clusters, by whether a job is random; a third one of a few runs that is too small."""
    runs = history.runs.read()
    cluster = "case when run_id like '%07' then 2 when job like 'random%' then 0 else 1 end"
    return Clustering(runs.selectExpr("run_id", f"{cluster} as cluster"), CENTRES)


def test_an_encoder_per_cluster_and_a_global_one(history: History, tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    manifest = pretrain(
        history,
        tmp_path / "model",
        clustering=halves(history),
        settings=QUICK,
        progress=lambda name, text: told.append((name, text)),
    )
    bundle = ModelBundle.load(tmp_path / "model")
    assert [member.name for member in manifest.members] == ["global", "cluster-0", "cluster-1"]
    by_name = {member.name: member.runs for member in manifest.members}
    in_training = history.features.read().where("split = 'train'").count()
    assert by_name["global"] == in_training
    assert by_name["cluster-0"] + by_name["cluster-1"] <= in_training
    assert bundle.models["cluster-1"].centre == CENTRES[1]
    assert bundle.models["global"].warmup.num_rows == 25
    jobs = set(bundle.models["cluster-0"].warmup.column("job").to_pylist())
    assert all(job.startswith("random") for job in jobs), "a task reads its own cluster's runs alone"
    assert ("global", "training") in told
    assert any(name == "cluster-2" and "too few" in text for name, text in told)
    assert manifest.data["runs"] == 300


def test_the_same_history_gives_the_same_weights(history: History, tmp_path: Path) -> None:
    for name in ("a", "b"):
        pretrain(history, tmp_path / name, settings=QUICK)
    first, second = (tmp_path / name / "global" / "encoder.safetensors" for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    manifests = [ModelBundle.load(tmp_path / name).manifest for name in ("a", "b")]
    assert manifests[0].data["fingerprint"] == manifests[1].data["fingerprint"]


def test_few_runs_mean_no_clusters(history: History, tmp_path: Path) -> None:
    settings = QUICK.model_copy(update={"min_runs_to_cluster": 301})
    manifest = pretrain(history, tmp_path / "model", clustering=halves(history), settings=settings)
    assert [member.name for member in manifest.members] == ["global"]


def test_a_failing_cluster_is_tried_again_then_reported_alone(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    really = pretraining._train_in_one_task

    def sometimes(rows: object, name: str, *others: object) -> object:
        tried.append(name)
        if name == "cluster-0" or (name == "cluster-1" and tried.count(name) == 1):
            raise RuntimeError("the executor was lost")
        return really(rows, name, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(pretraining, "_train_in_one_task", sometimes)
    manifest = pretrain(history, tmp_path / "model", clustering=halves(history), settings=QUICK)
    assert [member.name for member in manifest.members] == ["global", "cluster-1"]
    assert manifest.failed == {"cluster-0": "the executor was lost"}
    assert (tried.count("cluster-0"), tried.count("cluster-1")) == (2, 2)


def test_a_history_without_such_an_engine_is_refused(history: History, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="has no runs of engine 'flink'"):
        pretrain(history, tmp_path / "model", engine="flink", settings=QUICK)
    assert not (tmp_path / "model").exists()


def test_the_rule_behind_the_labels_reaches_model_and_tuner(history: History, tmp_path: Path) -> None:
    """Labels by a share of 2 %: the table keeps the rule, pre-training reads it there, and so does the tuner."""
    rule = LabelSettings(backpressure_share=0.02)
    label(history, rule)
    assert labelling_of(history) == rule
    pretrain(history, tmp_path / "model", settings=QUICK)
    label(history)
    bundle = ModelBundle.load(tmp_path / "model")
    assert bundle.manifest.labelling == rule
    job = load("nexmark-q1").spec.job
    tuner = StreamTune(job, model=AssignedModel.of(bundle, job))
    assert tuner.labelling == rule
