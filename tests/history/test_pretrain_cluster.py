"""On a real cluster with two workers, two clusters are trained at once, each by a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from history.test_cluster_mode import LOCAL, standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import json, sys
from pathlib import Path
from streamtune.dataflow import Dataflow
from streamtune.encoder import TrainingSettings
from streamtune.history.featurise import featurise
from streamtune.history.generate import GenerateSettings, generate
from streamtune.history.label import label
from streamtune.history.pretrain import Clustering, PretrainSettings, pretrain
from streamtune.history.session import SparkSettings, build_session
from streamtune.history.tables import History

master, where = sys.argv[1:]
spark = build_session(SparkSettings(master=master, conf={"spark.executor.memory": "512m"}))
history = History(spark, where + "/history")
generate(history, GenerateSettings(runs=400, settle_s=60, window_s=30, near_share=0.8))
label(history)
featurise(history)
halves = history.runs.read().selectExpr("run_id", "int(job like 'random%') as cluster")
flow = Dataflow.from_edges(["source", "sink"], [(0, 1)])
settings = PretrainSettings(
    training=TrainingSettings(epochs=60, patience=60), min_runs_to_cluster=0, min_cluster_runs=1
)
clustering = Clustering(halves, {0: flow, 1: flow})
manifest = pretrain(history, Path(where) / "model", clustering=clustering, settings=settings)
json.dump([member.model_dump(mode="json") for member in manifest.members], sys.stdout)
spark.stop()
"""


def test_two_clusters_are_trained_at_once(tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as master:
        command = [sys.executable, "-c", SCRIPT, master, str(tmp_path)]
        done = subprocess.run(command, env=LOCAL, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    members = {member["name"]: member for member in json.loads(done.stdout)}
    assert set(members) == {"global", "cluster-0", "cluster-1"}
    first, second = members["cluster-0"], members["cluster-1"]
    assert first["trained_by"] != second["trained_by"]
    overlap = min(first["trained_at"][1], second["trained_at"][1]) - max(
        first["trained_at"][0], second["trained_at"][0]
    )
    assert overlap > 0, f"one after the other: {first['trained_at']}, {second['trained_at']}"
