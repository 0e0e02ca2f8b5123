"""One root for everything StreamTune raises on purpose; the CLI turns it into one line and exit code 2."""

from __future__ import annotations


class StreamTuneError(Exception):
    """Something the user can fix. The message says what is wrong, what was given, and what to do next.

    >>> from streamtune import Plan
    >>> try:
    ...     Plan({"hot": 0})
    ... except StreamTuneError as error:
    ...     print(error)
    operator 'hot' field 'parallelism': must be a whole number of at least 1, but got 0
    """


class DataflowError(StreamTuneError):
    """An invalid dataflow, job or plan. ``operator`` and ``field`` name the place where it is known."""

    def __init__(self, problem: str, *, operator: str | None = None, field: str | None = None) -> None:
        self.problem = problem
        self.operator = operator
        self.field = field
        place = " ".join(
            part for part in (f"operator '{operator}'" if operator else "", f"field '{field}'" if field else "") if part
        )
        super().__init__(f"{place}: {problem}" if place else problem)


class SpecError(StreamTuneError):
    """A job spec that cannot be read. Always names the file; the operator and the field where they are known."""

    def __init__(self, file: str, problem: str, *, operator: str | None = None, field: str | None = None) -> None:
        self.file = file
        self.operator = operator
        self.field = field
        place = [file]
        if operator:
            place.append(f"operator '{operator}'")
        if field:
            place.append(f"field '{field}'")
        super().__init__(f"{': '.join(place)}: {problem}")


class EngineError(StreamTuneError):
    """An engine refused or failed: unknown deployment, a plan it cannot run, a lost connection."""


class TuningError(StreamTuneError):
    """A tuning process that cannot continue."""


class UnhealthyJobError(TuningError):
    """A job that restarts again and again, or whose tasks do not all run."""
