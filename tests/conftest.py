"""Fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark for all tests that need it; started by the first of them, not before."""
    from streamtune.history.session import SparkSettings, build_session

    settings = SparkSettings(
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"},
        app_name="streamtune-tests",
    )
    session = build_session(settings)
    yield session
    session.stop()
