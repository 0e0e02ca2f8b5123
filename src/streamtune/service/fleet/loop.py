"""``Loop``: runs any number of ``Steps`` side by side in one thread, by a steady clock, and lets them be woken."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable

from streamtune.clock import Steps
from streamtune.service.clocks import ServiceClock

log = logging.getLogger("streamtune.service")


class Task:
    """One run of steps within a loop."""

    def __init__(self, name: str, steps: Steps[None], *, finishes: Callable[[], bool]) -> None:
        self.name = name
        self.steps = steps
        self.must_finish = finishes
        self.turn = 0
        self.done = False


class Loop:
    """A scheduler for one cluster's jobs.

    A step that wants to wait yields its seconds; whoever is due next goes on. ``wake`` makes a task due now. At the end
    tasks in the middle of something are finished, the others are closed.
    """

    def __init__(self, clock: ServiceClock, name: str = "loop") -> None:
        self._clock = clock
        self.name = name
        self._turns = itertools.count()
        self._waiting: list[tuple[float, int, Task]] = []
        self._changed = threading.Condition()
        self._stopping = False
        self.lag_s = 0.0
        self.busy_s = 0.0

    def add(self, name: str, steps: Steps[None], finishes: Callable[[], bool] = lambda: False) -> Task:
        """Run these steps too; ``finishes`` says whether they are in the middle of something that must be ended."""
        task = Task(name, steps, finishes=finishes)
        self._put(task, 0.0)
        return task

    def wake(self, task: Task) -> None:
        """Make a task due now, whatever it waits for."""
        if not task.done:
            self._put(task, 0.0)

    def _put(self, task: Task, wait_s: float) -> None:
        with self._changed:
            task.turn = next(self._turns)  # an entry with an older turn is stale
            heapq.heappush(self._waiting, (self._clock.steady() + max(0.0, wait_s), task.turn, task))
            self._changed.notify()

    @property
    def size(self) -> int:
        with self._changed:
            return sum(turn == task.turn and not task.done for _, turn, task in self._waiting)

    def run(self) -> None:
        """Go on until ``stop``, then end what is in the middle of something."""
        while (found := self._next()) is not None:
            self._go_on(*found)
        self._close()

    def run_until(self, steady_s: float) -> None:
        """Do all that is due up to a moment of a clock that is moved by hand."""
        while self._waiting and self._waiting[0][0] <= steady_s:
            due, turn, task = heapq.heappop(self._waiting)
            if turn == task.turn and not task.done:
                self._clock.sleep(max(0.0, due - self._clock.steady()))
                self._go_on(due, task)
        self._clock.sleep(max(0.0, steady_s - self._clock.steady()))

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def _next(self) -> tuple[float, Task] | None:
        """The task that is due next, as soon as it is; None at the end."""
        with self._changed:
            while True:
                self._drop_stale()
                if self._stopping and not any(task.must_finish() for _, _, task in self._waiting):
                    return None
                wait_s = self._waiting[0][0] - self._clock.steady() if self._waiting else 1.0
                if self._waiting and wait_s <= 0:
                    due, _, task = heapq.heappop(self._waiting)
                    if self._stopping and not task.must_finish():
                        task.done = True
                        task.steps.close()
                        continue
                    return due, task
                self._changed.wait(min(wait_s, 60.0) / self._clock.speed)

    def _drop_stale(self) -> None:
        while self._waiting and (self._waiting[0][1] != self._waiting[0][2].turn or self._waiting[0][2].done):
            heapq.heappop(self._waiting)

    def _go_on(self, due: float, task: Task) -> None:
        began = self._clock.steady()
        self.lag_s = max(0.0, began - due)
        try:
            wait_s = next(task.steps, None)
        except Exception:
            log.exception("a task ended in a defect", extra={"task": task.name})
            wait_s = None
        self.busy_s += self._clock.steady() - began
        if wait_s is None:
            task.done = True
        elif not task.done:
            self._put(task, wait_s)

    def _close(self) -> None:
        with self._changed:
            for _, _, task in self._waiting:
                task.done = True
                task.steps.close()
            self._waiting.clear()
