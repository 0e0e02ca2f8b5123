"""``make bench-disks``: every step of the pipeline on a full, a read-only and a slow disk, then again on a sound one.

The steps and the folders that they start from are those of ``benchmarks/kill_pipeline.py``; each runs as a real
``streamtune`` process whose folder is a tmpfs of its own (as root). With no room at all, with half of the room that it
needs, and read-only it must end with exit code 2 and one line that says what and where, without a traceback; what is
there then must be what was there before, or whole parts of the result; and on a sound disk the same step ends with the
tables of an undisturbed run, nothing left over. Slow: every write takes 2 ms more (a library below the JVM and Python,
where there is a C compiler), and the result is the same. Writes ``benchmarks/results/disks.json``. STEPS: which of
them; WORK (build/disks): every trial is noted there, and the benchmark goes on from them; with SLICE_S it stops by
itself after so many seconds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from kill_pipeline import STEPS, State, Step, prepared, what_is_there  # changes the path: before the tests' folders

from faults.disks import Disk, can_mount, small_disk
from history.killing import Ended, leftovers, run_step

RESULTS = Path(__file__).parent / "results" / "disks.json"
SAID = re.compile("No space left on device|disk is full|Read-only|read-only", re.IGNORECASE)
ROOM_KB = 128 * 1024
WAYS = ("no room", "half the room", "read-only", "slow")
SLOW_MS = 2
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static void wait_for(int fd) {
  static const char *folder; static int us = -1;
  if (us < 0) { const char *t = getenv("SLOW_US"); folder = getenv("SLOW_FOLDER"); us = t ? atoi(t) : 0; }
  if (!us || !folder) return;
  char name[64], path[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(name, path, sizeof path - 1);
  if (n > 0) { path[n] = 0; if (!strncmp(path, folder, strlen(folder))) usleep(us); }
}
ssize_t write(int fd, const void *b, size_t n) {
  static ssize_t (*next)(int, const void *, size_t);
  if (!next) next = dlsym(RTLD_NEXT, "write");
  wait_for(fd); return next(fd, b, n);
}
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at) {
  static ssize_t (*next)(int, const void *, size_t, off64_t);
  if (!next) next = dlsym(RTLD_NEXT, "pwrite64");
  wait_for(fd); return next(fd, b, n, at);
}
"""


@dataclass(frozen=True)
class Trial:
    """One step on one kind of disk."""

    step: str
    way: str
    code: int
    said: str
    found: str
    same_in_the_end: bool
    left_over: list[str]
    seconds: float
    wrong: list[str]


def used_bytes(folder: Path) -> int:
    about = os.statvfs(folder)
    return (about.f_blocks - about.f_bfree) * about.f_frsize


def started(step: Step, work: Path, disk: Disk) -> None:
    """The folder that a step starts from, always at the same address and with its dates: files are known by both."""
    for entry in disk.folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    shutil.copytree(work / step.base, disk.folder, dirs_exist_ok=True)


def run(step: Step, place: Path) -> Ended:
    return run_step(step.arguments(place), place.parent, lambda _log: True)


def wrong_words(ended: Ended, place: Path, way: str) -> list[str]:
    if way == "slow":
        return [] if ended.code == 0 else [f"exit code {ended.code}"]
    found = []
    if ended.code != 2:
        found.append(f"exit code {ended.code}")
    if "Traceback" in ended.log:
        found.append("a traceback")
    line = last_line(ended)
    if not SAID.search(line):
        found.append("does not say what is wrong with the disk")
    if str(place) not in line:
        found.append("does not say where")
    return found


def last_line(ended: Ended) -> str:
    """The sentence that it ended with, which the terminal may have wrapped."""
    return " ".join(ended.log[ended.log.rfind("error:") :].split()) if "error:" in ended.log else ended.log[-300:]


def tried(step: Step, way: str, work: Path, disk: Disk, before: State, after: State, needs: int) -> Trial:
    place = disk.folder
    started(step, work, disk)
    begun = time.monotonic()
    if way == "read-only":
        disk.remount("ro")
    elif way != "slow":
        disk.fill(needs // 2 if way == "half the room" else 0)
    try:
        if way == "slow":
            os.environ |= {"LD_PRELOAD": shim(work), "SLOW_FOLDER": str(place), "SLOW_US": str(1000 * SLOW_MS)}
        ended = run(step, place)
    finally:
        os.environ.pop("LD_PRELOAD", None)
    seconds = time.monotonic() - begun
    wrong = wrong_words(ended, place, way)
    there = what_is_there(step.outputs(place), before, after)
    if there == "MIXED" or (way == "slow" and there != "after"):
        wrong.append(f"found {there}")
    disk.remount("rw")
    disk.make_room()
    again = run(step, place)
    same = again.code == 0 and step.outputs(place) == after
    left = [*leftovers(place), *leftovers(place / "history")]
    if not same or left:
        wrong.append("not as undisturbed in the end")
    said = "" if way == "slow" else last_line(ended)[:400]
    return Trial(step.name, way, ended.code, said, there, same, left, round(seconds, 1), wrong)


def shim(work: Path) -> str:
    library = work / "slow.so"
    if not library.exists():
        (work / "slow.c").write_text(SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(work / "slow.c"), "-ldl"], check=True)
    return str(library)


def trials_of(step: Step, work: Path, until: float) -> None:
    notes = work / f"{step.name}.jsonl"
    noted = {one.way for one in noted_trials(notes)}
    waiting = [way for way in WAYS if way not in noted and (way != "slow" or shutil.which("cc"))]
    if not waiting or time.monotonic() > until:
        return
    shutil.rmtree(work / f"trial-{step.name}", ignore_errors=True)
    with small_disk(work / f"trial-{step.name}" / "place", ROOM_KB) as disk:
        started(step, work, disk)
        before, used = step.outputs(disk.folder), used_bytes(disk.folder)
        whole = run(step, disk.folder)
        if whole.code != 0:
            raise SystemExit(f"{step.name} failed undisturbed:\n{whole.log}")
        after, needs = step.outputs(disk.folder), used_bytes(disk.folder) - used
        for way in waiting:
            if time.monotonic() > until:
                break
            trial = tried(step, way, work, disk, before, after, needs)
            print(
                f"{step.name:10} {way:14} {trial.seconds:6.1f} s  {trial.wrong or 'ok'}\n    {trial.said}", flush=True
            )
            with notes.open("a") as file:
                file.write(json.dumps(asdict(trial)) + "\n")


def noted_trials(notes: Path) -> list[Trial]:
    return [Trial(**json.loads(line)) for line in notes.read_text().splitlines()] if notes.exists() else []


def main() -> int:
    wanted = os.environ.get("STEPS", ",".join(step.name for step in STEPS)).split(",")
    work = Path(os.environ.get("WORK", "build/disks")).absolute()
    until = time.monotonic() + float(os.environ.get("SLICE_S", "inf"))
    work.mkdir(parents=True, exist_ok=True)
    if not can_mount(work / "probe"):
        raise SystemExit("bench-disks mounts small disks: run it as root, where mount is allowed")
    prepared(work)
    for step in (step for step in STEPS if step.name in wanted):
        trials_of(step, work, until)
    trials = [trial for step in STEPS for trial in noted_trials(work / f"{step.name}.jsonl")]
    bad = [trial for trial in trials if trial.wrong]
    result = {"trials": len(trials), "as_promised": len(trials) - len(bad), "all": [asdict(one) for one in trials]}
    RESULTS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(trials)} trials, {len(trials) - len(bad)} as promised")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
