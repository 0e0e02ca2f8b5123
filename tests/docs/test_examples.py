"""What the guides tell people to write works, and commands that they name are there."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
import yaml
from streamtune_docs.blocks import DOCS

from streamtune.cli import app
from streamtune.dataflow.spec import parse_spec
from streamtune.testing import TUNER_LAWS
from streamtune.tuners.base import Tuner

PAGES = sorted(DOCS.rglob("*.md"))


def _blocks(language: str, page: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def _names(command: Any) -> set[str]:
    return set(command.commands) if hasattr(command, "commands") else set()


@pytest.mark.parametrize("page", ["tutorial/first-job.md", "reference/job-spec.md"])
def test_job_specs_are_valid(page: str) -> None:
    spec = parse_spec(yaml.safe_load(_blocks("yaml", page)[0]))
    assert spec.physics is not None


@pytest.mark.parametrize("law", TUNER_LAWS)
def test_the_tuner_of_the_guide_obeys_the_laws(law: Any, tuner_case: tuple[Any, Any]) -> None:
    namespace: dict[str, Any] = {}
    exec(_blocks("python", "how-to/extend.md")[0], namespace)
    tuner: type[Tuner] = namespace["Doubling"]
    law(tuner, *tuner_case)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_python_in_pages_is_python(page: Any) -> None:
    for block in _blocks("python", str(page.relative_to(DOCS))):
        compile(block, str(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_commands_in_pages_exist(page: Any) -> None:
    """In blocks of shell commands; a command that is coming is named in the text of the landing page alone."""
    root = typer.main.get_command(app)
    for block in _blocks("(?:sh|bash|text)?", str(page.relative_to(DOCS))):
        for words in re.findall(r"^streamtune +([a-z]+)(?: +([a-z-]+))?", block, re.MULTILINE):
            assert words[0] in _names(root), f"streamtune {words[0]}"
            inner = _names(root.commands[words[0]])  # type: ignore[attr-defined]
            assert not inner or words[1] in inner, f"streamtune {' '.join(words)}"


def test_the_landing_page_says_truly_what_is_there() -> None:
    """A row that says yes names commands that exist; one that says coming, a first command that does not."""
    there = _names(typer.main.get_command(app))
    rows = [line.split(" | ") for line in (DOCS / "index.md").read_text().splitlines() if "`streamtune " in line]
    for _, commands, today in (row for row in rows if len(row) == 3):
        named = re.findall(r"`streamtune ([a-z]+)", commands)
        if today.startswith("yes"):
            assert set(named) <= there, f"{named} are said to be there"
        else:
            assert today.startswith("coming")
            assert not set(named) & there, f"{named} are there: say yes on docs/index.md"
            assert set(re.findall(r"`streamtune ([a-z]+)", today)) <= there
