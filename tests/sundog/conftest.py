"""Fixtures of Sundog's tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sundog.examples import ENTITIES, RELATIONS, write_knowledge


@pytest.fixture
def knowledge_folder(tmp_path: Path) -> Path:
    return write_knowledge(tmp_path / "kb", ENTITIES, RELATIONS)


@pytest.fixture
def write_log() -> Callable[[Path, list[Any]], Path]:
    """Write records (or raw text) as JSON lines, elsewhere first."""

    def write(file: Path, lines: list[Any]) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        text = [
            line if isinstance(line, str) else json.dumps(line, ensure_ascii=len(line["query"]) % 2 == 0)
            for line in lines
        ]
        waiting = file.with_name(f".{file.name}")
        waiting.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
        return waiting.rename(file)

    return write
