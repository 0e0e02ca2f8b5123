"""What a step of Sundog's benchmark costs: seconds, processor seconds of the whole family of processes, peak memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil


class Cost(NamedTuple):
    """What a step took."""

    seconds: float
    cpu_s: float
    peak_gib: float
    others_cpu_s: float  # of processes that are not ours: a clock that they slowed down should not be believed

    def plus(self, *others: Cost) -> Cost:
        """One after the other."""
        every = (self, *others)
        return Cost(
            sum(cost.seconds for cost in every),
            sum(cost.cpu_s for cost in every),
            max(cost.peak_gib for cost in every),
            sum(cost.others_cpu_s for cost in every),
        )

    def record(self) -> dict[str, float]:
        return {name: round(value, 2) for name, value in self._asdict().items()}

    def rates(self, lines: int) -> dict[str, float]:
        rates = {"lines_per_s": round(lines / self.seconds), "lines_per_cpu_s": round(lines / max(self.cpu_s, 1e-9))}
        return {**self.record(), **rates}


def family() -> list[psutil.Process]:
    """This process, the JVM and Spark's Python workers."""
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


_USED: dict[tuple[int, float], float] = {}  # processor time of every process of the family, also of those that ended


def cpu_seconds() -> float:
    """Processor time of the family so far.

    Spark ends idle workers and nobody collects their times, so the last that was seen of each counts
    (``PeakMemory`` looks twice a second).
    """
    for process in family():
        try:
            times = process.cpu_times()
            _USED[process.pid, process.create_time()] = times.user + times.system
        except psutil.Error:
            continue
    return sum(_USED.values())


def busy_seconds() -> float:
    """Processor time of the whole machine, stolen by its neighbours included."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


class PeakMemory(threading.Thread):
    """The largest sum of proportional memory of the family."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.5):
            cpu_seconds()
            total = 0
            for process in family():
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.peak_bytes = max(self.peak_bytes, total)

    def stop(self) -> float:
        self._done.set()
        self.join()
        return self.peak_bytes / 2**30


def timed(step: Callable[[], object]) -> Cost:
    """Do it, and say what it cost."""
    memory = PeakMemory()
    memory.start()
    start, cpu, busy = time.perf_counter(), cpu_seconds(), busy_seconds()
    step()
    seconds, used = time.perf_counter() - start, cpu_seconds() - cpu
    others = max(0.0, busy_seconds() - busy - used)
    return Cost(seconds, used, memory.stop(), others)


def median_of(times: int, step: Callable[[], object]) -> Cost:
    """The attempt with the median processor time: one that was disturbed does not count, nor a lucky one."""
    costs = sorted((timed(step) for _ in range(times)), key=lambda cost: cost.cpu_s)
    return costs[len(costs) // 2]
