"""The second opinion has to be right itself: each case is one in which it was not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from history.plain_comparison import Stored, differences, stored_of
from history.plain_reader import read_folder

Run = Callable[..., dict[str, Any]]
Rejected = tuple[str, int, list[str], str]
LIMIT = 2_000


def stored(runs: list[dict[str, Any]], rejected: list[Rejected]) -> Stored:
    dated = [{**run, "observed_at": 1_794_823_200.0, "schema_version": 1} for run in runs]
    return stored_of(dated, rejected)


@pytest.fixture
def run(good_run: Run) -> dict[str, Any]:
    return {**good_run(run_id="thrice"), "observed_at": "2026-11-16T10:00:00+00:00", "schema_version": 1}


def test_equal_rows_beside_a_skipped_line_are_counted_one_by_one(tmp_path: Path, run: dict[str, Any]) -> None:
    line = json.dumps(run)
    file = tmp_path / "runs.jsonl"
    file.write_text(f"{line}\n{line}\n{'x' * (LIMIT + 1)}\n{line}\n")
    plain, again = read_folder(tmp_path, LIMIT), (str(file), 2, ["duplicate"], line)
    skipped: Rejected = (str(file), 0, ["line_too_long"], "")
    assert differences(plain, stored([run], [skipped, again, again])) == []
    (lost,) = differences(plain, stored([run], [skipped, again]))
    assert lost.startswith("should be rejected")
    (double,) = differences(plain, stored([run], [skipped, again, again, again]))
    assert double.startswith("rejected, but should not be so")


def test_a_repeated_row_that_was_cut_off_was_not_read(tmp_path: Path, run: dict[str, Any]) -> None:
    line = json.dumps(run).encode()
    packed = gzip.compress(b"%s\n%s\n" % (line, line), mtime=0)
    file = tmp_path / "runs.jsonl.gz"
    file.write_bytes(packed[:-4])
    plain, damaged = read_folder(tmp_path, LIMIT), (str(file), 0, ["unreadable_file"], "")
    assert differences(plain, stored([run], [damaged])) == []
    read: Rejected = (str(file), 2, ["duplicate"], line.decode())
    assert differences(plain, stored([run], [damaged, read])) == []


def test_a_row_of_a_damaged_file_is_not_taken_for_the_kept_one_of_a_whole_file(
    tmp_path: Path, run: dict[str, Any]
) -> None:
    line = json.dumps(run)
    (tmp_path / "whole.jsonl").write_text(f"{line}\n")
    damaged = tmp_path / "a.jsonl.gz"
    damaged.write_bytes(gzip.compress(f"{line}\n".encode(), mtime=0)[:-4])
    assert differences(read_folder(tmp_path, LIMIT), stored([run], [(str(damaged), 0, ["unreadable_file"], "")])) == []


def test_of_equal_rows_the_first_by_the_name_of_the_link_stays(tmp_path: Path, run: dict[str, Any]) -> None:
    line, folder = json.dumps(run), tmp_path / "a-long-name-of-a-folder"
    folder.mkdir()
    (folder / "runs.jsonl").write_text(f"{line}\n")
    (tmp_path / "b.jsonl").write_text(f"{line}\n")
    (tmp_path / "c.jsonl").symlink_to(folder / "runs.jsonl")
    plain = read_folder(tmp_path, LIMIT)
    assert differences(plain, stored([run], [(str(tmp_path / "c.jsonl"), 1, ["duplicate"], line)])) == []
    assert len(differences(plain, stored([run], [(str(tmp_path / "b.jsonl"), 1, ["duplicate"], line)]))) == 2


def test_a_file_whose_name_is_not_utf8_is_read_by_a_link(tmp_path: Path, run: dict[str, Any]) -> None:
    (tmp_path / "odd-\udce4.jsonl").write_text(json.dumps(run) + "\n")
    (tmp_path / "sound-and-longer.jsonl").symlink_to(tmp_path / "odd-\udce4.jsonl")
    plain = read_folder(tmp_path, LIMIT)
    assert (plain.files, len(plain.rows), plain.refused) == (1, 1, {})
