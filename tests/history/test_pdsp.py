"""The outside data: real, dirty, and none of its rows may crash the job."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamtune.dataflow import Run
from streamtune.history import reasons
from streamtune.history.ingest import ingest
from streamtune.history.store import History

pytestmark = pytest.mark.spark


def expected_counts(records: list[dict[str, Any]]) -> Counter[str]:
    """The dirt that can be counted without our reader, in plain Python."""
    found: Counter[str] = Counter()
    seen: dict[str, int] = Counter(record["artifact"] for record in records)
    for record in records:
        dag, metrics, asked = record["dag"], record["metrics"], record["parallelism_vector"]
        if dag is None:
            found[reasons.MISSING_FIELD] += 1
            continue
        nodes = dag["nodes"]
        measured = [node["metrics"]["selectivity"] for node in nodes if "metrics" in node]
        named, meta = record["cluster"]["hardware"], record["cluster"]["hardware_meta"]
        found[reasons.MISSING_SOURCE_RATE] += metrics["source_rate_p50"] is None
        found[reasons.ZERO_SOURCE_RATE] += metrics["source_rate_p50"] == 0
        found[reasons.ZERO_THROUGHPUT] += (
            metrics["sink_in_rate_steady_mean"] is None and metrics["throughput_p50_reported"] == 0
        )
        found[reasons.NON_FINITE_SELECTIVITY] += None in measured
        found[reasons.WINDOW_TOO_SHORT] += record["t_end"] - record["t_start"] < 60
        found[reasons.INVALID_PARALLELISM] += any(node["parallelism"] is None for node in nodes)
        found[reasons.PARALLELISM_MISMATCH] += len(asked) == len(nodes) and any(
            node["parallelism_from"] == "measured" and node["parallelism"] != entry
            for node, entry in zip(nodes, asked, strict=True)
        )
        found[reasons.HARDWARE_CONTRADICTION] += meta is not None and meta != named
    found["any_duplicate"] = sum(count - 1 for count in seen.values())
    return found


def test_every_kind_of_dirt_is_found(spark: SparkSession, tmp_path: Path, pdsp_file: Path) -> None:
    history = History(spark, str(tmp_path / "history"))
    report = ingest(history, [str(pdsp_file)], format_name="pdsp")
    with gzip.open(pdsp_file, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    assert report.rows_in == len(records) == report.valid + report.rejected

    rows = history.rejected.read().select("reasons", "raw", "position").collect()
    found = Counter(reason for row in rows for reason in row.reasons)
    expected = expected_counts(records)
    assert found[reasons.DUPLICATE] + found[reasons.CONFLICTING_DUPLICATE] == expected.pop("any_duplicate")
    assert {reason: found[reason] for reason in expected} == dict(expected)
    assert found[reasons.PARALLELISM_VECTOR_LENGTH] == 0, "operators share entries: that is not dirt"
    assert 0.17 < report.rejected / report.rows_in < 0.225
    assert found[reasons.DUPLICATE] > 0
    assert found[reasons.CONFLICTING_DUPLICATE] > 0
    assert found[reasons.WRONG_APPLICATION] > 0
    for row in rows[:50]:
        assert json.loads(row.raw) == records[row.position - 1], "raw text and position lead back to the source"

    for row in history.runs.read().limit(100).collect():
        fields = row.asDict(recursive=True)
        run = Run.model_validate({name: fields[name] for name in Run.model_fields})
        assert run.dataflow.sources
