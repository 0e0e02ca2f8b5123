"""Pictures in files: exactly the file that was asked for, whole or not at all."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from streamtune.outputs import write_whole


def save_picture(figure: Any, path: Path, *, dpi: int, **options: Any) -> None:
    """Write a matplotlib figure; the suffix of the file says the format."""
    drawn = BytesIO()
    figure.savefig(drawn, dpi=dpi, format=path.suffix.lstrip(".").lower(), **options)
    write_whole(path, drawn.getvalue())
