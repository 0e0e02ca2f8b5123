"""A few thousand damaged files and answers; ``make bench-input-fuzz`` reads a million."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from input_fuzz import Target, corpus, damaged, problem
from input_targets import targets

CASES = 60


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory, small_model: Path) -> dict[str, Target]:
    return {one.name: one for one in targets(tmp_path_factory.mktemp("sound"), small_model)}


def test_the_sound_ones_are_read(every: dict[str, Target], tmp_path: Path) -> None:
    for target in every.values():
        (tmp_path / target.name).write_bytes(target.content)
        target.read(tmp_path / target.name)


def test_damaged_ones_are_read_or_refused(every: dict[str, Target], tmp_path: Path) -> None:
    draw = random.Random(0)
    for target in every.values():
        for _ in range(CASES):
            content = damaged(target, draw)
            assert problem(target, content, tmp_path) is None, (target.name, content[:300])


def test_what_was_once_read_badly_is_not_any_more(every: dict[str, Target], tmp_path: Path) -> None:
    for name, file in corpus():
        assert problem(every[name], file.read_bytes(), tmp_path) is None, file


def test_a_defect_would_be_noticed(tmp_path: Path) -> None:
    def broken(path: Path) -> None:
        raise KeyError(path.name)

    target = Target("x.json", b"{}", broken)
    assert problem(target, b"{}", tmp_path) == "KeyError: 'x.json'"
