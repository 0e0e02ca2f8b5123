"""The pages under strain: hostile names, empty services, outages, keyboards, phones, a thousand jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from service.dashboard.conftest import watched
from service.dashboard.fake_api import FakeFleet, serving
from service.dashboard.fleet_fixtures import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.slow
LANDMARKS = {
    "#/": "table.fleet",
    "#/jobs/job-2": ".chart canvas",
    "#/models": "table.models",
    "#/history": ".bars",
    "#/policies": ".policy",
}


@pytest.fixture
def empty() -> Iterator[tuple[FakeFleet, str]]:
    fleet = FakeFleet(size=0)
    fleet.clusters = []
    fleet.models, fleet.audit = {"running": None, "models": []}, {"entries": []}
    fleet.history = {"days": [], "quarantine": {"total": 0, "reasons": []}}
    fleet.policies = {"policies": [], "source": None}
    with serving(fleet) as url:
        yield fleet, url


def test_names_are_text(page: Page, url: str) -> None:
    from playwright.sync_api import expect

    page.goto(url)
    page.get_by_role("link", name=HOSTILE, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    page.goto(f"{url}/#/policies")
    expect(page.get_by_role("cell", name=HOSTILE, exact=True).first).to_be_visible()
    page.goto(f"{url}/#/history")
    page.get_by_text("rate is negative").click()
    expect(page.locator("pre").filter(has_text=HOSTILE)).to_be_visible()
    expect(page).to_have_title("(3) History – StreamTune")
    assert page.locator("img[onerror], img[src=x]").count() == 0


def test_empty_pages_say_what_to_do_next(page: Page, empty: tuple[FakeFleet, str]) -> None:
    from playwright.sync_api import expect

    fleet, url = empty
    expected = {
        "#/": "streamtune serve --config streamtune.yaml",
        "#/models": "streamtune learn",
        "#/history": "streamtune collect --url http://jobmanager:8081 --out runs",
        "#/policies": "Every job is only observed",
    }
    for address, text in expected.items():
        page.goto(f"{url}/{address}")
        expect(page.locator("main")).to_contain_text(text)
    fleet.clusters = [{"name": "eu", "engine": "flink", "url": "", "state": "ok", "jobs": 0, "error": None}]
    page.goto(f"{url}/#/")
    page.reload()
    expect(page.locator("main")).to_contain_text("1 cluster watched (eu), and no job runs there")


def test_learning_is_seen(page: Page, url: str, fleet: FakeFleet) -> None:
    from playwright.sync_api import expect

    fleet.learning = {
        "state": "learning",
        "step": "pretrain",
        "text": "encoder 2 of 3",
        "ended": None,
        "every_hours": 6,
    }
    page.goto(f"{url}/#/models")
    expect(page.locator(".learning")).to_contain_text("pretrain encoder 2 of 3 (every 6 h)")
    fleet.learning = {**fleet.learning, "state": "failed", "text": "no space left"}
    fleet.tell("service", {"learning": fleet.learning})
    expect(page.locator(".problem")).to_contain_text("The last round of learning failed. no space left")


def test_unknown_addresses_lead_back(page: Page, url: str, troubles: list[str]) -> None:
    from playwright.sync_api import expect

    page.goto(f"{url}/#/nowhere")
    expect(page.get_by_role("heading", level=1)).to_have_text("No such page")
    page.goto(f"{url}/#/jobs/not-there")
    expect(page.get_by_role("alert")).to_contain_text("there is no job 'not-there'")
    troubles.clear()


def test_an_outage_is_said_and_survived(page: Page, url: str, fleet: FakeFleet, troubles: list[str]) -> None:
    from playwright.sync_api import expect

    page.route("**/api/v1/events", lambda _route: None)  # a stream that opens would make the page try again by itself
    fleet.broken = True
    page.goto(url)
    expect(page.get_by_role("alert")).to_contain_text("the store is away")
    fleet.broken = False
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("3 jobs in trouble")
    troubles.clear()


def test_changes_arrive_live(page: Page, url: str, fleet: FakeFleet) -> None:
    from playwright.sync_api import expect

    page.goto(url)
    expect(page.locator(".connection")).to_have_text("live")
    fleet.tell("job", {**fleet.jobs["job-3"], "state": "failed", "trouble": ["it just failed"]})
    expect(page.get_by_role("heading", level=1)).to_have_text("4 jobs in trouble, 2 plans wait for approval")
    expect(page.locator("table.fleet tbody").first).to_contain_text("it just failed")


def test_nothing_falls_between_the_first_load_and_the_stream(page: Page, url: str, fleet: FakeFleet) -> None:
    from playwright.sync_api import expect

    held: list[Route] = []
    page.route("**/api/v1/events", lambda route: held.append(route))
    page.goto(url)
    expect(page.get_by_role("heading", level=1)).to_contain_text("3 jobs in trouble")
    fleet.jobs["job-3"] |= {"state": "failed", "trouble": ["failed before the stream was open"]}
    held[0].continue_()
    expect(page.get_by_role("heading", level=1)).to_contain_text("4 jobs in trouble")


def test_a_service_that_comes_back_is_followed_again(page: Page, troubles: list[str]) -> None:
    from playwright.sync_api import expect

    old, new = FakeFleet(), FakeFleet()
    new.jobs["job-4"] |= {"state": "failed", "trouble": ["failed while nobody looked"]}
    with serving(old) as url:
        page.goto(url)
        expect(page.locator(".connection")).to_have_text("live")
        old.gone = True
        expect(page.locator(".connection")).to_have_text("reconnecting")
    with serving(new, int(url.rpartition(":")[2])):
        expect(page.locator(".connection")).to_have_text("live", timeout=20_000)
        expect(page.locator("table.fleet tbody").first).to_contain_text("failed while nobody looked")
    troubles.clear()


def test_filters_and_order_are_in_the_address(page: Page, url: str) -> None:
    from playwright.sync_api import expect

    page.goto(url)
    expect(page.get_by_label("Find a job")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("orders eu")
    names = page.locator("table.fleet tbody th a:first-child")
    expect(names.first).to_contain_text("orders-enrich")
    page.get_by_role("button", name="Instances", exact=True).click()
    expect(page).to_have_url(re.compile(r"q=orders\+eu.*sort=instances|sort=instances.*q=orders\+eu"))
    expect(page.get_by_role("columnheader", name="Instances")).to_have_attribute("aria-sort", "descending")
    shown = [int(text) for text in page.locator("table.fleet td:nth-child(5)").all_inner_texts()]
    assert len(shown) > 1
    assert shown == sorted(shown, reverse=True)
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_label("Find a job")).to_have_value("orders eu")
    page.get_by_label("Find a job").fill("no such thing")
    page.get_by_role("button", name="Show all 40 jobs").click()
    expect(names).to_have_count(40)


def test_the_keyboard_is_enough(page: Page, url: str, fleet: FakeFleet) -> None:
    from playwright.sync_api import expect

    fleet.identity = {"name": "ada", "role": "operator"}
    page.goto(f"{url}/#/jobs/job-2")
    expect(page.get_by_role("button", name="Roll back")).to_be_enabled()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    rollback = page.get_by_role("button", name="Roll back")
    rollback.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(rollback).to_be_focused()
    page.get_by_role("link", name="Models", exact=True).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_zoom_asks_for_finer_figures(page: Page, url: str) -> None:
    from playwright.sync_api import expect

    page.goto(f"{url}/#/jobs/job-2")
    chart = page.locator(".chart .u-over").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30, steps=4)
    with page.expect_request(lambda request: "since=" in request.url and "until=" in request.url):
        page.mouse.up()
    follow = page.get_by_role("button", name="Follow live")
    expect(follow).to_be_visible()
    with page.expect_request(lambda request: "until=" in request.url):
        page.get_by_role("button", name="Zoom in").click()
    with page.expect_request(lambda request: "/observations" in request.url and "until=" not in request.url):
        follow.click()
    expect(follow).to_have_count(0)
    expect(page.locator(".chart canvas")).to_have_count(4)


def test_themes_are_kept(page: Page, url: str) -> None:
    from playwright.sync_api import expect

    page.goto(url)
    button = page.get_by_role("button", name="Theme:")
    button.click()
    button.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    button.click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


def test_a_phone_never_scrolls_sideways(browser: Browser, url: str) -> None:
    troubles: list[str] = []
    context = browser.new_context(viewport={"width": 360, "height": 780}, is_mobile=True, has_touch=True)
    page = watched(context.new_page(), troubles)
    for address in LANDMARKS:
        page.goto(f"{url}/{address}")
        page.wait_for_selector(LANDMARKS[address])
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{address} is {wide} px too wide for a phone"
    context.close()
    assert not troubles


def test_a_thousand_jobs_stay_fluid(page: Page) -> None:
    from playwright.sync_api import expect

    fleet = FakeFleet(size=1000)
    with serving(fleet) as url:
        page.goto(url)
        expect(page.get_by_text("120 of 1,000 shown")).to_be_visible()
        page.evaluate(LONGEST_TASK)
        for job in fleet.jobs.values():  # every job of the fleet reports at once
            fleet.tell("job", {**job, "rate": 1234.0})
        expect(page.locator("table.fleet td:nth-child(3)").last).to_have_text("1.23 k")
        page.get_by_label("Find a job").press_sequentially("orders-enrich-99", delay=20)
        expect(page.locator("table.fleet tbody th[scope=row]")).to_have_count(2)
        page.get_by_label("Find a job").fill("")
        page.get_by_role("button", name="Show 120 more").click()
        expect(page.locator("table.fleet tbody th[scope=row]")).to_have_count(240)
        longest = page.evaluate("window.longest")
        print(f"longest task with 1,000 jobs: {longest:.0f} ms")
    assert longest < 1000, f"the page stood still for {longest:.0f} ms"  # 364 ms on a machine with three times its load


LONGEST_TASK = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
  }).observe({ type: "longtask" });
}"""
