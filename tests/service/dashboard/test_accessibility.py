"""axe-core finds no serious fault on any page, in both themes and on a phone, nor in the dialogs."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from service.dashboard.conftest import watched
from service.dashboard.fake_api import FakeFleet

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
# Kept in the repository for the tests alone (deploy/vendor_dashboard.sh fetches it from npm).
AXE = gzip.decompress((Path(__file__).parent / "axe" / "axe.min.js.gz").read_bytes()).decode()
PAGES = {
    "#/": "table.fleet",
    "#/jobs/job-2": ".chart canvas",
    "#/models": "table.models",
    "#/history": ".bars",
    "#/policies": ".policy",
}
SIZES = {"light": (1440, 900), "dark": (1440, 900), "phone": (390, 844)}


def faults(page: Page) -> list[str]:
    """What axe calls serious or critical, with the element and the reason."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']} ({violation['impact']}): {node['html'][:160]} {node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"][:3]
    ]


@pytest.mark.parametrize("look", SIZES)
def test_pages_have_no_serious_fault(browser: Browser, url: str, look: str) -> None:
    troubles: list[str] = []
    width, height = SIZES[look]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if look == "dark" else "light",
        reduced_motion="reduce",
    )
    page = watched(context.new_page(), troubles)
    for address, landmark in PAGES.items():
        page.goto(f"{url}/{address}")
        page.wait_for_selector(landmark)
        assert faults(page) == [], address
        page.evaluate("[...document.querySelectorAll('details')].slice(0, 4).forEach((one) => (one.open = true))")
        page.wait_for_timeout(100)  # what was opened draws itself
        assert faults(page) == [], f"{address}, opened"
    context.close()
    assert not troubles


def test_the_check_sees_a_fault(page: Page, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("table.fleet")
    page.evaluate("document.querySelector('#find').previousElementSibling.remove()")
    page.evaluate("document.querySelector('#find').placeholder = ''")
    assert any("label" in fault for fault in faults(page))


def test_dialogs_have_no_serious_fault(page: Page, url: str, fleet: FakeFleet) -> None:
    page.goto(url)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("dialog[open]")
    assert faults(page) == []
    fleet.identity = {"name": "ada", "role": "operator"}
    page.goto(f"{url}/#/jobs/job-2")
    page.reload()
    for name in ("Set bounds", "Roll back"):
        page.get_by_role("button", name=name).click()
        page.wait_for_selector("dialog[open]")
        assert faults(page) == []
        page.keyboard.press("Escape")
