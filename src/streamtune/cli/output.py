"""What commands print: results on stdout, everything else on stderr, so that pipes stay clean."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

out = Console()
err = Console(stderr=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, indent=2))


def share(value: float) -> str:
    """A share as percent."""
    return f"{100 * value:.0f} %"
