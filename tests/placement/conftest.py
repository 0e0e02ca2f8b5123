"""Kernels are compiled once, before any test with a deadline runs."""

from __future__ import annotations

import pytest

from streamtune.placement import prepare


@pytest.fixture(scope="session", autouse=True)
def _compiled_kernels() -> None:
    prepare()
