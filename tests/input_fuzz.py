"""Files and answers from outside, damaged in every way: read, or refused with a sentence that names the place.

A target is a sound sample and the function of the product that reads it. A damaged copy is drawn by a random generator:
bytes are flipped, cut, doubled and swapped; or, where the sample is JSON or YAML, values and keys of its tree are
replaced by hostile ones. ``problem`` says what is wrong with the outcome, if anything.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from streamtune.errors import StreamTuneError

LONGEST_S = 10
CORPUS = Path(__file__).with_name("fuzz_corpus")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**40, -(10**40), 0.5, -0.0, 1e308, 1e-308, float("inf"), float("nan"),
    "", " ", "0", "nan", "a\x00b", "\x1b[31m", "[/]", "x" * 3000, "ñ\u202e", "../../etc/passwd", "\U0001f980", "1e400",
    "2026-99-99T00:00:00", "10s", "-5s", "1e400s", "source", [], {}, [[]], [None], {"": None}, {"id": "id"}, [{}] * 3,
    ["a"] * 2000,
)  # fmt: skip
_PIECES = (
    b"\x00", b"\xff\xfe", b"\n", b"{", b"]", b'"', b"&a *a", b"\xed\xb3\xbf", b": ", b"9" * 400, b"9" * 5000, b"1e999",
    b"[" * 5000, b'{"a":' * 5000, b"\\ud83d", b"NaN",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """``content`` is the sound file; ``read`` takes the path of a damaged one, which ends in ``name``."""

    name: str
    content: bytes
    read: Callable[[Path], object]
    is_document: bool = True
    place: str | None = ""  # what a refusal must name: its own file's name where none is given; None: nothing


def damaged(target: Target, draw: random.Random) -> bytes:
    """One damaged copy."""
    if target.is_document and draw.random() < 0.7:
        lines = target.name.endswith(".jsonl")
        return _changed_lines(target.content, draw) if lines else _changed_document(target, draw)
    return mutated(target.content, draw)


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Bytes flipped, cut, doubled, swapped and put in, once or several times."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 5, 20))):
        if not data:
            break
        at = draw.randrange(len(data))
        until = min(len(data), at + draw.choice((1, 1, 4, 64, 1024)))
        kind = draw.randrange(6)
        if kind == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at:until]
        elif kind == 2:
            data[at:at] = data[at:until]
        elif kind == 3:
            data[at:until] = bytes(draw.randrange(256) for _ in range(until - at))
        elif kind == 4:
            del data[at:]
        else:
            data[at:at] = draw.choice(_PIECES)
    return bytes(data)


def _changed_document(target: Target, draw: random.Random) -> bytes:
    if target.name.endswith(".json"):
        return json.dumps(changed(_tree(target), draw)).encode()
    tree = changed(_tree(target), draw)
    return yaml.dump(tree, Dumper=yaml.CSafeDumper, allow_unicode=True).encode("utf-8", "replace")


@cache
def _tree(target: Target) -> Any:
    """Of the sound document. Nobody changes it: what is damaged is a copy."""
    return json.loads(target.content) if target.name.endswith(".json") else yaml.safe_load(target.content)


@cache
def _lines(content: bytes) -> tuple[Any, ...]:
    return tuple(json.loads(line) for line in content.splitlines())


def _changed_lines(content: bytes, draw: random.Random) -> bytes:
    lines = list(_lines(content))
    at = draw.randrange(len(lines))
    lines[at] = changed(lines[at], draw)
    if draw.random() < 0.2:
        draw.shuffle(lines)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def changed(document: Any, draw: random.Random) -> Any:
    """A tree with one to three of its values or keys replaced, dropped or repeated."""
    document = copy.deepcopy(document)
    for _ in range(draw.choice((1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            return draw.choice(VALUES)
        parent, key = draw.choice(places)
        kind = draw.random()
        if kind < 0.6:
            parent[key] = copy.deepcopy(draw.choice(VALUES))
        elif kind < 0.75:
            del parent[key]
        elif kind < 0.9 and isinstance(parent, dict):
            parent[str(draw.choice(VALUES))[:50]] = parent.pop(key)
        elif isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        else:
            other_parent, other = draw.choice(places)
            if _has(other_parent, other):
                parent[key] = copy.deepcopy(other_parent[other])
    return document


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        items = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
        for key, value in items:
            yield one, key
            waiting.append(value)


def _has(parent: Any, key: Any) -> bool:
    return key in parent if isinstance(parent, dict) else key < len(parent)


class HangError(BaseException):
    """Not an Exception: nothing in the product may swallow it."""


def problem(target: Target, content: bytes, folder: Path) -> str | None:
    """What is wrong with how a damaged copy was read; None where it was read or refused as it should be."""
    path = folder / target.name
    path.write_bytes(content)
    try:
        return _outcome(target, path)
    except HangError:
        pass
    # The time that other work takes, or a stopped machine, is in the clock as well: a hang is what hangs again.
    try:
        return _outcome(target, path)
    except HangError as error:
        return str(error)


def _outcome(target: Target, path: Path) -> str | None:
    def late(_number: int, _frame: FrameType | None) -> None:
        raise HangError(f"took more than {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST_S)
    try:
        target.read(path)
    except StreamTuneError as error:
        place = path.name if target.place == "" else target.place
        named = place is None or place in str(error)
        return None if named else f"the refusal does not name {place}: {error}"[:500]
    except Exception as error:  # the rest is what we are looking for
        return f"{type(error).__name__}: {error}"[:500]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


def corpus() -> list[tuple[str, Path]]:
    """(target, file) of everything that was ever read badly."""
    return [(file.parent.name, file) for file in sorted(CORPUS.glob("*/*")) if file.is_file()]


def keep(target: Target, content: bytes) -> Path:
    """Put a finding into the corpus."""
    import hashlib

    file = CORPUS / target.name / hashlib.sha256(content).hexdigest()[:12]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def with_file(sound: Path, name: str, read: Callable[[Path], object]) -> Callable[[Path], object]:
    """To read a folder of which one file is damaged: the others are those of a sound one."""

    def read_folder(damaged_file: Path) -> object:
        folder = damaged_file.parent / f"{sound.name}-folder"
        if not folder.exists():
            shutil.copytree(sound, folder)
        shutil.copyfile(damaged_file, folder / name)
        try:
            return read(folder)
        finally:
            shutil.copyfile(sound / name, folder / name)

    return read_folder
