"""Learning on a schedule, in a process of its own: Spark and torch never share the service's memory."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

log = logging.getLogger("streamtune.service")

_LOOK_S = 5.0
_LINES = 20


class Schedule:
    """Runs ``streamtune learn`` every few hours."""

    def __init__(
        self,
        command: Callable[[], Sequence[str]],
        environment: Mapping[str, str],
        every_hours: Callable[[], float],
        done: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
        since_last_s: float = 0.0,
    ) -> None:
        self._command = command
        self._environment = dict(environment)
        self._every_hours = every_hours
        self._done = done
        self._now = now
        self._last = now() - since_last_s
        self._over = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._state: dict[str, Any] = {"state": "idle", "step": None, "text": "", "ended": None}

    def view(self) -> dict[str, Any] | None:
        """What the dashboard shows; None where nothing is scheduled and nothing has run."""
        every = self._every_hours()
        return {**self._state, "every_hours": every} if every or self._state["state"] != "idle" else None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="streamtune-learn", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; a round under way is broken off, and goes on the next time."""
        self._over.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        if self._thread is not None:
            self._thread.join(15.0)

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            every = self._every_hours()
            if every and self._now() - self._last >= every * 3600:
                self._last = self._now()
                try:
                    self.learn()
                except OSError as error:
                    log.error("learning could not be started", extra={"error": str(error)})
                    self._state = {"state": "failed", "step": None, "text": str(error), "ended": time.time()}

    def learn(self) -> int:
        """One round, now."""
        self._state = {"state": "learning", "step": None, "text": "", "ended": None}
        told: list[str] = []
        self._process = subprocess.Popen(
            list(self._command()),
            env={**os.environ, **self._environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            text = line.strip()
            if text:
                told = [*told, text][-_LINES:]
                step, sign, rest = text.partition(": ")
                self._state |= {"step": step if sign else None, "text": (rest if sign else text)[:300]}
        code = self._process.wait()
        last = told[-1] if told else ""
        level = logging.INFO if code == 0 else logging.ERROR
        log.log(level, "learning ended", extra={"code": code, "said": last})
        self._state = {
            "state": "idle" if code == 0 else "failed",
            "step": None,
            "text": last[:300],
            "ended": time.time(),
        }
        self._done()
        return code
