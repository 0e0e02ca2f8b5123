"""How the dashboard writes numbers and reads curves, asked of its own modules in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
WRITTEN: list[tuple[str, list[Any], str]] = [
    ("rate", [0], "0"),
    ("rate", [3.14], "3.1"),
    ("rate", [999], "999"),
    ("rate", [1234], "1.23 k"),
    ("rate", [56_700], "56.7 k"),
    ("rate", [1_234_567], "1.23 M"),
    ("rate", [None], "–"),
    ("share", [0.004], "<1 %"),
    ("share", [0.623], "62 %"),
    ("fine", [0.012], "1.2 %"),
    ("count", [1234], "1,234"),
    ("hours", [-15.4], "−15 h"),
    ("hours", [0.01], "0 h"),
    ("hours", [1993], "1,993 h"),
    ("signed", [-6], "−6"),
    ("signed", [0], "±0"),
    ("duration", [95], "2 min"),
    ("duration", [7200], "2 h"),
    ("duration", [-3], "0 s"),
    ("many", [1, "job"], "1 job"),
    ("many", [1200, "job"], "1,200 jobs"),
]


def test_numbers_read_well(page: Page, url: str) -> None:
    page.goto(url)
    ask = """(asked) => import('/static/js/format.js').then(
      (module) => asked.map(([name, given]) => module[name](...given)))"""
    written = page.evaluate(ask, [[name, given] for name, given, _ in WRITTEN])
    assert written == [text for _, _, text in WRITTEN]


def test_a_curve_is_read_between_its_points(page: Page, url: str) -> None:
    page.goto(url)
    read = """(places) => import('/static/js/charts.js').then(
      (module) => places.map((at) => module.probability([[4, 0.2], [1, 1], [2, 0.8]], at)))"""
    # 3 lies halfway between (2, 0.8) and (4, 0.2); outside the curve its nearest end counts.
    assert page.evaluate(read, [0, 1, 2, 3, 4, 9]) == pytest.approx([1, 1, 0.8, 0.5, 0.2, 0.2])
    assert page.evaluate("import('/static/js/charts.js').then((module) => module.probability([], 3))") is None
