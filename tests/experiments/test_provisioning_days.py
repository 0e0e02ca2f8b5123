"""Which price of being short stands for a rival: bisected on the days before, and what the page says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamtune.experiments.provisioning import days
from streamtune.experiments.provisioning.days import PROACTIVE, Days, DayStudy, Setting, compared_days, row_of
from streamtune.experiments.provisioning.report import write_report
from streamtune.experiments.provisioning.traced_simulator import Ledger
from streamtune.forecasts.series import RateSeries

HOURS = {"streamtune": 500.0, "ds2": 400.0}


def hours_of(setting: Setting) -> float:
    """The dearer being short, the more hours; no price of the grid comes near 1.04 × 400."""
    return HOURS.get(setting.method) or 350.0 + 100.0 * (setting.short or 0.0)


def test_prices_are_bisected_on_the_days_before_and_only_what_was_chosen_is_tested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Whole:
        windows = RateSeries(np.ones(288 * 10), 300.0)

    lived: list[tuple[tuple[int, int], list[Setting]]] = []

    def all_lived(_days: object, span: tuple[int, int], wanted: list[Setting], *_: object) -> list[dict[str, Any]]:
        lived.append((span, list(wanted)))
        return [row_of(one, Ledger(2880, round(1e6 / hours_of(one)), 3600 * hours_of(one), 7)) for one in wanted]

    monkeypatch.setattr(Days, "of", lambda *_: Whole())
    monkeypatch.setattr(days, "_all_lived", all_lived)
    run = compared_days("nasa", (0.0, 10.0), 2.0, DayStudy(), lambda _: None)
    tested = [span for span, _ in lived if span[1] == 2880]
    assert len(tested) == 1  # once, at the end
    chosen = run["chosen"]["ds2 +0"]
    assert chosen["short"] not in {one.short for one in PROACTIVE}
    # 1.03 to 1.05 × 400 hours are 412 to 420: prices of 0.62 to 0.7.
    assert 0.62 <= chosen["short"] <= 0.7
    assert run["planner"] == days.PLANNER


def test_the_page_tells_planners_apart(tmp_path: Path) -> None:
    def row(method: str, short: float | None, minutes: int, hours: float) -> dict[str, Any]:
        setting = Setting(method, change=0.01, short=short)
        return row_of(setting, Ledger(2880, minutes, 3600 * hours, 7))

    chosen = {"method": "ahead", "headroom": 0.0, "level": 0.9, "change": 0.01, "short": 0.5}
    rows = [row("ds2", None, 800, 100.0), row("ahead", 0.4, 400, 95.0), row("ahead", 0.5, 100, 105.0)]
    run = {
        "trace": "nasa",
        "rescale": "live",
        "span": (0.0, 10.0),
        "test_days": 2.0,
        "settings": DayStudy().model_dump(),
        "rows": {"validation": [], "test": rows},
        "chosen": {"ds2 +0": chosen},
    }
    for planner, told in (({}, ", prices from a grid)"), ({"planner": days.PLANNER}, "s of downtime)")):
        (tmp_path / "provisioning-days.json").write_text(json.dumps({"runs": [{**run, **planner}]}))
        write_report(tmp_path, tmp_path / "page.md")
        page = (tmp_path / "page.md").read_text()
        assert told in page
        # Half way between 95 and 105 hours, and at the end of what was tested.
        assert "| ds2 +0 | 800 | 100 | 100 | 8.00 | 1.050 | short hour 0.5, change 0.01 | 200 | 100 |" in page
