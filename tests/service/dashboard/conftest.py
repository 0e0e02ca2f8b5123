"""A real browser for the tests of the dashboard: Chromium, driven by Playwright; where it is missing, tests say so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from service.dashboard.fake_api import FakeFleet, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# As root and in containers Chromium needs the first; the others keep it from asking the outside world for anything.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 15_000


def missing(what: str) -> None:
    """Skip with what to do; where a browser is demanded (CI that has installed one), fail instead."""
    message = f"no browser test: {what} (set STREAMTUNE_CHROMIUM to a browser that is elsewhere)"
    if os.environ.get("STREAMTUNE_REQUIRE_BROWSER"):
        pytest.fail(message)
    pytest.skip(message)


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("STREAMTUNE_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser per file, not per session: Playwright occupies the event loop of its thread while it is open."""
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        missing("Playwright is not installed, get it with pip install 'streamtune[dev]'")
    path = chromium()
    if path is None:
        missing("Chromium was not found, get it with apt-get install chromium")
    expect.set_options(timeout=PATIENCE_MS)  # other tests run beside these
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def fleet() -> FakeFleet:
    return FakeFleet()


@pytest.fixture
def url(fleet: FakeFleet) -> Iterator[str]:
    with serving(fleet) as address:
        yield address


@pytest.fixture
def troubles() -> list[str]:
    """What the page complained about; a test that provokes a complaint clears it."""
    return []


@pytest.fixture
def page(browser: Browser, troubles: list[str], url: str) -> Iterator[Page]:  # noqa: ARG001
    """A new page, closed before what serves it.

    Errors in its console (a violated policy is one) fail the test, and so does any request elsewhere.
    """
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = watched(context.new_page(), troubles)
    yield page
    context.close()
    assert not troubles, "\n".join(troubles)


def watched(page: Page, troubles: list[str]) -> Page:
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "request",
        lambda request: troubles.append(f"asked {request.url}") if "//127.0.0.1:" not in request.url else None,
    )
    return page
