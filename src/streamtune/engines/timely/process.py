"""A handle on the child process that runs a job: start it, ask it, notice a crash, end it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from typing import IO, Any

from streamtune.engines.timely.order import Order
from streamtune.errors import EngineError
from streamtune.extras import require

_ANSWER_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 3.0
_TAIL_CHARACTERS = 400


class WorkerDiedError(EngineError):
    """The process that runs a job is gone; the message says how, with the last line it wrote."""


class WorkerProcess:
    """One child. It ends with ``stop``, with this object, or with the parent, whichever comes first."""

    def __init__(self, order: Order) -> None:
        require("bytewax", extra="timely", what="the Timely engine")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `_end`
        self._child = subprocess.Popen(
            [sys.executable, "-m", "streamtune.engines.timely.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Its own session: Ctrl-C in a terminal goes to us alone, and we decide what becomes of the child.
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self._end = weakref.finalize(self, _end, self._child, self._errors)
        self._send(order.to_json())

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        """One request, one answer."""
        self._send(json.dumps({"do": do, **details}))
        answer: dict[str, Any] = json.loads(self._read_line())
        if "error" in answer:
            raise EngineError(f"the Timely job refused '{do}': {answer['error']}")
        return answer

    def wait_until_up(self, timeout_s: float) -> None:
        """Until the first records have reached every instance."""
        deadline_s = time.monotonic() + timeout_s
        while not self.ask("snapshot", epochs_from=0)["is_up"]:
            if time.monotonic() > deadline_s:
                raise EngineError(
                    f"the Timely job was not up within {timeout_s:g} s: raise start_timeout_s or use fewer workers"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        self._end()

    def _send(self, line: str) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(f"{line}\n".encode())
            self._child.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise self._death() from error

    def _read_line(self) -> bytes:
        assert self._child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            if not selector.select(_ANSWER_TIMEOUT_S):
                raise EngineError(f"the Timely job gave no answer for {_ANSWER_TIMEOUT_S:g} s: stop it")
        line = self._child.stdout.readline()
        if not line:
            raise self._death()
        return line

    def _death(self) -> WorkerDiedError:
        try:
            code = self._child.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return WorkerDiedError("the Timely job closed its pipe without ending: stop it")
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        last = "" if self._errors.closed else _tail(self._errors)
        return WorkerDiedError(f"the Timely job's process {self.pid} {how}{': ' if last else ''}{last}")


def _tail(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1][-_TAIL_CHARACTERS:] if lines else ""


def _end(child: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    """Close the child's input, which ends it; kill it if it does not end."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    try:
        child.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    errors.close()
