"""What the guides tell people to write works, and commands that they name are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
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
def test_python_in_pages_is_python(page: Path) -> None:
    for block in _blocks("python", str(page.relative_to(DOCS))):
        compile(block, str(page), "exec")


@cache
def _root() -> Any:
    return typer.main.get_command(app)


def _commands(page: Path) -> Iterator[list[str]]:
    """Words of every command in the page's blocks of shell commands."""
    for block in _blocks("(?:sh|bash)", str(page.relative_to(DOCS))):
        for line in block.replace("\\\n", " ").splitlines():
            for command in line.split("&&"):
                words = shlex.split(command, comments=True)
                if words[:1] == ["streamtune"]:
                    yield words[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_commands_and_options_in_pages_exist(page: Path) -> None:
    """In blocks of shell commands; a command that is coming is named in the text of the landing page alone."""
    for words in _commands(page):
        command, rest = _root(), list(words)
        if rest[:1] == ["--config"]:
            rest = rest[2:]
        while hasattr(command, "commands"):
            assert rest, f"streamtune {' '.join(words)} names a group without a command"
            assert rest[0] in command.commands, f"streamtune {' '.join(words)}"
            command = command.commands[rest.pop(0)]
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        unknown = [word for word in rest if word.startswith("--") and word.partition("=")[0] not in options]
        assert not unknown, f"streamtune {' '.join(words)} has no {unknown[0]}"


def test_the_landing_page_says_truly_what_is_there() -> None:
    """A row that says yes names commands that exist; one that says coming, a first command that does not."""
    there = _names(_root())
    rows = [line.split(" | ") for line in (DOCS / "index.md").read_text().splitlines() if "`streamtune " in line]
    for _, commands, today in (row for row in rows if len(row) == 3):
        named = re.findall(r"`streamtune ([a-z]+)", commands)
        if today.startswith("yes"):
            assert set(named) <= there, f"{named} are said to be there"
        else:
            assert today.startswith("coming")
            assert not set(named) & there, f"{named} are there: say yes on docs/index.md"
            assert set(re.findall(r"`streamtune ([a-z]+)", today)) <= there
