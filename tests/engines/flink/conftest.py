"""Fixtures of the Flink tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engines.flink.fake_flink import FakeFlink


@pytest.fixture
def fake() -> Iterator[FakeFlink]:
    with FakeFlink() as server:
        yield server
