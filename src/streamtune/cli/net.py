"""The outermost net: what a user can fix ends in one line; a defect in StreamTune says so and keeps details in a file.

Exit codes: 0 done, 1 a defect, a cluster that does not answer or nobody left to read what is printed, 2 something to
fix, 130 stopped with Ctrl-C. Nothing else, and never a traceback on the screen.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import typer

from streamtune import __version__
from streamtune.cli.output import err, plain, print_error
from streamtune.errors import StreamTuneError
from streamtune.outputs import redacted, without_login

DEFECT, MEND, STOPPED = 1, 2, 130
# typer brings its own copy of click, and does not export the base of its exceptions.
_ClickError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
# What a machine refuses, whatever the program: its user can do something about it, we cannot.
_OF_THE_MACHINE = {
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EIO", "EMFILE", "ENFILE", "ENOMEM", "EFBIG")
}


# What is wrong with a path that somebody gave.
_OF_THE_PATH = {
    getattr(errno, name)
    for name in ("ENAMETOOLONG", "ENOENT", "ENOTDIR", "EISDIR", "ELOOP", "EEXIST", "ENOTEMPTY", "ENXIO", "ENODEV")
}


def caught(command: Callable[[], Any], arguments: list[str]) -> int:
    """Run a command line and return its exit code, whatever happens in it."""
    try:
        found = command()
        sys.stdout.flush()
        return found if isinstance(found, int) and not isinstance(found, bool) else 0
    except KeyboardInterrupt:
        return STOPPED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else DEFECT if stop.code else 0
    except Exception as error:
        with suppress(OSError):  # stderr itself may be closed or full
            return _explained(error, arguments)
        return DEFECT


def _explained(error: BaseException, arguments: list[str]) -> int:
    if isinstance(error, StreamTuneError):
        print_error(error)
        return MEND
    if isinstance(error, typer.Abort):
        print_error("stopped")
        return STOPPED
    if isinstance(error, _ClickError):
        shown = io.StringIO()
        error.show(file=shown)
        err.print(shown.getvalue().rstrip("\n"), highlight=False, soft_wrap=True)
        return int(error.exit_code)
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        for stream in (sys.stdout, sys.stderr):
            _silence(stream)
        return DEFECT
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        print_error(f"{place}{error.strerror}. Make room or change permissions, or choose another place")
        return MEND
    if isinstance(error, OSError) and error.errno in _OF_THE_PATH and isinstance(error.filename, str | bytes):
        print_error(f"{os.fsdecode(error.filename)}: {error.strerror}. Check the path")
        return MEND
    if isinstance(error, UnicodeEncodeError) and any(map(_has_lone_half, arguments)):
        odd = next(filter(_has_lone_half, arguments))
        print_error(f"every text must be UTF-8, but got {odd[:60]!r}: only a path may have other bytes")
        return MEND
    if isinstance(error, MemoryError):
        print_error("this machine has too little memory for it: make the task smaller, or use a larger machine")
        return MEND
    kept = keep(error, arguments)
    place = "The details could not be kept" if kept is None else f"The details are in {plain(kept)}"
    print_error(
        f"this is a defect of StreamTune, not of what you did: {type(error).__name__}: {_first_line(error)}\n"
        f"{place}: please report it with them. What was written before is still there."
    )
    return DEFECT


def keep(error: BaseException, arguments: list[str]) -> Path | None:
    """Write a traceback, the command and the versions to a file; None where no folder takes it."""
    shown = [without_login(one) for one in arguments]
    trace = "".join(traceback.format_exception(error))
    for given, one in zip(arguments, shown, strict=True):
        if given != one:
            trace = trace.replace(given.partition("://")[2], one.partition("://")[2])
    text = (
        f"streamtune {__version__}, Python {sys.version.split()[0]}, {sys.platform}\n"
        f"command: streamtune {shown!r}\n\n{trace}"
    )
    name = f"crash-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.txt"
    for folder in (state_folder(), Path(tempfile.gettempdir())):
        with suppress(OSError, RuntimeError):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(redacted(text), encoding="utf-8", errors="backslashreplace")
            return folder / name
    return None


def state_folder() -> Path:
    """Where we keep what belongs to this user on this machine."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "streamtune"


def _has_lone_half(text: str) -> bool:
    """Whether an argument had bytes that are not UTF-8: Python shows them as halves of letters."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200] or "no message"


def _silence(stream: TextIO) -> None:
    """Let the interpreter's last flush go nowhere: the reader of a pipe has left."""
    with suppress(OSError, ValueError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
