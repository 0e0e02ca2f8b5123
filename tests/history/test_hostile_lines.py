"""What drawn folders have brought to light, each as small as it gets."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from streamtune.history.featurise import encoder_of, encoder_path, featurise
from streamtune.history.ingest import ingest
from streamtune.history.settings import FeaturiseSettings, ValidationSettings
from streamtune.history.store import History
from streamtune.spark.files import Files
from streamtune.spark.tables import Table

pytestmark = pytest.mark.spark

Run = Callable[..., dict[str, Any]]


def line(run: dict[str, Any]) -> bytes:
    return json.dumps(run).encode() + b"\n"


def stored(history: History) -> set[str]:
    return {row.run_id for row in history.runs.read().select("run_id").collect()}


def rejected(history: History) -> Counter[tuple[str, int, str]]:
    rows = history.rejected.read().select("source_file", "position", "reasons").collect()
    return Counter((row.source_file.rpartition("/")[2], row.position, "+".join(row.reasons)) for row in rows)


def test_one_record_per_line_and_texts_that_are_texts(spark: SparkSession, tmp_path: Path, good_run: Run) -> None:
    """Spark reads the first value of a line and forgets the rest, and takes anything for a text."""
    one, two = (line(good_run(run_id=name)).rstrip() for name in ("one", "two"))
    source_called_job = json.loads(json.dumps(good_run(run_id="sound")).replace('"in"', '"job"'))
    lines = [
        one + two, one + b" and more", one + b",", one + b"," + two, b"[" + one + b"," + two + b"]", b"[" + one + b"]",
        line(good_run(run_id="number", job=7)).rstrip(), line(good_run(run_id={"a": 1})).rstrip(),
        line(good_run(run_id="epoch", observed_at=7)).rstrip(), line(source_called_job).rstrip() + b" \r",
        one.replace(b'"one"', b'"split"').replace(b", ", b",\r"),
        line(good_run(run_id="sound", operators="none")).rstrip(), line(good_run(run_id=float("inf"))).rstrip(),
        line(good_run(run_id="half \ud83d")).rstrip(), line(good_run(run_id="half \udd80")).rstrip(),
        line(good_run(run_id="whole \U0001f980 and \\ud83d")).rstrip(),
    ]  # fmt: skip
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines))
    history = History(spark, str(tmp_path / "history"))
    ingest(history, [str(tmp_path / "in.jsonl")])
    assert stored(history) == {"sound", "split", "whole \U0001f980 and \\ud83d"}
    expected = dict.fromkeys((1, 2, 3, 4, 14, 15), "broken_json") | dict.fromkeys((5, 6, 7, 8, 9, 12, 13), "wrong_type")
    assert rejected(history) == Counter(("in.jsonl", position, reason) for position, reason in expected.items())


def test_a_day_that_python_cannot_read_is_not_written(spark: SparkSession, tmp_path: Path, good_run: Run) -> None:
    (tmp_path / "in.jsonl").write_bytes(line(good_run(observed_at="+20026-11-16T10:00:00Z")))
    history = History(spark, str(tmp_path / "history"))
    ingest(history, [str(tmp_path / "in.jsonl")])
    assert [row.reasons for row in history.rejected.read().collect()] == [["impossible_time"]]


def test_files_that_used_to_be_lost_or_to_end_the_ingest(spark: SparkSession, tmp_path: Path, good_run: Run) -> None:
    folder = tmp_path / "in"
    (folder / "d:ir" / "[x]").mkdir(parents=True)
    (folder / "d:ir" / "[x]" / "colon.jsonl").write_bytes(line(good_run(run_id="colon")))
    (folder / "d:ir" / "plain.jsonl").write_bytes(line(good_run(run_id="plain")))
    (folder / "PACKED.GZ").write_bytes(gzip.compress(line(good_run(run_id="packed"))))
    (folder / "not-packed.GZ").write_bytes(line(good_run(run_id="never")))
    (folder / "empty.jsonl.gz").touch()
    (folder / "empty.parquet").touch()
    os.mkfifo(folder / "pipe.jsonl.gz")
    Path(os.fsdecode(os.fsencode(folder) + b"/latin-\xe4.jsonl")).write_bytes(line(good_run(run_id="latin")))
    # A limit of 1,500 bytes: what is missing of this file is less than one byte per line.
    short = b"".join(b"\n" for _ in range(3000))
    (folder / "long.jsonl").write_bytes(short + line(good_run(run_id="x" * 1500)) + line(good_run(run_id="after")))
    out = io.BytesIO()
    table = pa.Table.from_pylist([good_run(run_id="flipped", job="flip-me")])
    pq.write_table(table, out, compression="none", use_dictionary=False, write_page_checksum=True)
    (folder / "flipped.parquet").write_bytes(out.getvalue().replace(b"flip-me", b"flip-mf"))
    history = History(spark, str(tmp_path / "history"))
    report = ingest(history, [str(folder)], validation=ValidationSettings(max_line_mb=1500 / 2**20))
    assert stored(history) == {"plain", "packed", "after"}
    assert rejected(history) == Counter(
        (name, 0, reason)
        for name, reason in (
            ("colon.jsonl", "unsupported_file"),
            ("not-packed.GZ", "unreadable_file"),
            ("empty.parquet", "unreadable_file"),
            ("pipe.jsonl.gz", "unsupported_file"),
            ("latin-\\xe4.jsonl", "unsupported_file"),
            ("long.jsonl", "line_too_long"),
            ("flipped.parquet", "unreadable_file"),
        )
    )
    assert report.files == 10


def test_killed_at_the_last_commit_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, good_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.jsonl").write_bytes(line(good_run()))
    history = History(spark, str(tmp_path / "history"))
    append = Table.append

    def die_afterwards(table: Table, frame: Any, part: str) -> bool:
        done = append(table, frame, part)
        if table.location.endswith("rejected"):
            raise RuntimeError("killed by the test")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Table, "append", die_afterwards)
        with pytest.raises(RuntimeError):
            ingest(history, [str(tmp_path / "in.jsonl")])
    assert any((tmp_path / "history" / "_staging").iterdir())
    assert not ingest(history, [str(tmp_path / "in.jsonl")]).new
    assert not any(path for path in (tmp_path / "history" / "_staging").iterdir() if not path.name.endswith(".crc"))


def test_the_encoder_is_kept_with_its_features(
    spark: SparkSession, tmp_path: Path, good_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in between, features of one encoder used to lie beside another one."""
    (tmp_path / "in.jsonl").write_bytes(b"".join(line(good_run(run_id=f"r{n}", job=f"job-{n}")) for n in range(20)))
    history = History(spark, str(tmp_path / "history"))
    ingest(history, [str(tmp_path / "in.jsonl")])
    first = featurise(history, FeaturiseSettings(test_share=0.0))
    with monkeypatch.context() as patch:
        patch.setattr(Table, "replace", lambda *_args, **_more: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises(RuntimeError):
            featurise(history, FeaturiseSettings(test_share=0.5))
    assert encoder_of(history) == first
    Files(spark).delete(encoder_path(history))
    assert encoder_of(history) == first, "the file is a copy"


def test_a_file_that_waits_for_nobody_is_swept(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / ".one.json.4711").write_text("half")
    (tmp_path / ".other.json.4711").write_text("somebody else's")
    assert Files(spark).create_text(f"{tmp_path}/one.json", "whole")
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".crc") == [".other.json.4711", "one.json"]
