"""Fixtures that all tests share."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

from good_run import GOOD_RUN, Record

# Every run checks the same examples, so that a red build is about the change in it.
# HYPOTHESIS_PROFILE=explore looks further: new examples each time, and many times as many; fast, the one of
# ``make test-fast``, checks the first of them. A test that names its number of examples keeps it.
_CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("repeatable", max_examples=60, derandomize=True, deadline=None, suppress_health_check=_CALM)
settings.register_profile("fast", max_examples=20, derandomize=True, deadline=None, suppress_health_check=_CALM)
settings.register_profile("explore", max_examples=1000, deadline=None, suppress_health_check=_CALM)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engines.flink.fake_flink import FakeFlink


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small Spark for all tests that need it; started by the first of them, not before."""
    from streamtune.spark.session import build_session
    from streamtune.spark.settings import SparkSettings

    if "PYTEST_XDIST_WORKER" in os.environ:
        claim_for_one_worker(tmp_path_factory.getbasetemp().parent / "spark-session")
    settings = SparkSettings(
        master="local[2]",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            # Tests run many small plans once: compiling them well costs more than running them badly. (What Spark
            # compiles is tested too: the sessions of test_cluster_mode.py and of test_kill.py's processes do compile.)
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
        app_name="streamtune-tests",
    )
    session = build_session(settings)
    yield session
    session.stop()


def claim_for_one_worker(claim: Path) -> None:
    """Refuse a second session in one test run: two JVMs on two cores, and a sign that groups do not hold any more."""
    if claim.exists() and psutil.pid_exists(int(claim.read_text())):
        raise RuntimeError("another worker has a Spark session: tests on Spark are not in one group (see conftest.py)")
    claim.write_text(str(os.getpid()))


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model bundle that knows a little; made once, without Spark."""
    from small_model import write_small_model

    path = tmp_path_factory.mktemp("small-model") / "model"
    write_small_model(path)
    return path


@pytest.fixture
def good_run() -> Callable[..., Record]:
    """A valid record; keyword arguments replace fields."""

    def build(**fields: Any) -> Record:
        return {**copy.deepcopy(GOOD_RUN), **fields}

    return build


@pytest.fixture
def write_lines(tmp_path: Path) -> Callable[..., Path]:
    """Write records (or raw text) as JSON lines below ``tmp_path``."""

    def write(name: str, records: list[Record | str]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


@pytest.fixture
def fake() -> Iterator[FakeFlink]:
    """A server that answers as Flink's JobManager does."""
    from engines.flink.fake_flink import FakeFlink

    with FakeFlink() as server:
        yield server
