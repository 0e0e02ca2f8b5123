"""The built site loads nothing from outside. The whole site is built and checked by ``make docs``; here one page is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from streamtune_docs.blocks import DOCS
from streamtune_docs.site import outside_assets, outside_styles, problems


@pytest.fixture(scope="module")
def small_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One page through our configuration and theme: what the theme loads, every page loads."""
    pytest.importorskip("furo")
    source, site = tmp_path_factory.mktemp("pages"), tmp_path_factory.mktemp("site")
    (source / "index.md").write_text(
        "# One page\n\nWith `code`, [a link](#one-page) and a table:\n\n| a |\n| --- |\n| 1 |\n"
    )
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "-c", str(DOCS), str(source), str(site)]
    subprocess.run(command, check=True, timeout=120)
    return site


def test_the_theme_loads_nothing_from_outside(small_site: Path) -> None:
    assert (small_site / "index.html").exists()
    assert problems(small_site) == []


def test_what_is_loaded_from_outside_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="https://fonts.example/a.css"><img src="//cdn.example/b.png">'
        '<style>body { background: url("https://cdn.example/c.png") }</style>'
        '<a href="https://example.org">people may go there</a><a href="gone.html">not here</a><a href="#gone">x</a>'
    )
    (tmp_path / "style.css").write_text('@import "https://fonts.example/d.css";')
    assert problems(tmp_path) == [
        "index.html loads https://fonts.example/a.css",
        "index.html loads //cdn.example/b.png",
        "index.html loads https://cdn.example/c.png",
        "style.css loads https://fonts.example/d.css",
        "index.html links to gone.html",
        "index.html links to #gone",
    ]


def test_what_stays_inside_is_fine() -> None:
    assert (
        outside_assets('<script src="_static/x.js"></script><link rel="canonical" href="https://example.org/">') == []
    )
    assert outside_styles("a { background: url(data:image/png;base64,AA==) } @import 'b.css';") == []
