"""A handful of drawn folders against the plain reader; ``make bench-hostile-folders`` does a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from history.hostile_ingest import check_folder

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", range(6))
def test_a_drawn_folder_is_read_by_the_rules(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    _, problems = check_folder(spark, seed, tmp_path, streamed=seed == 4)
    assert problems == []
