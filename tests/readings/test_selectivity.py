"""Records out per record in: one formula, in NumPy and in Spark SQL, and nobody else's."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import streamtune
from streamtune.readings.selectivity import SELECTIVITY_SQL, observed_selectivity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = [(10.0, 5.0), (0.0, 5.0), (4.0, 0.0), (None, 1.0), (2.0, None)]


def test_spark_sees_what_numpy_sees(spark: SparkSession) -> None:
    frame = spark.createDataFrame(CASES, "records_in_per_s double, records_out_per_s double").coalesce(1)
    by_spark = [row.ratio for row in frame.selectExpr(f"{SELECTIVITY_SQL} AS ratio").collect()]
    taken, given = zip(*[(math.nan if a is None else a, math.nan if b is None else b) for a, b in CASES], strict=True)
    expected = [None if math.isnan(ratio) else ratio for ratio in observed_selectivity(taken, given).tolist()]
    assert by_spark == expected == [0.5, None, 0.0, None, None]


@pytest.mark.parametrize(
    ("quotient", "home"),
    [
        (r"records_out(_per_s)?\W{0,3} / \w*\W{0,6}(records_in|taken)", "readings/selectivity.py"),
        (r"bincount\(edge_target, weights=sent", "readings/demand.py"),
    ],
)
def test_it_stands_in_one_place(quotient: str, home: str) -> None:
    root = Path(streamtune.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if any(re.search(quotient, line) for line in path.read_text(encoding="utf-8").splitlines())
    }
    assert found == {home}
