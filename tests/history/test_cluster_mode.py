"""One thread, two threads, or a real cluster of several processes: row for row the same tables."""

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
    from streamtune.history.generate import GenerateSettings, generate
    from streamtune.history.ingest import ingest
    from streamtune.history.label import label
    from streamtune.history.tables import History

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


SCRIPT = f"""
from __future__ import annotations
import json, sys
from streamtune.history.session import SparkSettings, build_session

{inspect.getsource(pipeline)}

master, source, where = sys.argv[1:]
quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
conf = {{
    "spark.sql.shuffle.partitions": "3",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": quick,
    "spark.executor.extraJavaOptions": quick,
}}
spark = build_session(SparkSettings(master=master, conf=conf))
json.dump(pipeline(spark, source, where), sys.stdout)
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
