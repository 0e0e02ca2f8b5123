"""``make bench-hostile-folders``: drawn folders of hostile files through ingest, each held against a plain reader.

Every folder is drawn by its seed (names, kinds, sizes, sound and dirty rows; ``tests/history/hostile_folders.py``) and
read twice: by ingest in a warm Spark session, and by a reader in plain Python that shares no code with it. Rows
stored, rejected rows and files with their reasons, and counts must be the same. One ingest takes GROUP folders at once,
since Spark's planning costs more than their rows; the first folder of every second group is also followed as a stream.
Prints what differs and writes ``benchmarks/results/hostile_folders.json``. FOLDERS (1000), SEED (0), THREADS (3). Each
group is noted in WORK (build/hostile-folders) as soon as it is done: started again, the benchmark goes on; with SLICE_S
it stops by itself after so many seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock, local
from typing import Any

from pyspark.sql import SparkSession

sys.path[0] = str(Path(__file__).parents[1] / "tests")  # in the place of this folder, which has a history.py

from history.hostile_ingest import check_folders  # noqa: E402
from streamtune.spark.session import build_session  # noqa: E402
from streamtune.spark.settings import SparkSettings  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "hostile_folders.json"
# Many small plans, each run once: compiling them costs more than it saves.
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True)
class Checked:
    """Folders that went through one ingest or stream, as it counted them, and what differs from the plain reader."""

    first_seed: int
    folders: int
    is_stream: bool
    files: int
    rows_in: int
    valid: int
    rejected: int
    problems: list[str]


def check(spark: SparkSession, seeds: range, is_stream: bool) -> Checked:
    work = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        report, problems = check_folders(spark, seeds, work, streamed=is_stream)
        counts = (report.files, report.rows_in, report.valid, report.rejected)
    except Exception as error:  # a folder that ends the ingest is what we are looking for
        problems, counts = [f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"], (0, 0, 0, 0)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    shown = [problem.encode("ascii", "backslashreplace").decode()[:500] for problem in problems]
    return Checked(seeds[0], len(seeds), is_stream, *counts, shown)


def noted(notes: Path) -> list[Checked]:
    return [Checked(**json.loads(line)) for line in notes.read_text().splitlines()] if notes.exists() else []


def check_all(tasks: list[tuple[range, bool]], notes: Path, threads: int, slice_s: float) -> None:
    """Each thread has a session of its own, so that what one sets does not reach the others."""
    spark = build_session(SparkSettings(master="local[2]", conf=CONF, app_name="hostile-folders"))
    sessions, lock, until = local(), Lock(), time.monotonic() + slice_s

    def one(task: tuple[range, bool]) -> None:
        if time.monotonic() > until:
            return
        if not hasattr(sessions, "mine"):
            sessions.mine = spark.newSession()
        result = check(sessions.mine, *task)
        with lock:
            if result.problems:
                print(f"{task[0]}{' (stream)' if result.is_stream else ''}:", *result.problems, sep="\n  ", flush=True)
            with notes.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, tasks))
    spark.stop()


def tasks_of(wanted: range, group: int) -> list[tuple[range, bool]]:
    """Groups through one ingest each; the first folder of every second group as a stream too."""
    starts = range(wanted.start, wanted.stop, group)
    batches = [(range(start, min(start + group, wanted.stop)), False) for start in starts]
    streams = [(range(start, start + 1), True) for start in starts[::2]]
    return sorted([*batches, *streams], key=lambda task: task[0].start)


def main() -> None:
    folders, first = int(os.environ.get("FOLDERS", "1000")), int(os.environ.get("SEED", "0"))
    work = Path(os.environ.get("WORK", "build/hostile-folders"))
    work.mkdir(parents=True, exist_ok=True)
    notes, wanted = work / "folders.jsonl", range(first, first + folders)
    done = {(result.first_seed, result.is_stream) for result in noted(notes)}
    tasks = tasks_of(wanted, int(os.environ.get("GROUP", "10")))
    waiting = [task for task in tasks if (task[0].start, task[1]) not in done]
    print(f"{folders} folders, seeds {wanted.start} to {wanted.stop - 1}; {len(waiting)} tasks to do", flush=True)
    if waiting:
        check_all(waiting, notes, int(os.environ.get("THREADS", "3")), float(os.environ.get("SLICE_S", "inf")))
    sys.exit(summarised([result for result in noted(notes) if result.first_seed in wanted]))


def summarised(results: list[Checked]) -> int:
    """Print and write down; the exit code."""
    document: dict[str, Any] = {}
    for kind, some in (("batch", False), ("stream", True)):
        mine = [result for result in results if result.is_stream is some]
        names = ("folders", "files", "rows_in", "valid", "rejected")
        total = {name: sum(getattr(one, name) for one in mine) for name in names}
        document[kind] = total
        print(
            f"{kind}: {total['folders']:,} folders, {total['files']:,} files, {total['rows_in']:,} rows in = "
            f"{total['valid']:,} valid + {total['rejected']:,} rejected"
        )
    different = {f"{one.first_seed}{'s' if one.is_stream else ''}": one.problems for one in results if one.problems}
    print(f"{len(different)} tasks differ from the plain reader")
    RESULTS.write_text(json.dumps({**document, "tasks_that_differ": different}, indent=1) + "\n")
    return 1 if different else 0


if __name__ == "__main__":
    main()
