"""The one place where a Spark session is built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from streamtune.spark.errors import StorageError
from streamtune.spark.settings import SparkSettings, parse_conf

__all__ = ["build_session", "parse_conf"]

MINIMUM_JAVA = 17


def build_session(settings: SparkSettings | None = None) -> SparkSession:
    """The running session if there is one, else a new one.

    >>> two_cores = SparkSettings(master="local[2]", conf={"spark.driver.memory": "1g"})
    >>> two_cores.effective["spark.driver.memory"], two_cores.effective["spark.sql.session.timeZone"]
    ('1g', 'UTC')
    >>> spark = build_session(two_cores)  # doctest: +SKIP
    """
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


def _require_java() -> None:
    """Spark's own message for a missing or old Java is a stack trace; ours says what to install."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"Spark needs Java {MINIMUM_JAVA} or newer: install it (Debian: apt-get install openjdk-17-jre-headless)"
    if java is None or not Path(java).exists():
        raise StorageError(f"no Java was found (JAVA_HOME is {home or 'not set'}). {advice}, or set JAVA_HOME")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise StorageError(f"{java} cannot be executed: {error.strerror}. {advice}, or set JAVA_HOME") from error
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None or int(match.group(1)) < MINIMUM_JAVA:
        got = (answer.stderr or answer.stdout).partition("\n")[0] or f"exit code {answer.returncode}"
        raise StorageError(f"{java} is too old or broken, got: {got}. {advice}")
