"""``make bench-small-files``: ingesting 1,000, 10,000 and 100,000 files of one run each, and as many runs in one file.

Nine runs of ten belong to one job, days come in no order, and half of the records are of the older schema. Every run
must be counted. Writes benchmarks/results/small-files.json after each size, and goes on behind what is there
(``AGAIN=1`` does not); FILES chooses other sizes. Processor time and peak memory are those of this process,
the JVM and all workers.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from good_run import GOOD_RUN
from history import CORES, timed
from streamtune.history.ingest import IngestReport, ingest
from streamtune.history.store import History
from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings

RESULTS = Path(__file__).parent / "results" / "small-files.json"
FILES_IN_A_FOLDER = 1_000
DAYS = 28


def records(count: int) -> list[str]:
    draw = random.Random(count)
    made = []
    for number in range(count):
        run = {
            **GOOD_RUN,
            "run_id": f"run-{number:08d}",
            "job": "usual" if number % 10 else f"job-{number % 990}",
            "schema_version": 1 + number % 2,
            "observed_at": f"2026-10-{1 + draw.randrange(DAYS):02d}T10:00:00Z",
        }
        made.append(json.dumps(run) + "\n")
    return made


def write_small(place: Path, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        folder = place / f"{number // FILES_IN_A_FOLDER:04d}"
        if not number % FILES_IN_A_FOLDER:
            folder.mkdir(parents=True)
        (folder / f"{number:08d}.jsonl").write_text(line)


def measured(spark: Any, place: Path, count: int, *, in_one: bool) -> dict[str, Any]:
    source = place / "in"
    lines = records(count)
    if in_one:
        source.mkdir(parents=True)
        (source / "all.jsonl").write_text("".join(lines))
    else:
        write_small(source, lines)
    found: list[IngestReport] = []
    cost = timed(lambda: found.append(ingest(History(spark, str(place / "history")), [str(source)])))
    shutil.rmtree(place)
    report = found[0]
    return {
        "runs": count,
        "files": report.files,
        "valid": report.valid,
        "rejected": report.rejected,
        "seconds": round(cost.seconds, 1),
        "cpu_s": round(cost.cpu_s, 1),
        "peak_gib": round(cost.peak_gib, 2),
        "ms_per_file": round(1e3 * cost.seconds / report.files, 2),
        "load_average_1min": round(os.getloadavg()[0], 2),
        "cores": CORES,
    }


def main() -> int:
    counts = [int(text) for text in os.environ.get("FILES", "1000,10000,100000").split(",")]
    known: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    spark = build_session(SparkSettings(master=f"local[{CORES}]", app_name="bench-small-files"))
    scratch = Path(tempfile.mkdtemp(prefix="streamtune-small-files-"))
    try:
        measured(spark, scratch / "warm", 200, in_one=False)
        for count in counts:
            for name, in_one in ((f"{count} files", False), (f"{count} runs in one file", True)):
                if name not in known or os.environ.get("AGAIN"):
                    known[name] = measured(spark, scratch / name.replace(" ", "-"), count, in_one=in_one)
                    RESULTS.write_text(json.dumps(known, indent=1) + "\n")
                print(name, json.dumps(known[name]), flush=True)
    finally:
        spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if all(row["valid"] == row["runs"] and not row["rejected"] for row in known.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
