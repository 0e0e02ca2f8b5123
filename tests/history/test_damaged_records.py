"""A few hundred damaged records through the real ingest; ``make bench-input-fuzz`` reads a tenth of its million so."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from history.damaged_records import _lines_lost, read_badly

pytestmark = pytest.mark.spark


def test_damaged_records_are_stored_or_rejected_with_their_place(spark: SparkSession, tmp_path: Path) -> None:
    assert read_badly(spark, tmp_path, random.Random(0), lines=300, files=6) == []


def test_a_lost_line_would_be_noticed() -> None:
    lines = [b'{"run_id": "a"}', b'{"run_id": "b"}', b"oops"]
    sound = [{"position": 3, "source_file": "lines.jsonl"}]
    assert _lines_lost(lines, [{"run_id": "a"}, {"run_id": "b"}], sound) == []
    assert len(_lines_lost(lines, [{"run_id": "a"}], [])) == 2
    assert len(_lines_lost(lines, [{"run_id": "a"}, {"run_id": "b"}, {"run_id": "c"}], sound * 2)) == 2
