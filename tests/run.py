"""What ``make test`` and ``make test-fast`` run: the tests part by part, one exit code, the coverage of each room.

    python tests/run.py [--fast] [pytest arguments]

All: first whatever may run beside other tests, on two workers (all tests on Spark share one of them), then the tests
that measure a real engine in real time, with nothing beside them. Fast: what starts no JVM and no real engine.
Parts run one after the other in the foreground, so that Ctrl-C ends everything.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "streamtune"
NOTHING_RAN = 5  # pytest's exit code when no test was chosen
TESTS_FAILED = 1
INTERRUPTED = 2

# Groups and files stay on one worker, in the order of conftest.py.
TWO_WORKERS = ("-n", "2", "--dist", "loadscope", "--no-loadscope-reorder")
# Compiled code is not traced, and what Spark's and Timely's own processes do is not counted.
COVERED = ("--cov", "--cov-append", "--cov-report=")


@dataclass(frozen=True)
class Part:
    """One call of pytest."""

    title: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


FAST = (Part("pure logic, on two workers", ("--part=fast", *TWO_WORKERS), {"HYPOTHESIS_PROFILE": "fast"}),)
ALL = (
    Part("pure logic and Spark, on two workers", ("--part=beside", *TWO_WORKERS, *COVERED)),
    Part("real engines, with nothing beside them", ("--part=alone", *COVERED)),
)


def run_parts(parts: Sequence[Part], arguments: Sequence[str]) -> list[int]:
    """The exit codes of the parts that were run; a part that could not do its work is the last one."""
    codes = []
    for part in parts:
        print(f"==> {part.title}", flush=True)
        command = [sys.executable, "-m", "pytest", *part.arguments, *arguments]
        # All workers must collect in the same order. What the caller has set wins: HYPOTHESIS_PROFILE=explore.
        codes.append(run_to_the_end(command, {"PYTHONHASHSEED": "0", **part.environment, **os.environ}))
        if codes[-1] not in (0, TESTS_FAILED, NOTHING_RAN) or (codes[-1] == TESTS_FAILED and stops_early(arguments)):
            break
    return codes


def run_to_the_end(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code of a process that gets all the time it needs to end what it has started.

    Ctrl-C reaches it without us (a terminal tells the whole group), so that we only wait: ``subprocess.call`` would
    kill it after a quarter of a second, and leave its clusters running. A SIGTERM is passed on as an interrupt.
    """
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGINT)),
    }
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stops_early(arguments: Sequence[str]) -> bool:
    return any(one in ("-x", "--exitfirst") or one.startswith("--maxfail") for one in arguments)


def verdict(codes: Sequence[int]) -> int:
    """One exit code for all parts: a part without tests is fine as long as another one had some.

    >>> verdict([0, 5]), verdict([5, 5]), verdict([1, 0]), verdict([1, 4])
    (0, 5, 1, 4)
    """
    telling = [code for code in codes if code != NOTHING_RAN]
    if not telling:
        return NOTHING_RAN
    return max(telling, key=lambda code: (code > TESTS_FAILED, code))


def print_coverage(data_file: Path) -> None:
    """Lines that ran, per room and in all."""
    from coverage import Coverage

    measured = Coverage(config_file=str(ROOT / "pyproject.toml"), data_file=str(data_file))
    measured.load()
    rooms: dict[str, tuple[int, int]] = {}
    for name in sorted(measured.get_data().measured_files()):
        if Path(name).is_relative_to(SOURCE):
            _, statements, _, missing, _ = measured.analysis2(name)
            inside = Path(name).relative_to(SOURCE).parts
            room = inside[0] if len(inside) > 1 else "(modules)"
            lines, missed = rooms.get(room, (0, 0))
            rooms[room] = (lines + len(statements), missed + len(missing))
    if not rooms:
        return
    rooms["in all"] = (sum(lines for lines, _ in rooms.values()), sum(missed for _, missed in rooms.values()))
    print("==> coverage: lines of each room that the tests ran")
    for room, (lines, missed) in rooms.items():
        print(f"  {room:<14}{lines:>7,} lines {100 * (lines - missed) / max(1, lines):>6.1f} %")


def main(arguments: Sequence[str]) -> int:
    fast = "--fast" in arguments
    own = [one for one in arguments if one != "--fast"]
    data_file = ROOT / "build" / "coverage"
    data_file.parent.mkdir(exist_ok=True)
    data_file.unlink(missing_ok=True)
    os.environ["COVERAGE_FILE"] = str(data_file)
    codes = run_parts(FAST if fast else ALL, own)
    if codes[-1] == INTERRUPTED:
        return INTERRUPTED
    if not fast:
        print_coverage(data_file)
    code = verdict(codes)
    if code == NOTHING_RAN:
        print(f"no test was chosen by {' '.join(own)}: look at its paths, and at -k and -m")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
