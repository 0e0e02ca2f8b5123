"""One thread, two threads, or a real cluster of several processes: the same tables, and encoders trained at once."""

from __future__ import annotations

import inspect
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def pipeline(spark: SparkSession, source: str, where: str) -> dict[str, Any]:
    """All steps; all rows of all tables, sorted."""
    import json
    from pathlib import Path

    from streamtune.history.featurise import featurise
    from streamtune.history.ingest import ingest
    from streamtune.history.label import label
    from streamtune.history.store import History
    from streamtune.labs.histories import generate
    from streamtune.labs.settings import GenerateSettings

    history = History(spark, where)
    ingest(history, [source])
    generate(history, GenerateSettings(runs=20, random_jobs=5))
    label(history)
    featurise(history)
    tables = {name: history.table(name).read().collect() for name in ("runs", "rejected", "labels", "features")}
    rows = {
        name: sorted(json.dumps(row.asDict(recursive=True), default=str, sort_keys=True) for row in table)
        for name, table in tables.items()
    }
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    return {"rows": rows, "encoder": (Path(where) / "encoder.json").read_text(), "executors": executors}


def train_two_clusters(spark: SparkSession, where: str) -> list[dict[str, Any]]:
    """Pre-train on a generated history of two clusters; when and where each encoder was trained."""
    from pathlib import Path

    from streamtune.dataflow import Dataflow
    from streamtune.history.featurise import featurise
    from streamtune.history.label import label
    from streamtune.history.store import History
    from streamtune.labs.histories import generate
    from streamtune.labs.settings import GenerateSettings
    from streamtune.models.encoder import NetworkSettings, TrainingSettings
    from streamtune.training.pretrain import Clustering, pretrain
    from streamtune.training.settings import PretrainSettings

    history = History(spark, where)
    generate(history, GenerateSettings(runs=100, random_jobs=10, settle_s=60, window_s=30))
    label(history)
    featurise(history)
    halves = history.runs.read().selectExpr("run_id", "cast(substr(run_id, -1) as int) % 2 as cluster")
    chain = Dataflow.from_edges(["source", "sink"], [(0, 1)])
    # Long enough that two that run side by side cannot miss each other while their workers start.
    training = TrainingSettings(network=NetworkSettings(width=32), epochs=24, patience=24, batch_runs=16)
    # The global encoder is trained first, so that the two clusters have the two cores to themselves.
    settings = PretrainSettings(training=training, min_runs_to_cluster=10, min_cluster_runs=10, warmup_runs=10)
    clustering = Clustering(halves, {0: chain, 1: chain})
    manifest = pretrain(history, Path(where) / "model", clustering=clustering, settings=settings)
    return [member.model_dump(mode="json") for member in manifest.members]


SCRIPT = f"""
from __future__ import annotations
import json, sys
from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings

{inspect.getsource(pipeline)}

{inspect.getsource(train_two_clusters)}

master, source, where = sys.argv[1:]
quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
conf = {{
    "spark.sql.shuffle.partitions": "3",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": quick,
    "spark.executor.extraJavaOptions": quick,
}}
spark = build_session(SparkSettings(master=master, conf=conf))
result = pipeline(spark, source, where)
if master.startswith("spark:"):
    result["members"] = train_two_clusters(spark, where + "-training")
json.dump(result, sys.stdout)
spark.stop()
"""
LOCAL = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A Spark master and two workers, each a process of its own, on free ports of the loopback; always ended."""
    home = Path(pyspark.__file__).parent
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Path:
            log = folder / f"{name}.log"
            output = stack.enter_context(log.open("w"))
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
            environment = {**LOCAL, "SPARK_HOME": str(home), "SPARK_WORKER_DIR": str(folder / name)}
            process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return log

        port = free_port()
        master_log = start(
            "master", "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())
        )
        url = f"spark://127.0.0.1:{port}"
        for number in (1, 2):
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port())]
            start(f"worker-{number}", "worker.Worker", *options, url)
        deadline = time.monotonic() + 90
        while master_log.read_text().count("Registering worker") < 2:
            assert time.monotonic() < deadline, f"the workers did not register: {master_log.read_text()}"
            time.sleep(0.3)
        yield url


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_elsewhere(master: str, source: Path, where: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", SCRIPT, master, str(source), str(where)]
    done = subprocess.run(command, env=LOCAL, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_row_for_row_the_same(
    spark: SparkSession, tmp_path: Path, good_run: Callable[..., dict[str, Any]], write_lines: Callable[..., Path]
) -> None:
    for part in range(3):
        runs = [good_run(run_id=f"r-{part}-{n}", job=f"job-{n}") for n in range(10)]
        write_lines(f"in/{part}.jsonl", [*runs, "oops", good_run(run_id="same", latency_ms=float(part))])
    source = tmp_path / "in"
    one = run_elsewhere("local[1]", source, tmp_path / "one")
    two = pipeline(spark, str(source), str(tmp_path / "two"))  # the session of the tests is local[2]
    with standalone_cluster(tmp_path) as master:
        cluster = run_elsewhere(master, source, tmp_path / "cluster")
    assert cluster["executors"] == 2
    assert len(one["rows"]["runs"]) == 3 * 10 + 1 + 20
    assert one["rows"] == two["rows"] == cluster["rows"]
    assert one["encoder"] == two["encoder"] == cluster["encoder"]
    assert_trained_side_by_side(cluster["members"])


def assert_trained_side_by_side(members: list[dict[str, Any]]) -> None:
    """Two clusters at once: by different processes, and each began before the other had ended."""
    first, second = (member for member in members if member["name"].startswith("cluster-"))
    assert first["trained_by"] != second["trained_by"]
    (began, ended), (other_began, other_ended) = first["trained_at"], second["trained_at"]
    assert began < other_ended
    assert other_began < ended
