"""The same story on the real service: ``streamtune serve --demo``, a simulated fleet at 60 times the speed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from service.demo_service import Demo, demo

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
A_FEW_MINUTES_MS = 90_000  # of ours, which are hours of the fleet's


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with demo(tmp_path_factory.mktemp("demo")) as found:
        yield found


def test_the_story_of_a_job_in_trouble(page: Page, running: Demo, troubles: list[str]) -> None:
    from playwright.sync_api import expect

    job = running.job_with_a_plan()
    page.goto(running.url)
    expect(page.get_by_role("heading", level=1)).to_contain_text("in trouble")
    first = page.locator("table.fleet tbody").first
    expect(first.locator(".group")).to_contain_text("Trouble")
    first.get_by_role("link", name=job["name"], exact=True).click()

    expect(page.get_by_label("Trouble")).to_contain_text("backpressure")
    plan = page.get_by_role("region", name="A plan waits for your approval")
    expect(plan.locator(".reason").first).to_contain_text("records/s")
    expect(plan.get_by_role("img", name=re.compile("Probability of a bottleneck at")).first).to_be_visible()
    drawing = page.locator(".drawing img:visible")
    drawing.scroll_into_view_if_needed()
    page.wait_for_function("(image) => image.naturalWidth > 100", arg=drawing.element_handle())

    plan.get_by_role("button", name="Approve plan").click()
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("Token").fill(running.token)
    dialog.get_by_role("button", name="Sign in").click()
    applied = page.locator(".decisions > li").filter(has=page.locator(".chip.good", has_text="applied"))
    expect(applied.first).to_be_visible(timeout=A_FEW_MINUTES_MS)
    running.wait_for("plan applied", lambda: running.get(f"jobs/{job['id']}")["instances"] > job["instances"])

    page.get_by_role("button", name="Roll back").click(timeout=A_FEW_MINUTES_MS)
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(applied.filter(has_text="rollback:").first).to_be_visible(timeout=A_FEW_MINUTES_MS)
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    running.wait_for("plan taken back", lambda: running.get(f"jobs/{job['id']}")["instances"] == job["instances"])

    page.get_by_role("link", name="Policies", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="rollback")).to_contain_text(job["id"])
    page.get_by_role("link", name="Models", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Models")
    troubles[:] = [line for line in troubles if "401" not in line]  # asked without a token first


def test_hostile_names_of_the_demo_are_text(page: Page, running: Demo) -> None:
    from playwright.sync_api import expect

    page.on("dialog", lambda dialog: pytest.fail(f"a script of a job's name ran: {dialog.message}"))
    page.goto(running.url)
    page.get_by_role("link", name="<script>alert('ads')</script>", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("<script>alert('ads')</script>")
    expect(page.locator(".operators tbody tr").first).to_be_visible()


def test_pages_of_the_real_service_open(page: Page, running: Demo) -> None:
    from playwright.sync_api import expect

    for address, title in {"models": "Models", "history": "History", "policies": "Policies"}.items():
        page.goto(f"{running.url}/#/{address}")
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page.get_by_role("alert")).to_have_count(0)
    page.goto(f"{running.url}/#/policies")
    expect(page.locator(".policy").first).to_contain_text("acts by itself, within its guards")
