"""Ingest and label on a disk that is full or read-only; ``make bench-disks`` does every step of the pipeline so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from faults.disks import can_mount, small_disk
from history.killing import leftovers, table_rows
from streamtune.errors import StreamTuneError
from streamtune.history.ingest import ingest
from streamtune.history.label import label
from streamtune.history.store import History
from streamtune.spark.errors import stopped

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TABLES = ("runs", "rejected")


def refused(step: Callable[[], object], place: Path) -> str:
    """What the command line would say."""
    with pytest.raises((StreamTuneError, Py4JError, PySparkException)) as caught:
        step()
    error = caught.value
    told = str(error if isinstance(error, StreamTuneError) else stopped(error, str(place)))
    assert str(place) in told
    return told


def test_nothing_is_lost_on_a_full_or_read_only_disk(
    spark: SparkSession, tmp_path: Path, good_run: Callable[..., dict[str, Any]]
) -> None:
    if not can_mount(tmp_path / "probe"):
        pytest.skip("no tmpfs can be mounted here")
    source = tmp_path / "runs.jsonl"
    source.write_text("".join(f"{json.dumps(good_run(run_id=f'run-{n}'))}\n" for n in range(200)) + "broken\n")
    with small_disk(tmp_path / "disk", 4096) as disk:
        place = disk.folder / "history"
        history = History(spark, str(place))
        disk.fill(64 * 1024)
        assert "No space left" in refused(lambda: ingest(history, [str(source)]), place)
        assert not any(table_rows(place / name) for name in TABLES)
        disk.make_room()
        report = ingest(history, [str(source)])
        assert (report.valid, report.rejected) == (200, 1)
        assert leftovers(place) == []
        shutil.copytree(place, tmp_path / "history")
    with small_disk(tmp_path / "other", 4096) as disk:
        place = disk.folder / "history"
        shutil.copytree(tmp_path / "history", place)
        history = History(spark, str(place))
        disk.remount("ro")
        assert "ead-only" in refused(lambda: label(history), place)
        disk.remount("rw")
        label(history)
        assert sum(table_rows(place / "labels").values()) == 200
        assert leftovers(place) == []
