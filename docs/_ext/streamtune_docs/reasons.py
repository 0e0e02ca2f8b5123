"""The reasons for which a run is rejected, as a table."""

from __future__ import annotations

from streamtune.history.reasons import DESCRIPTIONS, TOLERABLE


def table() -> str:
    """In the order in which the code lists them."""
    rows = ["| reason | meaning | can be tolerated |", "| --- | --- | --- |"]
    rows += [f"| `{name}` | {text} | {'yes' if name in TOLERABLE else ''} |" for name, text in DESCRIPTIONS.items()]
    return "\n".join(rows)
