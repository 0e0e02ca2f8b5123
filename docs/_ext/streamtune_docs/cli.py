"""The command line page: what ``--help`` prints for every command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

WIDTH = 110


def page() -> str:
    """One heading per command, its help below."""
    from streamtune.cli import app

    return "\n\n".join(_sections(_context(typer.main.get_command(app), "streamtune", None), depth=2))


def _context(command: Any, name: str, parent: Any) -> Any:
    """What ``--help`` would be printed in, at a fixed width: a context of the click that typer brings."""
    return command.make_context(name, [], parent, resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH)


def _sections(context: Any, depth: int) -> Iterator[str]:
    command = context.command
    yield f"{'#' * min(depth, 4)} {context.command_path}"
    yield f"```text\n{command.get_help(context).rstrip()}\n```"
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        child = command.get_command(context, name)
        if child is not None and not child.hidden:
            yield from _sections(_context(child, name, context), depth + 1)
