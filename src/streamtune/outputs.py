"""Files that commands write for people: nothing but an ordinary file is ever replaced, and never by half of one."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from streamtune.errors import StreamTuneError

# Unfinished files bear the number of the process that writes them, and of its machine, which may share the folder.
_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
# What matplotlib writes without further packages.
PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg")


# A user, password or token inside an address, up to the last @ before its path: a password may hold one.
_LOGIN = re.compile(r"(?<=://)[^/\s\"']*@")
# The same in a text that is an address and nothing else, whatever the password holds.
_LOGIN_OF_ONE = re.compile(r"(?<=://).*@", re.S)


def redacted(text: str) -> str:
    """Text without the passwords that stand in its addresses.

    >>> redacted("cannot reach https://me:secret@flink.example/prod")
    'cannot reach https://***@flink.example/prod'
    """
    return _LOGIN.sub("***@", text)


def without_login(address: str) -> str:
    """One address without all that may be a password, even if it was not written as it should be.

    >>> without_login("--url=https://me:se/cr@et@flink.example/prod")
    '--url=https://***@flink.example/prod'
    """
    return _LOGIN_OF_ONE.sub("***@", address)


class OutputError(StreamTuneError):
    """A file that cannot, or must not, be written."""


def check_output(path: Path, option: str = "") -> None:
    """Refuse, before any work, what cannot be written: all but an absent or an ordinary file in a folder we may use.

    Missing folders above it are made. Links count as what they lead to.

    >>> check_output(Path("/dev/null"), "--report")
    Traceback (most recent call last):
    streamtune.outputs.OutputError: --report /dev/null cannot be written: it is a device. Choose another file
    """
    named = f"{option} {path}".strip()
    try:
        kind = _kind(path)
        if kind is not None:
            raise OutputError(f"{named} cannot be written: it is {kind}. Choose another file")
        real = Path(os.path.realpath(path))
        if not real.exists():
            real.parent.mkdir(parents=True, exist_ok=True)
        place = real if real.exists() else real.parent
        if not os.access(place, os.W_OK):
            raise OutputError(f"{named} cannot be written: {place} is read-only. Choose another file")
        if len(os.fsencode(real.name)) > os.pathconf(real.parent, "PC_NAME_MAX") - 24:  # room for the unfinished file
            raise OutputError(f"{named} cannot be written: the name is too long. Choose another file")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise OutputError(f"{named} cannot be written: {why}. Choose another file") from error


def check_folder(path: Path, option: str = "") -> None:
    """Refuse, before any work, a folder that can neither be used nor be made.

    >>> check_folder(Path("/dev/null/models"), "--out")
    Traceback (most recent call last):
    streamtune.outputs.OutputError: --out /dev/null/models cannot be used: /dev/null is not a folder. Choose another
    """
    named = f"{option} {path}".strip()
    try:
        there = next(place for place in (path, *path.absolute().parents) if place.exists())
        if not there.is_dir():
            raise OutputError(f"{named} cannot be used: {there} is not a folder. Choose another")
        if not os.access(there, os.W_OK):
            raise OutputError(f"{named} cannot be used: {there} is read-only. Choose another")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise OutputError(f"{named} cannot be used: {why}. Choose another") from error


def check_picture(path: Path, option: str = "--plot") -> None:
    """The same for a picture, whose suffix says its format."""
    if path.suffix.lower() not in PICTURES:
        got = f"'{path.suffix}'" if path.suffix else "no suffix"
        raise OutputError(f"{option} {path}: the suffix says the format, {', '.join(PICTURES)}, but got {got}")
    check_output(path, option)


def check_outputs(files: Iterable[tuple[str, Path | None]]) -> None:
    """``check_output`` of those that are given; two outputs cannot share a file."""
    taken: dict[str, str] = {}
    for option, path in files:
        if path is None:
            continue
        check_output(path, option)
        other = taken.setdefault(os.path.realpath(path), option)
        if other != option:
            raise OutputError(f"{option} and {other} both name {path}: choose two files")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    kind = _kind(path)
    if kind is not None:
        raise OutputError(f"{path} cannot be written: it is {kind}. Choose another file")
    real = Path(os.path.realpath(path))
    sweep_unfinished(real.parent, glob.escape(real.name))
    unfinished = unfinished_file(real)
    try:
        unfinished.write_bytes(content.encode("utf-8", "replace") if isinstance(content, str) else content)
        os.replace(unfinished, real)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise OutputError(
            f"{path} cannot be written: {error.strerror}. Choose a file on a disk with room that can be written"
        ) from error


def unfinished_file(path: Path) -> Path:
    """Where a file is written until it is whole; nobody reads it there."""
    return path.with_name(f".{path.name}.{_HOST}-{os.getpid()}.tmp")


def sweep_unfinished(folder: Path, names: str) -> None:
    """Remove the unfinished files of these names (with * and ?) that killed processes of this machine have left."""
    for path in folder.glob(f".{names}.{_HOST}-*.tmp"):
        number = path.name.removesuffix(".tmp").rpartition("-")[2]
        if number.isdecimal() and not is_alive(int(number)):
            with suppress(OSError):  # somebody else's, or on a disk that cannot be written
                path.unlink()


def is_alive(process: int) -> bool:
    """Whether a process of this number is there, ours or another's."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # not ours, but there
        return True
    return True


def _kind(path: Path) -> str | None:
    """What stands in the way at a path; None where nothing or an ordinary file is."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"
