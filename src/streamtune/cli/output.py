"""What commands print: results on stdout, everything else on stderr, so that pipes stay clean.

Names come from users and from Flink jobs, so no text is ever taken for markup, and control characters, with which a
name could move the cursor or retitle a terminal, do not reach it. What shall have a style is a ``Text``: ``styled``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.table import Table
from rich.text import Text

from streamtune.outputs import redacted

# C0 without tab and newline, DEL, C1, and what turns the direction of writing round.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: object) -> str:
    """Text that a terminal shows and does not obey.

    >>> plain("a\\x1b[31mb")
    'a�[31mb'
    """
    return redacted(_CONTROL.sub("�", str(text)))


class SafeConsole(Console):
    """A console that takes every string as it is: no markup, no emoji codes, no control characters."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """All strings, in tables and titles too, are rendered here."""
        return super().render_str(plain(text), **{**options, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """All that is printed comes by here: paths, other objects and a ready-made ``Text`` are no strings above."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))

    def status(self, status: Any, **options: Any) -> Status:
        """A spinner; Rich would read markup in its text."""
        return _SafeStatus(status, console=self, **options)


class _SafeStatus(Status):
    def __init__(self, status: Any, **options: Any) -> None:
        super().__init__(_as_text(status), **options)

    def update(self, status: Any = None, **options: Any) -> None:
        super().update(None if status is None else _as_text(status), **options)


out = SafeConsole()
err = SafeConsole(stderr=True)


def styled(*parts: str | tuple[object, str]) -> Text:
    """Text of which some parts have a style: ``styled(("error:", "red"), f" {problem}")``."""
    return Text.assemble(*(plain(part) if isinstance(part, str) else (plain(part[0]), part[1]) for part in parts))


def print_error(problem: object) -> None:
    """What a user can fix, on one line."""
    err.print(styled(("error:", "red"), f" {problem}"), highlight=False, soft_wrap=True)


def operator_table(title: str, *headings: str) -> Table:
    """A table whose first column, the operator's name, stays readable however narrow the terminal is.

    The name is folded and never cut to nothing; the other columns give way.
    """
    table = Table(title=title)
    table.add_column("operator", overflow="fold", min_width=10)
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="left" if heading in _WORDS else "right")
    return table


_WORDS = frozenset({"type", "why", "features", "inputs", "window", "aggregate", "read from"})


def print_json(value: Any) -> None:
    """One JSON document on stdout; what is infinite or no number is null, since JSON has neither."""
    print(redacted(json.dumps(_finite(value), indent=2, allow_nan=False)))


def _finite(value: Any) -> Any:
    """
    >>> _finite({"error": float("inf"), "at": (1.5, float("nan"))})
    {'error': None, 'at': [1.5, None]}
    """
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def share(value: float) -> str:
    """A share as percent."""
    return f"{100 * value:.0f} %"


def _as_text(text: Any) -> Text:
    return text if isinstance(text, Text) else Text(plain(text))
