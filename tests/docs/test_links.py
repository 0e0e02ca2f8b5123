"""Every link between our Markdown files leads to a file, and every anchor to a heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamtune_docs.blocks import DOCS, has_build_time_blocks
from streamtune_docs.links import broken_links

ROOT = DOCS.parent
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md"))]
MOST_IMAGE_BYTES = 100_000


def _filled_later() -> list[Path]:
    return [path for path in PAGES if has_build_time_blocks(path.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links([page], _filled_later()) == []


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = {
        (index.parent / f"{line.strip()}.md").resolve()
        for index in DOCS.rglob("index.md")
        for block in index.read_text().split("```{toctree}")[1:]
        for line in block.split("```")[0].splitlines()
        if line and not line.startswith(":")
    }
    assert {path.resolve() for path in DOCS.rglob("*.md")} - listed == {(DOCS / "index.md").resolve()}


def test_images_are_used_and_small() -> None:
    text = "".join(path.read_text() for path in PAGES)
    for image in (DOCS / "images").iterdir():
        assert f"images/{image.name}" in text, f"{image.name} is shown nowhere"
        assert image.stat().st_size <= MOST_IMAGE_BYTES


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[there](other.md#a-heading)", []),
        ("[gone](missing.md)", ["page.md: missing.md"]),
        ("[no such heading](other.md#nowhere)", ["page.md: other.md#nowhere"]),
        ("![no such image](x.png)", ["page.md: x.png"]),
        ("[outside](https://example.org/x.md)", []),
        ("`[code](missing.md)`\n```\n[code](missing.md)\n```", []),
        ("```{toctree}\n:hidden:\n\nother\nmissing\n```", ["page.md: missing.md"]),
        ("# Here\n[above](#here) [below](#nowhere)", ["page.md: #nowhere"]),
    ],
)
def test_what_counts_as_broken(tmp_path: Path, text: str, broken: list[str]) -> None:
    (tmp_path / "other.md").write_text("# Title\n## A heading\n")
    (tmp_path / "page.md").write_text(text)
    assert broken_links([tmp_path / "page.md"]) == broken


def test_pages_that_code_names_exist() -> None:
    """Comments, docstrings and messages lead readers to pages too."""
    places = [path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    named = {
        (path.relative_to(ROOT), page)
        for path in (*places, ROOT / "pyproject.toml", ROOT / "Makefile")
        for page in re.findall(r"\bdocs/[\w/-]+\.(?:md|png|svg)\b", path.read_text(encoding="utf-8"))
    }
    assert not [f"{path} names {page}" for path, page in sorted(named) if not (ROOT / page).exists()]
