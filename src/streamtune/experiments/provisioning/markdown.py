"""Tables of the page of figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """
    >>> print(table(["rival", "minutes"], [["ds2", 3]]), end="")
    | rival | minutes |
    | --- | --- |
    | ds2 | 3 |
    """
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"
