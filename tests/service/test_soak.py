"""A small part of ``make soak-service``: some hours of a small fleet, with faults and kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.soak import Soak, growth


@pytest.mark.slow
def test_hours_with_faults_and_kills_break_no_law(tmp_path: Path) -> None:
    soak = Soak(tmp_path, seed=1, jobs=3, window_s=120)
    soak.run(12 * 3600, kills=40)
    soak.settle()
    told = soak.report()
    assert told["faults"] == []
    assert told["kills"] >= 30
    assert told["rescales"] >= 5


def test_growth_is_told_from_filling_up() -> None:
    """Two weeks in which the store fills, then two of which the second must not be above the first."""
    hours = range(6, 28 * 24 + 1, 6)

    def told(rate: float) -> float | None:
        sizes = [{"hour": hour, "store_mb": min(hour, 336) + rate * max(0, hour - 336)} for hour in hours]
        return growth(sizes, "store_mb")

    assert told(0.0) == 0.0
    assert (told(1.0) or 0.0) > 0.2
    assert growth([{"hour": 600.0, "store_mb": 1.0}], "store_mb") is None
