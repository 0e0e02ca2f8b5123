"""Links between the Markdown files of the repository: every target is there, and every anchor is a heading of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]*\s*?$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1")
_LINK = re.compile(r"(?<!\\)\]\((?P<target>[^)\s]+)(?:\s+\"[^\"]*\")?\)")
_TOCTREE = re.compile(r"^(`{3,})\{toctree\}\n(?P<body>.*?)^\1$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
_OUTSIDE = re.compile(r"^[a-z][a-z0-9+.-]*:")


def broken_links(pages: Iterable[Path], anchors_at_build_time: Iterable[Path] = ()) -> list[str]:
    """What does not lead anywhere, as ``file: target``; pages that are filled at build time may have any anchor.

    >>> broken_links([])
    []
    """
    open_pages = {path.resolve() for path in anchors_at_build_time}
    return [
        f"{page.name}: {target}" for page in pages for target in _targets(page) if not _leads(page, target, open_pages)
    ]


def headings(text: str) -> set[str]:
    """The anchors of a page.

    >>> sorted(headings("# A title\\n## It's `code`: done\\n## A title"))
    ['a-title', 'a-title-1', 'its-code-done']
    """
    anchors: set[str] = set()
    for title in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", plain.lower().strip()).replace(" ", "-")
        number, unique = 0, slug
        while unique in anchors:
            number += 1
            unique = f"{slug}-{number}"
        anchors.add(unique)
    return anchors


def _targets(page: Path) -> Iterator[str]:
    text = page.read_text(encoding="utf-8")
    for match in _TOCTREE.finditer(text):
        for line in match["body"].splitlines():
            if line and not line.startswith(":"):
                yield f"{line.rpartition('<')[2].rstrip('>').removesuffix('.md')}.md"
    prose = _CODE.sub("", _FENCE.sub("", text))
    yield from (match["target"] for match in _LINK.finditer(prose) if not _OUTSIDE.match(match["target"]))


def _leads(page: Path, target: str, open_pages: set[Path]) -> bool:
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page.resolve()
    if not path.exists():
        return False
    if not anchor or path in open_pages or path.suffix != ".md":
        return True
    return anchor in headings(path.read_text(encoding="utf-8"))
