"""Runs one command in a session of its own and leaves its result in a folder: what outlives a killed StreamTune.

Started as a program (``python -I -S supervisor.py FOLDER TIMEOUT COMMAND…``) and imports the standard library alone, so
that it is up in a few milliseconds. The command gets its own session too (``setsid``): with the kernel's autogrouping
its processor time is then its own, and at the end every process it left behind in its group is ended with it.

Files: ``lock`` (held while it runs), ``attempts.json``, ``stdout``, ``stderr``, ``command.json`` (process id and start
time) and at the end ``result.json``, renamed into place: it is there whole or not at all. A second supervisor for the
same run waits for the first one's lock, finds its result and ends: a run is not repeated.

A run that vanished without a result is done again; twice at most where the configuration may be to blame: the machine
went down, or the run vanished while StreamTune lived on. That StreamTune was killed with it says nothing about the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

ATTEMPTS = 2
MOST_STARTS = 20
"""However it vanished: where a container is what goes down, nobody can tell it from a kill."""

_GRACE_S = 2.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def start_time(pid: int) -> str | None:
    """The kernel's start time of a process: with its id it names the process for good."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def write_whole(path: Path, record: dict[str, object]) -> None:
    """Write a JSON file such that no reader ever sees half of it."""
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def end_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def read_json(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def supervise(folder: Path, timeout: float | None, command: list[str]) -> None:
    """Run the command unless this run has a result already; wait for whoever is running it."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    if (folder / "result.json").exists():
        return
    before = read_json(folder / "attempts.json") or {}
    starts = int(before.get("starts", 0))
    blamed = int(before.get("blamed", 0)) + (starts > 0 and _is_to_blame(before))
    if blamed >= ATTEMPTS or starts >= MOST_STARTS:
        problem = f"the run vanished without a result {max(blamed, starts)} times"
        write_whole(folder / "result.json", {"code": None, "seconds": 0.0, "problem": problem})
        return
    _end_leftover(folder)
    parent = os.getppid()
    started = {"parent": parent, "parent_started": start_time(parent), "boot": _boot()}
    write_whole(folder / "attempts.json", {"starts": starts + 1, "blamed": blamed, **started})
    run(folder, timeout, command)


def _is_to_blame(before: dict[str, Any]) -> bool:
    """Whether the last attempt vanished while the StreamTune that began it lives, or with the machine."""
    lives = before.get("parent_started") and start_time(int(before["parent"])) == before["parent_started"]
    return before.get("boot") != _boot() or bool(lives)


def _boot() -> str:
    try:
        return _BOOT.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _end_leftover(folder: Path) -> None:
    """End a command whose supervisor was killed: it would disturb the next run."""
    left = read_json(folder / "command.json")
    if left and left["started"] and start_time(left["pid"]) == left["started"]:
        end_group(left["pid"], signal.SIGKILL)


def run(folder: Path, timeout: float | None, command: list[str]) -> None:
    started = time.monotonic()
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        except (OSError, ValueError) as error:
            problem = f"the command cannot be started: {error}"
            write_whole(folder / "result.json", {"code": None, "seconds": 0.0, "problem": problem})
            return

    def stop(_number: int, _frame: FrameType | None) -> None:
        # The user pauses: the run is given up, and done again when the session goes on.
        end_group(process.pid, signal.SIGKILL)
        (folder / "attempts.json").unlink(missing_ok=True)
        os._exit(1)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    write_whole(folder / "command.json", {"pid": process.pid, "started": start_time(process.pid)})
    timed_out = False
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        end_group(process.pid, signal.SIGTERM)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            end_group(process.pid, signal.SIGKILL)
            process.wait()
    end_group(process.pid, signal.SIGKILL)
    seconds = time.monotonic() - started
    write_whole(
        folder / "result.json",
        {"code": process.returncode, "seconds": seconds, "timed_out": timed_out, "timeout": timeout},
    )


if __name__ == "__main__":
    supervise(Path(sys.argv[1]), None if sys.argv[2] == "none" else float(sys.argv[2]), sys.argv[3:])
