"""The dataflow that bytewax runs on every host: tasks as routing, so that the placement decides what is remote.

    python -m bytewax.run streamtune.labs.hosts.timely_flow:flow -i I -a "10.77.0.1:2101;…" -s 3600

A tuple carries the task it is for. Every stage is a keyed step; its key is one that bytewax routes to the host of the
task, so a tuple crosses the network exactly if its two tasks are on different hosts. The file named by
STREAMTUNE_WORK says what to do; what each task handled is left in the one named by STREAMTUNE_OUT.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from streamtune.labs.hosts.keys import worker_keys
from streamtune.labs.hosts.work import TaskWork

Addressed = tuple[str, tuple[int, bytes]]

WORK_VARIABLE, OUT_VARIABLE, HOSTS_VARIABLE = "STREAMTUNE_WORK", "STREAMTUNE_OUT", "STREAMTUNE_HOSTS"
# Rare, large batches: every message makes its sender and its receiver tell all other workers of their progress.
_EVERY, _WAIT = timedelta(seconds=1), timedelta(milliseconds=10)


class Router:
    """Where a task's tuples go: the shares of its routes are met exactly, tuple by tuple, without chance."""

    def __init__(self, work: TaskWork, keys: list[str]) -> None:
        self.work, self.keys = work, keys
        self.credit = [[0.5] * len(route) for route in work.routes]
        self.handled: dict[int, int] = {}
        # The clock is the machine's: times of all hosts can be compared.
        self.first_s, self.last_s = 0.0, 0.0
        self.payloads = {size: bytes(size) for route in work.routes for _, _, size in route}

    def account(self) -> dict[str, Any]:
        """What this host did, as it is left behind at the end."""
        return {"handled": self.handled, "first_s": self.first_s, "last_s": self.last_s}

    def handle(self, task: int) -> list[Addressed]:
        """One tuple for a task: what it sends on, each with the key of the receiver's host."""
        self.handled[task] = self.handled.get(task, 0) + 1
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s
        sent: list[Addressed] = []
        credit = self.credit[task]
        for place, (target, ratio, size) in enumerate(self.work.routes[task]):
            credit[place] += ratio
            while credit[place] >= 1:
                credit[place] -= 1
                sent.append((self.keys[self.work.hosts[target]], (target, self.payloads[size])))
        return sent


class StartLine:
    """Hosts start up at different times: sources begin when every host has left a file in the common folder."""

    def __init__(self, folder: Path, hosts: int) -> None:
        self._folder, self._hosts = folder, hosts

    def arrive(self) -> None:
        (self._folder / f"ready-{os.getpid()}").touch()

    def all_there(self) -> bool:
        return sum(1 for _ in self._folder.glob("ready-*")) >= self._hosts


class _Partition(StatelessSourcePartition[Addressed]):
    """The source tasks of one host, paced by the clock from the common start on."""

    def __init__(self, router: Router, tasks: list[int], line: StartLine) -> None:
        self._line, self._started = line, False
        line.arrive()
        self._router, self._left = router, {task: list(router.work.sources[task]) for task in tasks}
        self._start, self._sent = time.monotonic(), dict.fromkeys(tasks, 0)
        self._next = datetime.now(UTC)

    def next_batch(self) -> Iterable[Addressed]:
        if all(self._sent[task] >= count for task, (_, count) in self._left.items()):
            raise StopIteration
        if not self._started:
            self._next = datetime.now(UTC) + _WAIT
            self._started, self._start = self._line.all_there(), time.monotonic()
            return []
        passed = time.monotonic() - self._start
        found: list[Addressed] = []
        for task, (rate, count) in self._left.items():
            due = min(int(count), int(passed * rate))
            for _ in range(due - self._sent[task]):
                found.extend(self._router.handle(task))
            self._sent[task] = max(due, self._sent[task])
        self._next = datetime.now(UTC) + _EVERY
        return found

    def next_awake(self) -> datetime | None:
        return self._next


class _Source(DynamicSource[Addressed]):
    def __init__(self, router: Router, line: StartLine) -> None:
        self._router, self._line = router, line

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Partition:  # noqa: ARG002 - as bytewax calls it
        mine = [task for task in self._router.work.sources if self._router.work.hosts[task] == worker_index]
        return _Partition(self._router, mine, self._line)


class _Stage(StatefulBatchLogic[tuple[int, bytes], Addressed, None]):
    """Tasks of one depth handle their tuples; those of deeper tasks wait for their stage where they are."""

    def __init__(self, router: Router, depth: int) -> None:
        self._router, self._depth = router, depth

    def on_batch(self, values: list[tuple[int, bytes]]) -> tuple[Iterable[Addressed], bool]:
        found: list[Addressed] = []
        work, keys = self._router.work, self._router.keys
        for task, payload in values:
            if work.depth[task] == self._depth:
                found.extend(self._router.handle(task))
            else:
                found.append((keys[work.hosts[task]], (task, payload)))
        return found, StatefulBatchLogic.RETAIN

    def snapshot(self) -> None:
        return None


class _NothingPartition(StatelessSinkPartition[Any]):
    def write_batch(self, items: list[Any]) -> None:
        """Tuples have been counted where they were handled."""


class _Nothing(DynamicSink[Any]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> _NothingPartition:  # noqa: ARG002 - as bytewax calls it
        return _NothingPartition()


def build_flow(router: Router, line: StartLine) -> Dataflow:
    """One keyed step per depth; a keyed step puts its own key in front of what it gives, which is taken off again."""
    found = Dataflow("hosts")
    stream: Stream[Any] = op.input("sources", found, _Source(router, line))
    for depth in range(1, router.work.stages):
        handled = op.stateful_batch(f"stage{depth}", stream, _stage(router, depth))
        stream = op.flat_map_batch(f"sent{depth}", handled, lambda batch: [value for _, value in batch])
    op.output("out", stream, _Nothing())
    return found


def _stage(router: Router, depth: int) -> Callable[[None], _Stage]:
    return lambda _nothing_to_resume: _Stage(router, depth)


def _from_environment() -> Dataflow:
    work = TaskWork.read(Path(os.environ[WORK_VARIABLE]))
    hosts, out = int(os.environ[HOSTS_VARIABLE]), Path(os.environ[OUT_VARIABLE])
    router = Router(work, worker_keys(hosts))
    atexit.register(lambda: out.write_text(json.dumps(router.account()), encoding="utf-8"))
    return build_flow(router, StartLine(out.parent, hosts))


if WORK_VARIABLE in os.environ:
    flow = _from_environment()
