"""Kill −9 of a real ingest, in batch and as a stream; ``make bench-kill`` kills every step ten times."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from history.killing import leftovers, run_step, table_rows
from streamtune.history.ingest import ingest
from streamtune.history.settings import FollowSettings
from streamtune.history.store import History
from streamtune.history.stream import follow

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUICK = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SPARK = ("--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=512m", "--spark-conf", QUICK)
TABLES = ("runs", "rejected")


@pytest.fixture
def folder(tmp_path: Path, good_run: Callable[..., dict[str, Any]]) -> Path:
    """Three files with a run that is in all of them, and a broken line in each."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        runs = [good_run(run_id=f"run-{number}-{position}") for position in range(200)] + [
            good_run(run_id="everywhere")
        ]
        (folder / f"{number}.jsonl").write_text("".join(f"{json.dumps(run)}\n" for run in runs) + "broken\n")
    return folder


def by_stream(history: History, folder: Path) -> None:
    follow(history, str(folder), FollowSettings(once=True, max_files=1)).awaitTermination(300)


def by_batch(history: History, folder: Path) -> None:
    ingest(history, [str(folder)])


@pytest.mark.parametrize(
    ("again", "options"), [(by_batch, ()), (by_stream, ("--follow", "--once", "--max-files", "1"))]
)
def test_killed_and_done_again(
    spark: SparkSession,
    tmp_path: Path,
    folder: Path,
    again: Callable[[History, Path], None],
    options: tuple[str, ...],
) -> None:
    place = tmp_path / "history"
    undisturbed = tmp_path / "undisturbed"
    again(History(spark, str(undisturbed)), folder)
    after = {name: table_rows(undisturbed / name) for name in TABLES}
    ended = run_step(
        ["history", "ingest", str(place), str(folder), *options, *SPARK],
        tmp_path,
        lambda log: " valid, +" in log if options else any(place.glob("_staging/*")),
        kill_after_s=random.Random(len(options)).uniform(0.0, 0.5),
    )
    assert ended.killed, ended.log
    for name in TABLES:
        assert table_rows(place / name) <= after[name], "what is there is whole"
    again(History(spark, str(place)), folder)
    assert {name: table_rows(place / name) for name in TABLES} == after
    assert leftovers(place) == []
    shutil.rmtree(tmp_path / "scratch")
