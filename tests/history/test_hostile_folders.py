"""A handful of drawn folders against the plain reader; ``make bench-hostile-folders`` does a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from history.hostile_ingest import check_folders

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seeds", [range(4), range(4, 20)])
def test_drawn_folders_are_read_by_the_rules(spark: SparkSession, tmp_path: Path, seeds: range) -> None:
    _, problems = check_folders(spark, seeds, tmp_path)
    assert problems == []


@pytest.mark.parametrize("seed", [4, 15])
def test_a_followed_one_too(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    _, problems = check_folders(spark, [seed], tmp_path, streamed=True)
    assert problems == []
