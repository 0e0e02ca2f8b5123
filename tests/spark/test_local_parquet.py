"""Local Parquet files as a task reads them: columns that were asked for, batches of one size, no damaged page."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamtune.spark import local_parquet
from streamtune.spark.errors import StorageError
from streamtune.spark.local_parquet import LocalFile, files_below, read_task, tasks_of

STRUCT = pa.struct([("id", pa.string()), ("busy", pa.float64()), ("unused", pa.string())])
OLD = pa.struct([("id", pa.string())])
WANTED = pa.schema(
    [
        ("day", pa.date32()),
        ("run_id", pa.string()),
        ("operators", pa.list_(pa.field("element", pa.struct([("busy", pa.float64()), ("id", pa.string())])))),
        ("rates", pa.map_(pa.string(), pa.float64())),
        ("engine", pa.string()),
    ]
)


def write(folder: Path, name: str, rows: range, struct: pa.StructType = STRUCT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    operators = [
        [{field.name: f"o{row}" if field.name == "id" else None for field in struct}] * (row % 3) for row in rows
    ]
    table = pa.table(
        {
            "run_id": pa.array([f"run-{row}" for row in rows]),
            "operators": pa.array(operators, pa.list_(struct)),
            "rates": pa.array([[("o", float(row))] for row in rows], pa.map_(pa.string(), pa.float64())),
            "other": pa.array([0] * len(rows)),
        }
    )
    pq.write_table(table, folder / name, write_page_checksum=True, compression="none")
    return folder / name


def test_columns_of_the_file_of_its_path_and_of_neither(tmp_path: Path) -> None:
    write(tmp_path / "day=2026-11-15", "a.parquet", range(3))
    write(tmp_path / "day=2026-11-16", "b.parquet", range(3, 6), OLD)
    write(tmp_path / "_temporary", "half.parquet", range(9))
    (tmp_path / "_SUCCESS").touch()
    (batch,) = read_task(files_below(str(tmp_path)), WANTED)
    assert batch.schema.names == WANTED.names
    rows = batch.to_pylist()
    assert [row["run_id"] for row in rows] == [f"run-{number}" for number in range(6)]
    assert [row["day"] for row in rows] == [datetime.date(2026, 11, 15)] * 3 + [datetime.date(2026, 11, 16)] * 3
    assert rows[5]["operators"] == [{"busy": None, "id": "o5"}] * 2
    assert rows[2]["rates"] == [("o", 2.0)]
    assert {row["engine"] for row in rows} == {None}


def test_batches_have_one_size_however_the_rows_are_spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_parquet, "BATCH_ROWS", 10)
    for number in range(8):
        write(tmp_path, f"small-{number}.parquet", range(number * 3, number * 3 + 3))
    write(tmp_path, "zlarge.parquet", range(24, 49))
    batches = list(read_task(files_below(str(tmp_path)), WANTED))
    assert [len(batch) for batch in batches] == [9, 9, 6, 10, 10, 5]
    assert [name for batch in batches for name in batch.column("run_id").to_pylist()] == [f"run-{n}" for n in range(49)]


def test_files_are_put_into_tasks_by_their_size() -> None:
    files = [LocalFile(str(number), size) for number, size in enumerate([1, 1, 20, 3, 4])]
    tasks = tasks_of(files, task_bytes=8)
    assert [[file.size_bytes for file in task] for task in tasks] == [[1, 1, 6], [6], [6], [3, 4]]
    assert tasks_of([]) == []


def test_pieces_of_a_large_file_make_the_whole(tmp_path: Path) -> None:
    table = pa.table({"run_id": [f"run-{number}" for number in range(50)]})
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=8)
    (file,) = files_below(str(tmp_path))
    pieces = file.split(-(-file.size_bytes // 4))
    assert len(pieces) == 4
    found = [batch.column("run_id").to_pylist() for piece in pieces for batch in read_task([piece], WANTED)]
    assert len(found) == 4
    assert sorted(name for names in found for name in names) == sorted(table.column("run_id").to_pylist())


def test_one_flipped_bit_is_found(tmp_path: Path) -> None:
    file = write(tmp_path, "a.parquet", range(3))
    whole = bytearray(file.read_bytes())
    at = whole.index(b"run-1")
    whole[at] ^= 1
    file.write_bytes(bytes(whole))
    with pytest.raises(StorageError, match=r"a\.parquet cannot be read: .*CRC.*Restore it from a copy"):
        list(read_task(files_below(str(tmp_path)), WANTED))
