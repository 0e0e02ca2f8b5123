"""The marks in a page, and what fills them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from streamtune_docs import http_api, reasons, rooms, schema, settings
from streamtune_docs.fields import table_of

DOCS = Path(__file__).resolve().parents[2]

# Filled in the file. The argument stands behind the name in the mark.
_COMMITTED: dict[str, Callable[[str], str]] = {
    "fields": table_of,
    "settings": lambda _argument: settings.page(),
    "schema": schema.part,
    "reasons": lambda _argument: reasons.table(),
    "http-api": lambda _argument: http_api.table(),
    "rooms": lambda _argument: rooms.table(),
}

_BLOCK = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) ?(?P<argument>\S*) -->\n).*?(<!-- end -->)", re.DOTALL)
_BUILD_TIME = re.compile(r"<!-- at build time: (?P<name>[a-z-]+) -->")


def filled(text: str) -> str:
    """A page with its committed blocks as the code says they are now.

    >>> filled("no marks")
    'no marks'
    """
    return _BLOCK.sub(lambda m: f"{m[1]}\n{_COMMITTED[m['name']](m['argument']).strip()}\n\n{m[4]}", text)


def built(text: str) -> str:
    """A page with its build-time blocks filled."""
    return _BUILD_TIME.sub(lambda match: _build_time(match["name"]), text)


def has_build_time_blocks(text: str) -> bool:
    return _BUILD_TIME.search(text) is not None


def pages_with_blocks(docs: Path = DOCS) -> list[Path]:
    """The pages that ``docs/generate.py`` keeps up to date."""
    return [path for path in sorted(docs.rglob("*.md")) if _BLOCK.search(path.read_text(encoding="utf-8"))]


def stale_pages(docs: Path = DOCS) -> list[Path]:
    """The pages whose generated blocks are not what the code says."""
    texts = ((path, path.read_text(encoding="utf-8")) for path in pages_with_blocks(docs))
    return [path for path, text in texts if filled(text) != text]


def _build_time(name: str) -> str:
    from streamtune_docs import api, cli

    return {"cli": cli.page, "api": api.page}[name]()
