"""Outside data."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def pdsp_file() -> Path:
    """The outside data beside the repository; it names no licence and is not part of it."""
    path = Path(__file__).parents[2].parent / "shared" / "data" / "pdsp" / "runs.jsonl.gz"
    if not path.exists():
        pytest.skip(f"the PDSP-Bench runs are not at {path}: they may not be copied into the project")
    return path
