"""Runs to break, and ways to write them down."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Record = dict[str, Any]

_GOOD: Record = {
    "schema_version": 1,
    "run_id": "run-0",
    "job": "clicks",
    "engine": "flink",
    "observed_at": "2026-11-16T10:00:00Z",
    "window_s": 60.0,
    "source_rates": {"in": 1000.0},
    "operators": [
        {"id": "in", "type": "source", "parallelism": 1, "records_in_per_s": 0.0, "records_out_per_s": 1000.0},
        {
            "id": "count",
            "type": "window_aggregate",
            "window_type": "sliding",
            "window_policy": "time",
            "window_length": 10.0,
            "window_slide": 2.0,
            "aggregate_function": "count",
            "aggregate_class": "long",
            "parallelism": 4,
            "records_in_per_s": 1000.0,
            "records_out_per_s": 10.0,
            "busy_ms_per_s": 400.0,
            "idle_ms_per_s": 590.0,
            "backpressured_ms_per_s": 10.0,
        },
        {"id": "out", "type": "sink", "parallelism": 1, "records_in_per_s": 10.0, "records_out_per_s": 0.0},
    ],
    "edges": [
        {"source": "in", "target": "count", "partitioning": "hash"},
        {"source": "count", "target": "out", "partitioning": "rebalance"},
    ],
    "latency_ms": 12.5,
    "throughput_per_s": 10.0,
}


@pytest.fixture
def good_run() -> Callable[..., Record]:
    """A valid record; keyword arguments replace fields."""

    def build(**fields: Any) -> Record:
        return {**copy.deepcopy(_GOOD), **fields}

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


@pytest.fixture(scope="session")
def pdsp_file() -> Path:
    """The outside data beside the repository; it names no licence and is not part of it."""
    path = Path(__file__).parents[2].parent / "shared" / "data" / "pdsp" / "runs.jsonl.gz"
    if not path.exists():
        pytest.skip(f"the PDSP-Bench runs are not at {path}: they may not be copied into the project")
    return path
