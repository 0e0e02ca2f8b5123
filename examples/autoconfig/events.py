"""A streaming application of a user: counts per window and user, over files that arrive in a folder.

Tune it:

    streamtune autoconfig run examples/autoconfig/events.yaml --spark-app examples/autoconfig/events.py \
        --steps 20 --store build/events-session
    streamtune autoconfig show build/events-session

``query(spark, knobs)`` is all that is needed: it returns the writer, not started. The harness adds a checkpoint and a
trigger that reads all input, and sets the knobs that have a ``key``; the others (here the batch size) are read here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("EVENTS_FOLDER", "build/events"))
FILES = int(os.environ.get("EVENTS_FILES", "24"))
ROWS = int(os.environ.get("EVENTS_ROWS", "20000"))
SCHEMA = "at timestamp, user long, amount double"


def prepare(spark: Any) -> None:
    """Make the input once: files of events, a second of the stream each."""
    if FOLDER.exists() and len(list(FOLDER.glob("*.parquet"))) >= FILES:
        return
    events = spark.range(FILES * ROWS, numPartitions=FILES).selectExpr(
        f"timestamp_seconds(1700000000 + id div {ROWS}) as at", "id * 7919 % 5000 as user", "rand(1) * 100 as amount"
    )
    events.write.mode("overwrite").parquet(str(FOLDER))


def query(spark: Any, knobs: dict[str, Any]) -> Any:
    """Sums per user and window of 10 s."""
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", knobs["files_per_batch"]).parquet(str(FOLDER))
    sums = (
        events.withWatermark("at", "30 seconds")
        .selectExpr("window(at, '10 seconds').start as start", "user", "amount", "at")
        .groupBy("start", "user")
        .agg({"amount": "sum", "*": "count"})
    )
    return sums.writeStream.outputMode("update").format("noop")
