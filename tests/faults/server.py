"""Runs command lines, each in a fork of a process that has everything loaded, and kills them at their n-th step.

A step is what another process, or the same one after a kill, could see the difference of: a file opened to be written,
renamed or removed; a transaction of a store or of a state file begun, all but committed, and committed; a line of an
audit trail; a request that changes a job, sent and answered. Reads requests as JSON lines from stdin, answers each with
one line: how the process ended, how many steps it made, and the last one's name.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("PUT", "PATCH", "POST", "DELETE")
NAME_BYTES = 100


class Steps:
    """Counts the steps of this process where its parent can read them, and ends it at one of them."""

    def __init__(self, folder: Path, kill_at: int | None) -> None:
        self._folder, self._kill_at = str(folder), kill_at
        self.slow_s = 0.0  # how long each takes on a disk that is slow
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def step(self, name: str) -> None:
        count = self.count + 1
        text = name.encode()[:NAME_BYTES]
        self._page[: 12 + len(text)] = struct.pack("<qi", count, len(text)) + text
        time.sleep(self.slow_s)
        if count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    @property
    def count(self) -> int:
        return int(struct.unpack("<q", self._page[:8])[0])

    @property
    def last(self) -> str:
        size = struct.unpack("<i", self._page[8:12])[0]
        return bytes(self._page[12 : 12 + size]).decode(errors="replace")

    def audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python tells of every file that it opens, renames or removes."""
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str) and isinstance(flags, int) and flags & WRITES and path.startswith(self._folder):
                self.step("open a file")
        elif event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir") and str(arguments[0]).startswith(self._folder):
            self.step(event)

    def around(self, owner: Any, method: str, name: str) -> None:
        """Steps before and after a call."""
        inner = getattr(owner, method)

        @wraps(inner)
        def stepped(*arguments: Any, **named: Any) -> Any:
            self.step(f"before {name}")
            found = inner(*arguments, **named)
            self.step(f"after {name}")
            return found

        setattr(owner, method, stepped)

    def within(self, owner: Any, method: str, name: str) -> None:
        """Steps before a transaction, at its end before it is committed, and after it."""
        inner = getattr(owner, method)

        @contextmanager
        def stepped(*arguments: Any) -> Iterator[Any]:
            self.step(f"before {name}")
            with inner(*arguments) as connection:
                yield connection
                self.step(f"before the commit of {name}")
            self.step(f"after {name}")

        setattr(owner, method, stepped)


def install(steps: Steps, parts: list[str], slow_s: float) -> None:
    from streamtune.control.audit import AuditTrail

    steps.slow_s = slow_s
    steps.around(AuditTrail, "_put", "a line of the audit trail")
    if "memory" in parts:
        from streamtune.tuners.streamtune.memory import Memory

        steps.within(Memory, "_transaction", "a transaction of the state file")
    if "store" in parts:
        from streamtune.service.store.database import Database

        steps.within(Database, "write", "a transaction of the store")
    if "http" in parts:
        import httpx

        inner = httpx.Client.send

        def send(client: httpx.Client, request: httpx.Request, **named: Any) -> httpx.Response:
            changes = request.method in CHANGES
            if changes:
                steps.step(f"before {request.method}")
            answer = inner(client, request, **named)
            if changes:
                steps.step(f"after {request.method}")
            return answer

        httpx.Client.send = send  # type: ignore[method-assign]
    sys.addaudithook(steps.audited)


def faster(speed: float) -> None:
    """Let the clocks of this process run so many times as fast."""
    from datetime import UTC, datetime, timedelta

    from streamtune.clock import SystemClock

    wall, begun = datetime.now(UTC), time.monotonic()
    SystemClock.now = lambda _self: wall + timedelta(seconds=speed * (time.monotonic() - begun))  # type: ignore
    SystemClock.steady = lambda _self: speed * time.monotonic()  # type: ignore
    SystemClock.sleep = lambda _self, seconds: time.sleep(seconds / speed)  # type: ignore


def in_a_fork(request: dict[str, Any]) -> dict[str, Any]:
    folder = Path(request["folder"])
    steps = Steps(folder, request.get("kill_at"))
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.update(request.get("env", {}))
        with (folder.parent / f"{folder.name}.log").open("ab") as sink:
            os.dup2(sink.fileno(), 1)
            os.dup2(sink.fileno(), 2)
        if request.get("speed"):
            faster(request["speed"])
        if request.get("largest_file"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"],) * 2)
        prepare: Callable[[], None] | None = PREPARED.get(request.get("prepare", ""))
        if prepare is not None:
            prepare()
        install(steps, request["parts"], request.get("slow_s", 0.0))
        from streamtune.cli import run

        code = 3
        try:
            code = run(request["words"])
        finally:
            os._exit(code)
    deadline = None if request.get("kill_after_s") is None else time.monotonic() + request["kill_after_s"]
    limit = time.monotonic() + request.get("limit_s", 60.0)
    until = Path(request["until"]) if request.get("until") else None
    hung = False
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        now = time.monotonic()
        if (deadline is not None and now >= deadline) or now >= limit:
            os.kill(child, signal.SIGKILL)
            hung = now >= limit
            deadline, limit = None, now + 1e9
        if until is not None and until.exists():  # the process is to end in order
            os.kill(child, signal.SIGTERM)
            until = None
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(status)
    return {"killed": code == -signal.SIGKILL, "hung": hung, "code": code, "steps": steps.count, "last": steps.last}


def without_spark() -> None:
    """Let the steps of ``learn`` on Spark do no more than leave what they leave: files, and a bundle in its place."""
    from contextlib import nullcontext

    from streamtune.sealed import write_sealed
    from streamtune.service.learn import pipeline
    from streamtune.service.learn.pipeline import Learner
    from streamtune.service.learn.replay import Scores

    def on_spark(self: Learner, _history: object, one: Any, step: str) -> dict[str, Any]:
        if step == "ingest":
            self._rounds.note_ingested(one.files)
        if step == "pretrain":
            files = {name: name.encode() for name in one.files}
            write_sealed(self._bundle(one), files, {"format": "stub", "version": 1}, "model bundle")
        return {"runs": len(one.files)}

    Learner._on_spark = on_spark  # type: ignore[method-assign]
    Learner._history = lambda _self: nullcontext()  # type: ignore[method-assign,assignment]
    pipeline.replay = lambda _model, runs, **_: Scores(0.1, 0.0, 1.0, max(1, len(list(runs))))


PREPARED = {"without spark": without_spark}


def warm_up() -> None:
    """Let this process load, once and for all forks, what a tune loads while it runs."""
    from streamtune.cli import run

    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w") as sink, redirect_stdout(sink):
        code = run(
            ["tune", "nexmark-q1", "--changes", "1", "--json", "--state", f"{folder}/s", "--report", f"{folder}/r.html"]
        )
    assert code == 0


def main() -> None:
    import streamtune.cli
    import streamtune.engines.flink.collecting
    import streamtune.service.learn.pipeline
    import streamtune.service.service  # noqa: F401

    warm = False
    for line in sys.stdin:
        request = json.loads(line)
        if request["words"][0] == "tune" and not warm:
            warm_up()
            warm = True
        print(json.dumps(in_a_fork(request)), flush=True)


if __name__ == "__main__":
    main()
