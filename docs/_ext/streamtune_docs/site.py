"""Checks on the built site: nothing is loaded from outside, and every internal link and anchor leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, by tag. A plain link (<a href>) is followed by people.
_LOADED = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "link": ("href",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}
_OUTSIDE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
_CSS_OUTSIDE = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])\s*((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)
# Links of these kinds are names, not fetches.
_NOT_FETCHED = {"canonical", "alternate", "author", "license", "index", "search", "next", "prev"}


@dataclass
class Page(HTMLParser):
    """What one HTML page loads, links to, and can be linked at."""

    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    styles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @classmethod
    def of(cls, html: str) -> Page:
        page = cls()
        page.feed(html)
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        if "style" in values:
            self.styles.append(values["style"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") in _NOT_FETCHED:
            return
        else:
            self.loads += [values[name] for name in _LOADED.get(tag, ()) if values.get(name)]

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.styles.append(data)


def outside_assets(html: str) -> list[str]:
    """What a page would fetch from other hosts.

    >>> outside_assets('<script src="https://cdn.example/x.js"></script><a href="https://example.org">read</a>')
    ['https://cdn.example/x.js']
    >>> outside_assets('<link rel="stylesheet" href="_static/furo.css">')
    []
    """
    page = Page.of(html)
    return [url for url in page.loads if _OUTSIDE.match(url)] + [u for css in page.styles for u in outside_styles(css)]


def outside_styles(css: str) -> list[str]:
    """What a style sheet would fetch from other hosts.

    >>> outside_styles("@import 'https://fonts.example/a.css'; b { background: url(//x.example/y.png) }")
    ['https://fonts.example/a.css', '//x.example/y.png']
    """
    return _CSS_OUTSIDE.findall(css)


def problems(site: Path) -> list[str]:
    """Everything wrong with a built site."""
    html = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    pages = {path.resolve(): Page.of(text) for path, text in html.items()}
    found = [f"{path.relative_to(site)} loads {url}" for path, text in html.items() for url in outside_assets(text)]
    for path in sorted(site.rglob("*.css")):
        found += [f"{path.relative_to(site)} loads {u}" for u in outside_styles(path.read_text(encoding="utf-8"))]
    for path, page in pages.items():
        found += [f"{path.relative_to(site.resolve())} links to {link}" for link in _broken(path, page, pages)]
    return found


def _broken(path: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        anchor = unquote(parts.fragment)
        if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
            yield link
