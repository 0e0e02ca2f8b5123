"""Whatever comes in is either valid or rejected with its reasons, and nothing comes in twice."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamtune.dataflow import Run
from streamtune.history import reasons
from streamtune.history.errors import HistoryError
from streamtune.history.ingest import ingest
from streamtune.history.store import History
from streamtune.spark.errors import StorageError
from streamtune.spark.tables import Table

pytestmark = pytest.mark.spark

Record = dict[str, Any]


def counted(history: History) -> Counter[str]:
    rows = history.rejected.read().select("reasons").collect()
    return Counter(reason for row in rows for reason in row.reasons)


def stored_ids(history: History) -> list[str]:
    return sorted(row.run_id for row in history.runs.read().select("run_id").collect())


def test_a_run_comes_out_as_it_went_in(
    spark: SparkSession, tmp_path: Path, good_run: Callable[..., Record], write_lines: Callable[..., Path]
) -> None:
    record = good_run()
    del record["schema_version"], record["edges"][1]["partitioning"]  # what has a default may be left out
    source = write_lines("in/a.jsonl", [record])
    history = History(spark, str(tmp_path / "history"))
    assert ingest(history, [str(source)]).valid == 1
    (row,) = history.runs.read().collect()
    fields = row.asDict(recursive=True)
    assert str(fields.pop("day")) == "2026-11-16"
    fields.pop("content_hash")
    fields["observed_at"] = record["observed_at"]
    assert Run.model_validate(fields) == Run.model_validate(good_run())


def test_damaged_files_do_not_lose_the_others(
    spark: SparkSession, tmp_path: Path, good_run: Callable[..., Record], write_lines: Callable[..., Path]
) -> None:
    write_lines("in/good.jsonl", [good_run(run_id=f"good-{n}") for n in range(3)])
    write_lines("in/broken.jsonl", [good_run(run_id="b-0"), '{"run_id": "b-1", "jo', "", "[1, 2]", '"text"', "null"])
    write_lines("in/typed.jsonl", [good_run(run_id="t-0", window_s="long"), good_run(run_id="t-1", operators={})])
    write_lines("in/empty.jsonl", [])
    (tmp_path / "in" / "latin.jsonl").write_bytes(
        json.dumps(good_run(run_id="l-0", job="x")).encode() + b"\n\xff\xfe{\n"
    )
    whole = gzip.compress("".join(json.dumps(good_run(run_id=f"z-{n}")) + "\n" for n in range(4000)).encode(), 1)
    (tmp_path / "in" / "whole.jsonl.gz").write_bytes(whole)
    (tmp_path / "in" / "truncated.jsonl.gz").write_bytes(whole.replace(b"z-", b"y-")[: len(whole) // 2])
    (tmp_path / "in" / "truncated.parquet").write_bytes(b"PAR1 and then nothing")

    history = History(spark, str(tmp_path / "history"))
    report = ingest(history, [str(tmp_path / "in")])
    assert report.rows_in == report.valid + report.rejected
    assert {"good-0", "good-1", "good-2", "b-0", "l-0", "z-0", "z-3999"} <= set(stored_ids(history))
    why = counted(history)
    assert why[reasons.UNREADABLE_FILE] == 2
    assert why[reasons.BROKEN_JSON] == 2
    assert why[reasons.WRONG_TYPE] == 5, "three that are JSON but no object, two with a field of another type"
    assert why[reasons.DUPLICATE] > 100, "what could be read of the truncated file repeats runs of the whole one"

    places = {
        (Path(row.source_file).name, row.position): row
        for row in history.rejected.read().where("not array_contains(reasons, 'duplicate')").collect()
    }
    assert places["broken.jsonl", 2].raw == '{"run_id": "b-1", "jo'
    assert places["broken.jsonl", 4].raw == "[1, 2]", "the blank line 3 is no record, but counts as a line"
    assert places["typed.jsonl", 1].reasons == [reasons.WRONG_TYPE]


def test_duplicates_and_conflicts(
    spark: SparkSession, tmp_path: Path, good_run: Callable[..., Record], write_lines: Callable[..., Path]
) -> None:
    history = History(spark, str(tmp_path / "history"))
    twin = good_run(run_id="twin")
    reordered = {key: twin[key] for key in reversed(twin)}  # the order of fields is no content
    bad = good_run(run_id="mixed", window_s=1.0)
    one = write_lines("one.jsonl", [twin, good_run(run_id="liar"), bad])
    two = write_lines("two.jsonl", [reordered, good_run(run_id="liar", latency_ms=99.0), good_run(run_id="mixed")])
    report = ingest(history, [str(one), str(two)])
    assert (report.rows_in, report.valid, report.rejected) == (6, 3, 3)
    assert stored_ids(history) == ["liar", "mixed", "twin"]
    assert counted(history) == {
        reasons.DUPLICATE: 1,
        reasons.CONFLICTING_DUPLICATE: 2,
        reasons.WINDOW_TOO_SHORT: 1,
    }
    kept = history.runs.read().where("run_id = 'liar'").collect()[0].latency_ms

    swapped = History(spark, str(tmp_path / "swapped"))
    ingest(swapped, [str(two), str(one)])
    assert swapped.runs.read().where("run_id = 'liar'").collect()[0].latency_ms == kept, "no matter the order of files"

    later = write_lines("later.jsonl", [twin, good_run(run_id="liar", latency_ms=5.0)])
    ingest(history, [str(later)])
    assert history.runs.read().where("run_id = 'liar'").collect()[0].latency_ms == kept, "what is stored stays"
    assert counted(history)[reasons.DUPLICATE] == 2
    assert counted(history)[reasons.CONFLICTING_DUPLICATE] == 3


def test_the_same_files_twice_change_nothing(
    spark: SparkSession, tmp_path: Path, good_run: Callable[..., Record], write_lines: Callable[..., Path]
) -> None:
    history = History(spark, str(tmp_path / "history"))
    source = write_lines("in/a.jsonl", [good_run(run_id=f"r-{n}") for n in range(5)] + ["oops"])
    first = ingest(history, [str(source)])
    again = ingest(history, [str(tmp_path / "in")])
    assert first.new
    assert not again.new
    assert (first.rows_in, first.valid, first.rejected) == (again.rows_in, again.valid, again.rejected) == (6, 5, 1)
    assert history.runs.rows() == 5
    shutil.copy(source, tmp_path / "in" / "copy.jsonl")
    both = ingest(history, [str(tmp_path / "in")])
    assert (both.rows_in, both.valid, both.rejected) == (12, 0, 12)
    assert stored_ids(history) == [f"r-{n}" for n in range(5)]


@pytest.mark.parametrize("killed_at", ["runs", "rejected"])
def test_an_ingest_killed_in_between_is_completed_by_the_next(
    spark: SparkSession,
    tmp_path: Path,
    good_run: Callable[..., Record],
    write_lines: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    killed_at: str,
) -> None:
    history = History(spark, str(tmp_path / "history"))
    source = write_lines("a.jsonl", [good_run(run_id=f"r-{n}") for n in range(5)] + [good_run(run_id="r-0"), "oops"])
    append = Table.append

    def die(table: Table, frame: Any, part: str) -> bool:
        if table.location.endswith(killed_at):
            table._write(frame, part)
            raise KeyboardInterrupt
        return append(table, frame, part)

    with monkeypatch.context() as patch:
        patch.setattr(Table, "append", die)
        with pytest.raises(KeyboardInterrupt):
            ingest(history, [str(source)])
    assert history.runs.exists == (killed_at == "rejected")
    report = ingest(history, [str(source)])
    assert (report.rows_in, report.valid, report.rejected) == (7, 5, 2)
    assert counted(history) == {reasons.DUPLICATE: 1, reasons.BROKEN_JSON: 1}


def test_parquet_of_any_schema(
    spark: SparkSession, tmp_path: Path, good_run: Callable[..., Record], write_lines: Callable[..., Path]
) -> None:
    source = write_lines("a.jsonl", [good_run(run_id=f"r-{n}") for n in range(3)])
    first = History(spark, str(tmp_path / "first"))
    ingest(first, [str(source)])
    first.runs.read().drop("day").coalesce(1).write.parquet(str(tmp_path / "in" / "runs"))
    spark.range(2).write.parquet(str(tmp_path / "in" / "other"))
    second = History(spark, str(tmp_path / "second"))
    report = ingest(second, [str(tmp_path / "in")])
    assert (report.rows_in, report.valid, report.rejected) == (5, 3, 2)
    assert counted(second)[reasons.MISSING_FIELD] == 2
    hashes = [{row.content_hash for row in history.runs.read().collect()} for history in (first, second)]
    assert hashes[0] == hashes[1], "through Parquet or JSON, a run stays the same run"
    assert stored_ids(second) == stored_ids(first)


def test_what_cannot_be_ingested_is_named(spark: SparkSession, tmp_path: Path) -> None:
    history = History(spark, str(tmp_path / "history"))
    with pytest.raises(StorageError, match="no file or folder"):
        ingest(history, [str(tmp_path / "nowhere")])
    (tmp_path / "runs.jsonl.bz2").write_bytes(b"BZh")
    report = ingest(history, [str(tmp_path / "runs.jsonl.bz2")])
    assert (report.valid, report.rejected) == (0, 1)
    assert history.rejected.read().first().reasons == ["unsupported_file"]
    with pytest.raises(HistoryError, match="unknown input format"):
        ingest(history, [str(tmp_path)], format_name="csv")
