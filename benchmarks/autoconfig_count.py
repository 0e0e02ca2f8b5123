"""The real Spark target of Fig. 8: search logs as Sundog's, counted per hour and word by Structured Streaming itself.

Lines of text (time, user, query) in files of equal size; the words of each query are counted per window of an hour,
with state, a watermark and a shuffle. ``streamtune autoconfig run --spark-app`` asks for ``query(spark, knobs)``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("LOGS_FOLDER", "build/autoconfig-logs"))
FILES = int(os.environ.get("LOGS_FILES", "8"))
LINES = int(os.environ.get("LOGS_LINES", "40000"))
WORDS = 2_000


def prepare(spark: Any) -> None:
    """Write the logs once: ten minutes of the stream per file."""
    if FOLDER.exists() and len(list(FOLDER.glob("*.txt"))) >= FILES:
        return
    word = f"concat('w', cast(pow(rand({{}}), 3) * {WORDS} as int))"
    words = ", ".join(word.format(seed) for seed in (1, 2, 3))
    line = f"concat_ws('\\t', 1700000000 + id * 600 div {LINES}, id * 7919 % 5000, concat_ws(' ', {words}))"
    lines = spark.range(FILES * LINES, numPartitions=FILES).selectExpr(f"{line} as value")
    lines.write.mode("overwrite").text(str(FOLDER))


def query(spark: Any, knobs: dict[str, Any]) -> Any:
    """Searches per word and hour."""
    limit = knobs["files_per_batch"]
    lines = spark.readStream.option("maxFilesPerTrigger", limit).text(str(FOLDER))
    words = lines.selectExpr("split(value, '\\t') as part").selectExpr(
        "timestamp_seconds(cast(part[0] as bigint)) as at", "explode(split(part[2], ' ')) as word"
    )
    counts = (
        words.withWatermark("at", "2 hours")
        .selectExpr("window(at, '1 hour').start as hour", "word", "at")
        .groupBy("hour", "word")
        .count()
    )
    return counts.writeStream.outputMode("update").format("noop")
