"""A small part of ``make soak-service``: some hours of a small fleet, with faults and kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.soak import Soak


@pytest.mark.slow
def test_hours_with_faults_and_kills_break_no_law(tmp_path: Path) -> None:
    soak = Soak(tmp_path, seed=1, jobs=3, window_s=120)
    soak.run(12 * 3600, kills=40)
    soak.settle()
    told = soak.report()
    assert told["faults"] == []
    assert told["kills"] >= 30
    assert told["rescales"] >= 5
