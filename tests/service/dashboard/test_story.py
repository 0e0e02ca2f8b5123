"""The operator's story in a browser: find the job in trouble, read why, approve, watch, roll back, see the model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from service.dashboard.fake_api import TOKEN, FakeFleet

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


def test_from_trouble_to_a_plan_applied_and_back(page: Page, url: str, troubles: list[str], fleet: FakeFleet) -> None:
    from playwright.sync_api import expect

    page.goto(url)
    expect(page.get_by_role("heading", level=1)).to_have_text("3 jobs in trouble, 2 plans wait for approval")
    first = page.locator("table.fleet tbody").first
    expect(first.locator(".group")).to_contain_text("Trouble")
    row = first.get_by_role("row").filter(has_text="by_user is the bottleneck")
    row.get_by_role("link", name="fraud-scores-02").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("fraud-scores-02")
    expect(page.get_by_label("Trouble")).to_contain_text("by_user is the bottleneck: busy 98 %")
    plan = page.get_by_role("region", name="A plan waits for your approval")
    expect(plan.get_by_role("row").filter(has_text="by_user").first).to_contain_text(
        "a bottleneck with probability 0.97"
    )
    expect(
        plan.get_by_role("img", name=re.compile("Probability of a bottleneck at by_user: .* with 24, .* with"))
    ).to_be_visible()

    plan.get_by_role("button", name="Approve plan").click()
    dialog = page.get_by_role("dialog", name="Sign in")
    expect(dialog).to_contain_text("streamtune token create NAME --role operator")
    dialog.get_by_label("Token").fill("wrong")
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog.get_by_role("alert")).to_contain_text("this token is not known")
    dialog.get_by_label("Token").fill(TOKEN)
    dialog.get_by_role("button", name="Sign in").click()

    newest = page.locator(".decisions > li").first  # the approval went on by itself, and the page follows it live
    expect(newest).to_contain_text("applied")
    expect(page.get_by_label("Trouble")).to_have_count(0)
    expect(page.get_by_text("Plan approved").first).to_be_attached()
    newest.locator("summary").click()
    expect(newest).to_contain_text("Outcome")
    assert fleet.asked.count("POST /api/v1/jobs/job-2/decisions/d-pending/approve") == 2  # refused once, then done

    page.get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(newest.locator("summary")).to_contain_text("rolled back")

    page.get_by_role("link", name="m-0003").first.click()
    expect(page.get_by_role("heading", level=2, name="Running: m-0003")).to_be_visible()
    expect(page.get_by_text("threshold error 0.171 → 0.152").first).to_be_visible()
    expect(page.locator("tr[aria-current=true]")).to_contain_text("m-0003")
    troubles[:] = [line for line in troubles if "401" not in line]  # the two refusals above are part of the story


def test_a_viewer_sees_everything_and_can_change_nothing(page: Page, url: str, fleet: FakeFleet) -> None:
    from playwright.sync_api import expect

    fleet.identity = {"name": "vera", "role": "viewer"}
    page.goto(f"{url}/#/jobs/job-2")
    for name in ("Approve plan", "Reject", "Pause", "Roll back", "Set bounds"):
        expect(page.get_by_role("button", name=name).first).to_be_disabled()
    expect(page.get_by_text("Your role is viewer: an operator can approve this.")).to_be_visible()


def test_reject_pause_and_bounds(page: Page, url: str, fleet: FakeFleet) -> None:
    from playwright.sync_api import expect

    fleet.identity = {"name": "ada", "role": "operator"}
    page.goto(f"{url}/#/jobs/job-2")
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".decisions > li").first).to_contain_text("rejected")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("button", name="Set bounds").click()
    dialog = page.get_by_role("dialog", name="Bounds")
    dialog.get_by_label("Least of by_user").fill("9")
    dialog.get_by_label("Most of by_user").fill("4")
    dialog.get_by_role("button", name="Save bounds").click()
    expect(dialog.get_by_role("alert")).to_contain_text("by_user: the least (9) is above the most (4)")
    dialog.get_by_label("Most of by_user").fill("40")
    dialog.get_by_role("button", name="Save bounds").click()
    expect(page.get_by_role("row").filter(has_text="window_aggregate")).to_contain_text("9 – 40")
    assert fleet.bounds == {"job-2": {"by_user": {"min": 9, "max": 40}}}


def test_where_nothing_may_be_applied_nothing_asks(page: Page, url: str, fleet: FakeFleet) -> None:
    from playwright.sync_api import expect

    fleet.jobs["job-2"] |= {"mode": "recommend", "pending": None}
    page.goto(f"{url}/#/jobs/job-2")
    expect(page.get_by_role("region", name="What StreamTune would do")).to_contain_text("nothing is applied")
    expect(page.get_by_role("button", name="Approve plan")).to_have_count(0)
    expect(page.locator(".decisions > li").first.locator(".chip")).to_have_text("recommended")


def test_a_refused_change_says_why(page: Page, url: str, fleet: FakeFleet, troubles: list[str]) -> None:
    from playwright.sync_api import expect

    fleet.identity = {"name": "ada", "role": "operator"}
    page.goto(f"{url}/#/jobs/job-2")
    approve = page.get_by_role("button", name="Approve plan")
    expect(approve).to_be_visible()
    fleet.decision("job-2", "d-pending")["status"] = "expired"  # meanwhile, elsewhere
    approve.click()
    expect(page.locator(".toast")).to_contain_text("this plan is expired, so it cannot be approved")
    troubles.clear()


def test_models_are_promoted_after_a_question(page: Page, url: str, fleet: FakeFleet) -> None:
    from playwright.sync_api import expect

    fleet.identity = {"name": "ada", "role": "operator"}
    page.goto(f"{url}/#/models")
    page.get_by_role("button", name="Promote m-0005").click()
    page.get_by_role("dialog", name="Promote m-0005?").get_by_role("button", name="Cancel").click()
    assert fleet.models["running"] == "m-0003"
    page.get_by_role("button", name="Promote m-0005").click()
    page.get_by_role("dialog").get_by_role("button", name="Promote").click()
    expect(page.get_by_role("heading", level=2, name="Running: m-0005")).to_be_visible()
