"""The list of commands in ``streamtune --help``, by the question that each answers; plain text, so that pipes work."""

from __future__ import annotations

from typing import Any, ClassVar

from typer.core import TyperGroup

_LONGEST = 120


class GroupedByQuestion(TyperGroup):
    """A group whose help has one heading per panel, in the order of ``questions``."""

    questions: ClassVar[tuple[str, ...]] = ()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write commands under the headings of their panels."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.commands:
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                panel = getattr(command, "rich_help_panel", None)
                heading = panel if isinstance(panel, str) else "Commands"
                panels.setdefault(heading, []).append((name, command.get_short_help_str(_LONGEST)))
        for heading in sorted(panels, key=lambda one: self.questions.index(one) if one in self.questions else 99):
            rows = panels[heading]
            with formatter.section(heading):
                formatter.write_dl(rows)
