"""The real Spark target of Fig. 8: our own Sundog, as ``streamtune sundog stream`` runs it, on a backlog of logs.

``streamtune autoconfig run --spark-app`` asks for ``query(spark, knobs)``. Every run counts and ranks the whole log
into a new folder; whatever the knobs are, the tables are the same. Rows that Spark reports are files (Sundog's source
names files, its own tasks read them), all of ``LINES_PER_FILE`` lines.
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from streamtune.sundog.generator import generate
from streamtune.sundog.knowledge import Knowledge, load_knowledge
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.settings import LogSettings, StreamSettings, SundogSettings, WorldSettings
from streamtune.sundog.stream import stream_writer

WORK = Path(os.environ.get("SUNDOG_WORK", "build/autoconfig-sundog")).absolute()
DAYS = int(os.environ.get("SUNDOG_DAYS", "5"))
LINES_PER_FILE = int(os.environ.get("SUNDOG_LINES_PER_FILE", "1000"))
FILES = 24 * DAYS
_FIRST_MTIME = 1_700_000_000


def prepare(spark: Any) -> None:
    """Generate the world once: a file per hour, in the order in which hours end."""
    logs, done, size = WORK / "world" / "logs", WORK / "done", f"{FILES} files of {LINES_PER_FILE} lines"
    if done.exists() and done.read_text() == size:
        return
    lines = LogSettings(lines=FILES * LINES_PER_FILE, file_lines=LINES_PER_FILE)
    generate(spark, WORK / "world", WorldSettings(days=DAYS), lines)
    for hour, file in enumerate(sorted(logs.iterdir())):
        os.utime(file, (_FIRST_MTIME + 3600 * hour,) * 2)
    done.write_text(size)


@cache
def _knowledge() -> Knowledge:
    return load_knowledge(WORK / "world" / "knowledge")


def query(spark: Any, knobs: dict[str, Any]) -> Any:
    """Sundog's stream, not started, with an empty output folder."""
    out = WORK / "out"
    shutil.rmtree(out, ignore_errors=True)
    sizes = SundogSettings(
        buckets=knobs["buckets"],
        slice_bytes=knobs["slice_mb"] << 20,
        compact_after=knobs["compact_after"],
    )
    stream = StreamSettings(max_files=knobs["files_per_batch"], parallel_rankings=knobs["parallel_rankings"])
    return stream_writer(Sundog(spark, _knowledge(), str(out), sizes), str(WORK / "world" / "logs"), stream)
