"""Compiling: once per machine, said when it takes long, and no reason to fail."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streamtune.similarity import compilation

SCRIPT = """
from streamtune.dataflow import Dataflow
from streamtune.similarity import edit_distance
chain = Dataflow.from_edges(["source", "sink"], [(0, 1)])
print(edit_distance(chain, Dataflow.from_edges(["source", "sink"], [(1, 0)])))
from streamtune.similarity.kernels import many_bounds
print(sum(many_bounds.stats.cache_hits.values()), sum(many_bounds.stats.cache_misses.values()))
"""


def run(cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True, timeout=300
    )


@pytest.mark.slow
def test_the_first_process_compiles_and_says_so_and_the_next_does_not_compile(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert first.stdout.split() == ["1", "0", "1"]
    assert first.stderr.strip() == compilation.NOTICE
    second = run(tmp_path)
    assert second.stdout.split() == ["1", "1", "0"]


def test_importing_the_package_compiles_nothing() -> None:
    script = "import sys, streamtune.similarity; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_short_wait_is_not_worth_a_word(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "NOTICE_AFTER_S", 0.05)
    with compilation.announced():
        pass
    time.sleep(0.1)
    assert capsys.readouterr().err == ""
    with compilation.announced():
        time.sleep(0.2)
    assert capsys.readouterr().err.strip() == compilation.NOTICE


def test_without_a_folder_to_cache_in_it_still_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    real = compilation.numba.njit

    def njit_without_cache(*arguments: object, **options: object) -> object:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(compilation.numba, "njit", njit_without_cache)

    @compilation.compiled("int64(int64)", entry=True)
    def double(number: int) -> int:
        return 2 * number

    assert double(21) == 42
