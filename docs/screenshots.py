"""Takes the pictures of the dashboard that the README and the guides show: ``make screenshots``.

Starts ``streamtune serve --demo``, lets its fleet live for a while, and looks at it with Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from service.demo_service import Demo, demo  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = ROOT / "docs" / "images"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MOST_BYTES = 100_000  # of a picture of the docs; tests/docs looks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures")
    parser.add_argument("--live-s", type=float, default=120.0, help="how long the fleet lives first (60 times as fast)")
    parser.add_argument("--all", action="store_true", help="every page, light, dark and on a phone, to look at")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, demo(Path(folder)) as running:
        time.sleep(options.live_s)
        job = running.job_with_a_plan()["id"]
        look(running, job, options.out, everything=options.all)


def look(running: Demo, job: str, out: Path, *, everything: bool) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or "/usr/bin/chromium", args=FLAGS
        )
        take(browser, f"{running.url}/#/", out / "dashboard.png", (1360, 850))
        take(browser, f"{running.url}/#/jobs/{job}", out / "dashboard-job.png", (1360, 1240))
        for name in ("", f"jobs/{job}", "models", "history", "policies") if everything else ():
            for theme, size in (("light", (1440, 900)), ("dark", (1440, 900)), ("phone", (390, 844))):
                path = out / f"{name.partition('/')[0] or 'fleet'}-{theme}.png"
                take(browser, f"{running.url}/#/{name}", path, size, dark=theme == "dark", whole=True)
        browser.close()


def take(
    browser: Browser, url: str, path: Path, size: tuple[int, int], *, dark: bool = False, whole: bool = False
) -> None:
    """One picture; one for the docs has to be small enough for a README."""
    page: Page = browser.new_page(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    page.goto(url)
    page.wait_for_selector("main h1")
    page.wait_for_timeout(3000)  # charts, pictures, fonts
    page.screenshot(path=path, full_page=whole)
    page.close()
    if not whole:
        from PIL import Image

        # A screen of text and lines has few colours: a palette is a third of the size, and looks the same.
        Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    taken = path.stat().st_size
    if not whole and taken > MOST_BYTES:
        raise SystemExit(f"{path} has {taken} bytes, and {MOST_BYTES} are the limit: choose a smaller size")
    print(f"{path}: {taken} bytes")


if __name__ == "__main__":
    main()
