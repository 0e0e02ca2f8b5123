"""Objectives: what measures one configuration once. The one for any program is a command line."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from streamtune.autoconfig import supervisor
from streamtune.autoconfig.journal import make_folder
from streamtune.autoconfig.problem import ObjectiveSpec, Problem, filled_in
from streamtune.autoconfig.space import Configuration, Space
from streamtune.autoconfig.trial import Measurement, OperatorReading
from streamtune.errors import StreamTuneError

_LONGEST_LINE = 1_000_000


class Objective(Protocol):
    """Measures one configuration once; never raises for a configuration that does not work."""

    def measure(self, number: int, repeat: int, knobs: Configuration) -> Measurement: ...

    def restore(self, knobs: Configuration) -> None:
        """Put the job back on a configuration that works, after one that did not."""
        ...


class CommandObjective:
    """Runs the command of a space file; every run has a folder of its own in the store.

    A run that its supervisor finished after StreamTune was killed is picked up, one that still runs is waited for, and
    only one that was lost (the machine went down, or all was killed) is started again: a configuration that takes the
    machine down with it is a failed trial, not an endless loop.
    """

    def __init__(self, spec: ObjectiveSpec, space: Space, folder: Path) -> None:
        self._spec = spec
        self._space = space
        self._folder = folder

    def measure(self, number: int, repeat: int, knobs: Configuration) -> Measurement:
        folder = self._folder / f"{number:05d}-{repeat}"
        make_folder(folder)
        command = filled_in(self._spec.command, self._space.filled(knobs))
        for _ in range(supervisor.ATTEMPTS + 1):  # a supervisor that was killed is replaced; the last one gives up
            if not (folder / "result.json").exists():
                self._start(folder, command, number, repeat, knobs)
            result = supervisor.read_json(folder / "result.json")
            if result is not None:
                return read_result(result, folder, self._spec)
        return Measurement(failed=True, reason=f"the run left no result in {folder}")

    def restore(self, knobs: Configuration) -> None:
        if not self._spec.restore:
            return
        command = filled_in(self._spec.restore, self._space.filled(knobs))
        try:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=self._spec.timeout, start_new_session=True, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return  # the next trial deploys anew anyway; a restore that fails must not end the session

    def _start(self, folder: Path, command: list[str], number: int, repeat: int, knobs: Configuration) -> None:
        timeout = "none" if self._spec.timeout is None else str(self._spec.timeout)
        environment = {
            **os.environ,
            "STREAMTUNE_KNOBS": json.dumps(knobs),
            "STREAMTUNE_TRIAL": str(number),
            "STREAMTUNE_REPEAT": str(repeat),
        }
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(folder), timeout, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            process.wait()
        except BaseException:  # a pause: end the run, it is done again when the session goes on
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise


def read_result(result: dict[str, Any], folder: Path, spec: ObjectiveSpec) -> Measurement:
    """What a finished run says, from its exit code and its last line."""
    seconds = max(0.0, float(result.get("seconds", 0.0)))
    if result.get("problem"):
        return Measurement(failed=True, reason=str(result["problem"]), seconds=seconds)
    if result.get("timed_out"):
        limit = result.get("timeout", spec.timeout)  # of the run: the space file may say another by now
        reason = "no result in time" if limit is None else f"no result within {float(limit):g} s"
        return Measurement(failed=True, reason=reason, seconds=seconds)
    if result.get("code") != 0:
        reason = f"exit code {result.get('code')}{_last_words(folder)}"
        return Measurement(failed=True, reason=reason, seconds=seconds)
    return read_output(_last_line(folder / "stdout"), spec, seconds)


def read_output(line: str, spec: ObjectiveSpec, seconds: float = 0.0) -> Measurement:
    """The last line of a command: a number, or an object with ``value``.

    >>> read_output('{"value": 12.5, "latency": 3}', ObjectiveSpec()).figures
    {'latency': 3.0}
    >>> read_output("done", ObjectiveSpec()).reason
    "the last line must be a number or {'value': …}, but got 'done'"
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        data = _number(line)
    if isinstance(data, dict):
        return _read_object(data, spec, seconds)
    value = _number(data)
    if value is None:
        problem = f"the last line must be a number or {{'value': …}}, but got {line[:80]!r}"
        return Measurement(failed=True, reason=problem, seconds=seconds)
    return required(Measurement(value=value, seconds=seconds), spec)


def _read_object(data: dict[str, Any], spec: ObjectiveSpec, seconds: float) -> Measurement:
    value = _number(data.get("value"))
    if value is None:
        problem = f"'value' in the last line must be a finite number, but got {data.get('value')!r}"
        return Measurement(failed=True, reason=problem, seconds=seconds)
    figures = {
        str(key): number for key, item in data.items() if key != "value" and (number := _number(item)) is not None
    }
    operators: dict[str, OperatorReading] = {}
    if isinstance(data.get("operators"), dict):
        try:
            operators = {str(key): OperatorReading(**item) for key, item in data["operators"].items()}
        except (ValidationError, TypeError):
            operators = {}  # readings are a help, never a reason to lose a measurement
    return required(Measurement(value=value, seconds=seconds, figures=figures, operators=operators), spec)


def check_throughput(problem: Problem, what: str) -> None:
    """:raises StreamTuneError: where less is asked for: engines measure throughput."""
    if not problem.objective.maximise:
        raise StreamTuneError(
            f"the value of {what} is its throughput, but objective.direction is minimize: leave it out, or measure by "
            "a command of your own"
        )


def required(measurement: Measurement, spec: ObjectiveSpec) -> Measurement:
    """The measurement, failed where a condition of ``require`` does not hold over its figures and its value."""
    known = {**measurement.figures, "value": measurement.value}
    for expression in spec.requirements:
        if not expression.holds(known):
            got = ", ".join(f"{name} = {known.get(name)}" for name in sorted(expression.names))
            return measurement.model_copy(update={"failed": True, "reason": f"{expression.text!r} is not met: {got}"})
    return measurement


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LONGEST_LINE))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _last_words(folder: Path) -> str:
    words = _last_line(folder / "stderr") or _last_line(folder / "stdout")
    return f": {words[:200]}" if words else ""
