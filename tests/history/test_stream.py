"""The stream takes every run once, also when it dies in the middle or gets every file twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streamtune.history.ingest import IngestReport
from streamtune.history.settings import FollowSettings
from streamtune.history.store import History
from streamtune.history.stream import follow
from streamtune.spark.tables import Table

pytestmark = pytest.mark.spark

Record = dict[str, Any]


def deliver(folder: Path, name: str, records: list[Record | str]) -> None:
    """As a well-behaved producer does: write elsewhere, move in."""
    folder.mkdir(exist_ok=True)
    waiting = folder.parent / f"{name}.waiting"
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    waiting.write_text("".join(f"{line}\n" for line in lines))
    waiting.rename(folder / name)


def drain(history: History, folder: Path, max_files: int = 1) -> IngestReport:
    reports = [IngestReport(0, 0, 0, 0, False)]
    query = follow(history, str(folder), FollowSettings(once=True, max_files=max_files), on_batch=reports.append)
    query.awaitTermination()
    total = reports[0]
    for report in reports[1:]:
        total += report
    return total


def test_killed_in_the_middle_and_every_file_twice(
    spark: SparkSession, tmp_path: Path, good_run: Callable[..., Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, history = tmp_path / "in", History(spark, str(tmp_path / "history"))
    for n in range(2):
        deliver(folder, f"{n}.jsonl", [good_run(run_id=f"r-{n}-{m}") for m in range(4)] + ["oops"])

    append, calls = Table.append, []

    def die_in_the_second_batch(table: Table, frame: Any, part: str) -> bool:
        calls.append(part)
        if len(calls) == 4:  # runs and rejected of the first batch, runs of the second, and here we are
            raise RuntimeError("killed by the test")
        return append(table, frame, part)

    with monkeypatch.context() as patch:
        patch.setattr(Table, "append", die_in_the_second_batch)
        with pytest.raises(StreamingQueryException, match="killed by the test"):
            drain(history, folder)

    drain(history, folder)
    assert history.runs.rows() == 8
    assert history.rejected.rows() == 2

    for path in sorted(folder.iterdir()):
        shutil.copy(path, folder / f"again-{path.name}")
    second = drain(history, folder, max_files=2)
    assert (second.rows_in, second.valid, second.rejected) == (10, 0, 10)
    assert history.runs.read().select("run_id").distinct().count() == history.runs.rows() == 8
    assert drain(history, folder).rows_in == 0, "nothing new, nothing done"


def test_a_lost_checkpoint_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, good_run: Callable[..., Record]
) -> None:
    folder, history = tmp_path / "in", History(spark, str(tmp_path / "history"))
    deliver(folder, "0.jsonl", [good_run(run_id="r-0")])
    drain(history, folder)
    shutil.rmtree(tmp_path / "history" / "_checkpoint")
    deliver(folder, "1.jsonl", [good_run(run_id="r-1")])
    drain(history, folder, max_files=10)
    assert sorted(row.run_id for row in history.runs.read().collect()) == ["r-0", "r-1"]
