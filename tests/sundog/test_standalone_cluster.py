"""The same rows on a real standalone cluster with two workers as on one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from history.test_cluster_mode import standalone_cluster
from streamtune.sundog.knowledge import load_knowledge
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.settings import SundogSettings
from sundog.examples import make_lines
from sundog.test_stream_of_logs import assert_same_tables

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import sys
from datetime import date
from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings
from streamtune.sundog.settings import SundogSettings
from streamtune.sundog.knowledge import load_knowledge
from streamtune.sundog.pipeline import Sundog

master, knowledge, logs, out = sys.argv[1:]
quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
conf = {
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": quick,
    "spark.executor.extraJavaOptions": quick,
    # So little work is done by whichever executor comes first: wait for both (one core each).
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "200s",
}
spark = build_session(SparkSettings(master=master, conf=conf))
sundog = Sundog(spark, load_knowledge(knowledge), out, SundogSettings(buckets=4, slice_bytes=3000))
sundog.run([logs], [date(2014, 1, 17)], [2, 7])
print("executors", spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1)
spark.stop()
"""


def test_two_workers(
    spark: SparkSession, tmp_path: Path, knowledge_folder: Path, write_log: Callable[[Path, list[Any]], Path]
) -> None:
    for number in range(3):
        write_log(tmp_path / f"in/{number}.jsonl", [*make_lines(80, seed=number), "oops"])
    here = Sundog(spark, load_knowledge(knowledge_folder), str(tmp_path / "here"), SundogSettings(buckets=2))
    here.run([str(tmp_path / "in")], [date(2014, 1, 17)], [2, 7])
    places = [str(path) for path in (knowledge_folder, tmp_path / "in", tmp_path / "there")]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with standalone_cluster(tmp_path) as master:
        command = [sys.executable, "-c", SCRIPT, master, *places]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "executors 2" in done.stdout
    assert_same_tables(tmp_path / "here", tmp_path / "there")
