"""A few thousand damaged files and answers; ``make bench-input-fuzz`` reads a million."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from input_fuzz import Target, corpus, damaged, problem
from input_targets import targets
from streamtune.errors import StreamTuneError
from structured_input import SPECS, Document, configs

CASES = 60
FEWER = 15  # of what takes milliseconds: whole tuning processes


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory, small_model: Path) -> dict[str, Target]:
    return {one.name: one for one in targets(tmp_path_factory.mktemp("sound"), small_model)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("structured")


def test_the_sound_ones_are_read(every: dict[str, Target], tmp_path: Path) -> None:
    for target in every.values():
        (tmp_path / target.name).write_bytes(target.content)
        target.read(tmp_path / target.name)


@pytest.mark.slow
def test_damaged_ones_are_read_or_refused(every: dict[str, Target], tmp_path: Path) -> None:
    draw = random.Random(0)
    for target in every.values():
        for _ in range(FEWER if target.name.startswith("tune-") else CASES):
            content = damaged(target, draw)
            assert problem(target, content, tmp_path) is None, (target.name, content[:300])


@settings(max_examples=150)
@given(SPECS)
def test_specs_of_any_structure_are_read_or_refused(every: dict[str, Target], folder: Path, document: Document) -> None:
    assert problem(every["spec.json"], json.dumps(document).encode(), folder) is None


@settings(max_examples=100)
@given(configs(), st.booleans())
def test_settings_of_any_structure_too(
    every: dict[str, Target], folder: Path, document: Document, is_ascii: bool
) -> None:
    """JSON is YAML, nearly."""
    content = json.dumps(document, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    assert problem(every["config.yaml"], content, folder) is None


def test_what_was_once_read_badly_is_not_any_more(every: dict[str, Target], tmp_path: Path) -> None:
    for name, file in corpus():
        assert problem(every[name], file.read_bytes(), tmp_path) is None, file


def test_a_defect_would_be_noticed(tmp_path: Path) -> None:
    def broken(path: Path) -> None:
        raise KeyError(path.name)

    target = Target("x.json", b"{}", broken)
    assert problem(target, b"{}", tmp_path) == "KeyError: 'x.json'"


def test_a_refusal_that_names_another_place_would_be_noticed(tmp_path: Path) -> None:
    def refuse(path: Path) -> None:
        raise StreamTuneError(f"a file in {path.parent} is wrong")

    assert problem(Target("x.json", b"{}", refuse), b"{}", tmp_path) is not None
    assert problem(Target("x.json", b"{}", refuse, place=tmp_path.name), b"{}", tmp_path) is None
    assert problem(Target("x.json", b"{}", refuse, place=None), b"{}", tmp_path) is None
