"""The one place where a Spark session is built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field
from pyspark.sql import SparkSession

from streamtune.frozen import Frozen
from streamtune.spark.errors import StorageError

MINIMUM_JAVA = 17
LOCAL_MASTER = "local[*]"

# What the pipeline relies on, whoever provides the session.
_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    # Few, large Arrow batches: the NumPy kernels cost the same per batch, however small it is.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.parquet.compression.codec": "zstd",
}
# What suits one machine and would be wrong on a cluster.
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.log.level": "ERROR",
}


class SparkSettings(Frozen):
    """Where Spark runs. Without a master: what ``spark-submit`` gives, else all cores of this machine."""

    master: str | None = Field(default=None, description="Spark master URL, for instance spark://host:7077")
    conf: Mapping[str, str] = Field(default_factory=dict, description="Spark properties; they win over ours")
    app_name: str = Field(default="streamtune", description="name of the Spark application")

    @property
    def effective(self) -> dict[str, str]:
        """All properties the session is built with."""
        master = self.conf.get("spark.master") or self.master or (None if _under_spark_submit() else LOCAL_MASTER)
        local = master is not None and master.startswith("local")
        ours = {**_ALWAYS, **(_LOCAL if local else {}), "spark.app.name": self.app_name, **self.conf}
        return {**ours, "spark.master": master} if master else ours


def parse_conf(pairs: Sequence[str]) -> dict[str, str]:
    """``--spark-conf key=value`` options as a mapping.

    >>> parse_conf(["spark.executor.memory=4g"])
    {'spark.executor.memory': '4g'}
    """
    conf: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise StorageError(
                f"a Spark property is key=value, for instance spark.executor.memory=4g, but got {pair!r}"
            )
        conf[key.strip()] = value.strip()
    return conf


def build_session(settings: SparkSettings | None = None) -> SparkSession:
    """The running session if there is one, else a new one."""
    properties = (settings or SparkSettings()).effective
    _require_java()
    # Otherwise Spark's Python workers start whatever `python3` is on the path, which may lack NumPy and Arrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if properties.get("spark.master", "").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark warns about every second machine's host name
    builder = SparkSession.builder
    for key, value in properties.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _under_spark_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _require_java() -> None:
    """Spark's own message for a missing or old Java is a stack trace; ours says what to install."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"Spark needs Java {MINIMUM_JAVA} or newer: install it (Debian: apt-get install openjdk-17-jre-headless)"
    if java is None or not Path(java).exists():
        raise StorageError(f"no Java was found (JAVA_HOME is {home or 'not set'}). {advice}, or set JAVA_HOME")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None or int(match.group(1)) < MINIMUM_JAVA:
        got = (answer.stderr or answer.stdout).partition("\n")[0] or f"exit code {answer.returncode}"
        raise StorageError(f"{java} is too old or broken, got: {got}. {advice}")
