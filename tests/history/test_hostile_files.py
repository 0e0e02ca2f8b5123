"""Folders as they are found in the wild: odd names, damaged files, circular links. Nothing sound is lost."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from streamtune.history.errors import HistoryError
from streamtune.history.ingest import IngestReport, ingest
from streamtune.history.sources import Refused, Sources, compare
from streamtune.history.store import History
from streamtune.history.stream import FollowSettings, follow
from streamtune.history.validate import ValidationSettings
from streamtune.spark.errors import StorageError
from streamtune.spark.files import FileStatus

pytestmark = pytest.mark.spark

Run = Callable[..., dict[str, Any]]

# What Spark and Hadoop take for patterns, escapes or addresses, each beside an innocent neighbour it could stand for.
NAMES = (
    "a[1]", "a1", "b{x,y}", "bx", "by", "e*f", "eXf", "q?z", "qaz", "sp ace", "pl+us", "per%20cent", "hash#x",
    "back\\slash", "umlä", "^caret", "quote's", "comma,name", "semi;colon",
)  # fmt: skip


def write_lines(path: Path, runs: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")


def hostile_folder(folder: Path, good_run: Run) -> set[str]:
    """Three sound runs in every file of an odd name, and their ids."""
    ids = set()
    for number, name in enumerate(NAMES):
        runs = [good_run(run_id=f"run-{number}-{position}") for position in range(3)]
        write_lines(folder / f"{name}.jsonl", runs)
        ids |= {run["run_id"] for run in runs}
    return ids


def stored(history: History) -> set[str]:
    return {row.run_id for row in history.runs.read().select("run_id").collect()}


def rejected(history: History) -> Counter[tuple[str, str]]:
    """(file name, reason) → how often."""
    rows = history.rejected.read().select("source_file", "reasons").collect()
    return Counter((row.source_file.rpartition("/")[2], reason) for row in rows for reason in row.reasons)


def test_every_name_is_read_once(spark: SparkSession, tmp_path: Path, good_run: Run) -> None:
    """Of 14 such files with 42 rows 27 used to arrive, and the innocent neighbours were lost as duplicates."""
    ids = hostile_folder(tmp_path / "in[put]", good_run)
    history = History(spark, str(tmp_path / "hist{o,}ry"))
    assert ingest(history, [str(tmp_path / "in[put]")]) == IngestReport(len(NAMES), len(ids), len(ids), 0, True)
    assert stored(history) == ids
    alone = History(spark, str(tmp_path / "alone"))
    assert ingest(alone, [str(tmp_path / "in[put]" / "a[1].jsonl")]).valid == 3


def test_a_followed_folder_takes_them_too(spark: SparkSession, tmp_path: Path, good_run: Run) -> None:
    ids = hostile_folder(tmp_path / "in", good_run)
    with zipfile.ZipFile(tmp_path / "in" / "old.zip", "w") as archive:
        archive.writestr("runs.jsonl", "{}")
    history = History(spark, str(tmp_path / "history"))
    follow(history, str(tmp_path / "in"), FollowSettings(once=True)).awaitTermination(120)
    assert stored(history) == ids
    assert rejected(history) == {("old.zip", "unsupported_file"): 1}


def test_bad_files_are_rejected_and_the_rest_goes_in(spark: SparkSession, tmp_path: Path, good_run: Run) -> None:
    folder = tmp_path / "in"
    write_lines(folder / "sound.jsonl", [good_run(run_id="sound")])
    parquet = pa.Table.from_pylist([good_run(run_id=f"parquet-{number}") for number in range(200)])
    pq.write_table(parquet, folder / "sound.parquet")
    whole = (folder / "sound.parquet").read_bytes()
    (folder / "no-footer.parquet").write_bytes(whole[:-20] + bytes(16) + b"PAR1")
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    middle = len(whole) // 3
    (folder / "flipped.parquet").write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    pq.write_table(pa.table({"run_id": [1.5], "job": [True]}), folder / "clashing.parquet")
    pq.write_table(pa.table({"odd`name": ["x"]}), folder / "odd-columns.parquet")
    (folder / "runs.jsonl.bz2").write_bytes(b"BZh")
    (folder / "co:lon.jsonl").write_text("{}\n")
    packed = gzip.compress(b"".join(json.dumps(good_run(run_id=f"gz-{n}")).encode() + b"\n" for n in range(50)))
    (folder / "cut.jsonl.gz").write_bytes(packed[:-10])
    (folder / "long.jsonl").write_text(
        json.dumps(good_run(run_id="before")) + "\n"
        + json.dumps(good_run(run_id="x" * 3_000_000)) + "\n"
        + json.dumps(good_run(run_id="after")) + "\n"
    )  # fmt: skip
    history = History(spark, str(tmp_path / "history"))
    report = ingest(history, [str(folder)], validation=ValidationSettings(max_line_mb=1.0))
    assert {"sound", "before", "after"} | {f"parquet-{n}" for n in range(200)} <= stored(history)
    found = rejected(history)
    for name in ("no-footer.parquet", "cut.parquet", "cut.jsonl.gz"):
        assert found[name, "unreadable_file"] == 1
    # One flipped byte is found where a page does not decode; else its rows are there a second time, and are checked.
    assert any(name == "flipped.parquet" for name, _ in found)
    assert found["runs.jsonl.bz2", "unsupported_file"] == found["co:lon.jsonl", "unsupported_file"] == 1
    assert found["long.jsonl", "line_too_long"] == 1
    assert any(name == "clashing.parquet" for name, _ in found)
    assert any(name == "odd-columns.parquet" for name, _ in found)
    assert report.rows_in == report.valid + report.rejected


def test_links_that_lead_in_circles_are_followed_once(spark: SparkSession, tmp_path: Path, good_run: Run) -> None:
    """One file behind a loop was read 41 times."""
    write_lines(tmp_path / "in" / "day" / "runs.jsonl", [good_run(run_id="once")])
    (tmp_path / "in" / "day" / "up").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "again.jsonl").symlink_to(tmp_path / "in" / "day" / "runs.jsonl")
    history = History(spark, str(tmp_path / "history"))
    assert ingest(history, [str(tmp_path / "in")]) == IngestReport(1, 1, 1, 0, True)
    streamed = History(spark, str(tmp_path / "streamed"))
    follow(streamed, str(tmp_path / "in"), FollowSettings(once=True)).awaitTermination(120)
    assert streamed.rejected.rows() == 0
    assert stored(streamed) == {"once"}


def test_a_followed_folder_tells_of_files_that_spark_passes_over(
    spark: SparkSession, tmp_path: Path, good_run: Run
) -> None:
    """Spark lists empty files and then drops them: an empty Parquet file, or a pipe, was lost without a reason."""
    folder = tmp_path / "in"
    write_lines(folder / "sound.jsonl", [good_run(run_id="sound")])
    (folder / "empty.parquet").touch()
    (folder / "empty.jsonl").touch()
    os.mkfifo(folder / "pipe.jsonl")
    history, reports = History(spark, str(tmp_path / "history")), []
    for _ in range(2):
        follow(history, str(folder), FollowSettings(once=True), on_batch=reports.append).awaitTermination(120)
    assert sum(report.files for report in reports[:2]) == 4
    assert stored(history) == {"sound"}
    assert rejected(history) == {("empty.parquet", "unreadable_file"): 1, ("pipe.jsonl", "unsupported_file"): 1}


def test_a_followed_loop_is_read_once_whatever_the_batches(spark: SparkSession, tmp_path: Path, good_run: Run) -> None:
    """With small batches, each of the 41 names of one file came in a batch of its own, as 40 duplicates."""
    write_lines(tmp_path / "in" / "day" / "runs.jsonl", [good_run(run_id="once")])
    (tmp_path / "in" / "day" / "up").symlink_to(tmp_path / "in")
    history = History(spark, str(tmp_path / "history"))
    follow(history, str(tmp_path / "in"), FollowSettings(once=True, max_files=9)).awaitTermination(120)
    assert stored(history) == {"once"}
    assert history.rejected.rows() == 0


@pytest.mark.parametrize("links", [{"up": ".", "also-up": "."}, {"up": ".", "../side": "day"}], ids=["two", "side"])
def test_links_that_go_round_in_two_ways_are_not_followed(
    spark: SparkSession, tmp_path: Path, good_run: Run, links: dict[str, str]
) -> None:
    """Spark would list 2⁴⁰ folders; reading the same folder once is no trouble. One circle and a link beside it do."""
    write_lines(tmp_path / "in" / "day" / "runs.jsonl", [good_run(run_id="once")])
    for name, target in links.items():
        (tmp_path / "in" / "day" / name).symlink_to(tmp_path / "in" / target)
    history = History(spark, str(tmp_path / "history"))
    with pytest.raises(StorageError, match=r"cannot be followed: its links \(.*up' and .*'\).*without --follow"):
        follow(history, str(tmp_path / "in"), FollowSettings(once=True))
    report = ingest(history, [str(tmp_path / "in")])
    assert (report.rows_in, report.valid) == (1, 1)


def test_a_name_that_is_not_utf8_is_read_by_a_link_or_rejected(
    spark: SparkSession, tmp_path: Path, good_run: Run
) -> None:
    """Such a file was both read, by the link, and rejected; and one that is spelled like its escape got lost."""
    folder = tmp_path / "in"
    write_lines(folder / "odd-\udce4.jsonl", [good_run(run_id="linked")])
    (folder / "sound.jsonl").symlink_to(folder / "odd-\udce4.jsonl")
    write_lines(folder / "lost-\udce4.jsonl", [good_run(run_id="cannot be opened")])
    write_lines(folder / "lost-\\xe4.jsonl", [good_run(run_id="backslash")])
    write_lines(folder / "day-\udce4" / "runs.jsonl", [good_run(run_id="in a folder")])
    (folder / "day").symlink_to(folder / "day-\udce4")
    history, streamed = (History(spark, str(tmp_path / name)) for name in ("history", "streamed"))
    assert ingest(history, [str(folder)]) == IngestReport(4, 4, 3, 1, True)
    follow(streamed, str(folder), FollowSettings(once=True)).awaitTermination(120)
    for one in (history, streamed):
        assert stored(one) == {"linked", "backslash", "in a folder"}
        assert rejected(one) == {("lost-\\xe4.jsonl", "unsupported_file"): 1}


def test_what_was_read_is_compared_with_what_was_listed_file_by_file(spark: SparkSession) -> None:
    """Of two files one was read twice and one not at all, and in = valid + rejected held: a count has to notice."""
    first, second = (FileStatus(f"file:/in/{name}.jsonl", 20, 0) for name in ("a", "b"))
    listed = Sources(text=(first, second), sizes={first.path: 20, second.path: 20})

    def read(*rows: tuple[str, int]) -> list[Refused]:
        return compare(listed, spark.createDataFrame(list(rows), "source_file string, raw_bytes bigint"))

    assert read((first.path, 19), (second.path, 19)) == []
    assert read((first.path, 19)) == [Refused(second, "line_too_long")]
    with pytest.raises(HistoryError, match=r"a\.jsonl' has 20 bytes, but 38 were read"):
        read((first.path, 19), (first.path, 19), (second.path, 19))
    with pytest.raises(HistoryError, match=r"c\.jsonl' was read, but not listed"):
        read((first.path, 19), (second.path, 19), ("file:/in/c.jsonl", 19))
    parquet = Sources(parquet={"": (first,)}, rows={first.path: 1})
    twice = spark.createDataFrame([(first.path, 9)] * 2, "source_file string, raw_bytes bigint")
    with pytest.raises(HistoryError, match="has 1 rows, but 2 were read"):
        compare(parquet, twice)
