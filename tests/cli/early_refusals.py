"""Runs command lines, each in a fork of a process that has loaded the bare command line, until they reach their work.

Reads (folder, command lines) as JSON from stdin, and prints for each: its exit code, what it said, how long it took,
and the first heavy library that it asked for. There it ends: asking for one means that the work begins.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NoReturn

from streamtune.cli import _command, run

# The libraries that take long to load, and those that talk to others or start a server.
HEAVY = ("pyspark", "torch", "sklearn", "xgboost", "matplotlib", "httpx", "uvicorn")


class _Barrier(MetaPathFinder, Loader):
    """Ends the process at the first import of a heavy library; to ask whether one is installed is no import."""

    def __init__(self, answer: Path, begun: float) -> None:
        self._answer, self._begun = answer, begun

    def find_spec(self, fullname: str, _path: Sequence[str] | None, _target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in HEAVY else None

    def create_module(self, spec: ModuleSpec) -> NoReturn:
        _end(self._answer, None, time.perf_counter() - self._begun, spec.name)

    def exec_module(self, _module: object) -> None:
        """Never reached."""


def _end(answer: Path, code: int | None, seconds: float, heavy: str | None) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    answer.write_text(json.dumps({"code": code, "seconds": seconds, "heavy": heavy}))
    os._exit(0)


def _in_a_fork(words: list[str], folder: Path) -> dict[str, Any]:
    answer, log = folder / ".answer.json", folder / ".log"
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        with log.open("wb") as sink:
            os.dup2(sink.fileno(), 1)
            os.dup2(sink.fileno(), 2)
        begun = time.perf_counter()
        sys.meta_path.insert(0, _Barrier(answer, begun))
        _end(answer, run(words), time.perf_counter() - begun, None)
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(answer.read_text())
    return {**found, "said": " ".join(log.read_text(errors="replace").split())[-300:]}


def _prepare() -> None:
    """What every fork would do again, and what is not heavy: the command itself, libraries of a third of a second."""
    _command()
    for name in (
        "numba",
        "pandas",
        "pyarrow.parquet",
        "sqlalchemy",
        "streamtune.cli.arguments",
        "streamtune.workloads",
    ):
        import_module(name)


def main() -> None:
    asked = json.load(sys.stdin)
    _prepare()
    assert not [name for name in HEAVY if name in sys.modules]
    answers = [_in_a_fork(words, Path(asked["folder"])) for words in asked["lines"]]
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
