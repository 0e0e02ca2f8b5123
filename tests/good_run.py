"""A run as an engine might report it: valid, and small enough to break in every way."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]

GOOD_RUN: Record = {
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
