"""Disks that are full, read-only or slow: one clear line, nothing lost, and the next call goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.disks import Disk, can_mount, small_disk
from faults.processes import RECORDS, CollectKills, LearnKills, Server, Trial, TuneKills, a_server, whole_runs

pytestmark = pytest.mark.slow
SIZE_KB = 2048
# What a machine says of a disk that takes no more, and of one that takes nothing.
FULL = ("No space left on device", "disk is full", "File too large", "disk I/O error")
READ_ONLY = ("read-only", "Read-only", "readonly")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with a_server() as one:
        yield one


def last_line(work: Path) -> str:
    return (work / "place.log").read_text().strip().splitlines()[-1]


def refused(process: Any, disk: Disk, work: Path, said: tuple[str, ...]) -> None:
    """It ends with one line that names the place and what to do, and no traceback."""
    (work / "place.log").unlink(missing_ok=True)
    ended = process.run(disk.folder, **disk.room)
    assert ended["code"] == 2, (work / "place.log").read_text()
    line = last_line(work)
    assert any(words in line for words in said), line
    assert str(disk.folder) in line, line
    assert "Traceback" not in (work / "place.log").read_text()


@pytest.mark.parametrize("kind", [TuneKills, LearnKills], ids=lambda kind: kind.name)
def test_a_full_disk_is_said_and_the_next_call_goes_on(kind: type, server: Server, tmp_path: Path) -> None:
    with small_disk(tmp_path / "place", SIZE_KB) as disk:
        process = kind(server, tmp_path)
        for room in (0, 24 * 1024, 56 * 1024):
            process.fresh()
            disk.fill(room)
            refused(process, disk, tmp_path, FULL)
            disk.make_room()
            trial = Trial(process.name, f"{room} bytes of room")
            process.judge(disk.folder, trial)
            assert trial.wrong == []


def test_collect_keeps_its_records_until_there_is_room(server: Server, tmp_path: Path) -> None:
    with small_disk(tmp_path / "place", SIZE_KB) as disk:
        process = CollectKills(server, tmp_path)
        if not disk.mounted:
            pytest.skip("no tmpfs can be mounted here: a limit on the size of files cannot be lifted from outside")
        (process.fresh() / "records").mkdir()
        disk.fill(0)
        (tmp_path / "place.log").unlink()

        def relieve() -> None:
            while "records wait until it can be" not in (tmp_path / "place.log").read_text():
                time.sleep(0.05)
            disk.make_room()

        (tmp_path / "place.log").touch()
        thread = threading.Thread(target=relieve, daemon=True)
        thread.start()
        ended = process.run(disk.folder)
        thread.join(5)
        assert ended["code"] == 0
        log = (tmp_path / "place.log").read_text()
        assert log.count("No space left on device") == 1, "said once, not at every look"
        trial = Trial("collect", "")
        assert len(whole_runs(disk.folder / "records", trial)) == RECORDS
        assert trial.wrong == []


def test_a_read_only_disk_is_said(server: Server, tmp_path: Path) -> None:
    if not can_mount(tmp_path / "probe"):
        pytest.skip("no tmpfs can be mounted here, and for root no folder is read-only without one")
    with small_disk(tmp_path / "place", SIZE_KB) as disk:
        for kind in (TuneKills, CollectKills, LearnKills):
            process = kind(server, tmp_path)
            process.fresh()
            disk.remount("ro")
            refused(process, disk, tmp_path, READ_ONLY)
            disk.remount("rw")
            trial = Trial(process.name, "")
            process.judge(disk.folder, trial)
            assert trial.wrong == []


def test_a_slow_disk_changes_nothing(server: Server, tmp_path: Path) -> None:
    process = LearnKills(server, tmp_path / "learn")
    folder = process.fresh()
    assert process.run(folder, slow_s=0.02)["code"] == 0
    trial = Trial("learn", "")
    process.check(folder, trial)
    assert trial.wrong == []
