"""Whether a folder can be a model at all, told from its manifest alone: nothing heavy is loaded to refuse a typo."""

from __future__ import annotations

import json
from pathlib import Path

from streamtune.errors import StreamTuneError
from streamtune.sealed import MANIFEST
from streamtune.signatures import check_signature

MODEL_FORMAT = "streamtune-model"
COST_MODEL_FORMAT = "streamtune-cost-model"


def check_model(path: Path | None) -> None:
    """Refuse what is not a model bundle.

    >>> check_model(Path("nope"))
    Traceback (most recent call last):
    streamtune.errors.StreamTuneError: nope is not a model bundle: it has no manifest.json. Make one with ...
    """
    _check(path, MODEL_FORMAT, "model bundle", "streamtune pretrain")


def check_cost_model(path: Path | None) -> None:
    """Refuse what is not a cost model."""
    _check(path, COST_MODEL_FORMAT, "cost model", "streamtune costmodel train")


def _check(path: Path | None, format_name: str, what: str, maker: str) -> None:
    if path is None:
        return
    file = path / MANIFEST
    advice = f"Make one with '{maker}'"
    try:
        if not file.is_file():
            raise StreamTuneError(f"{path} is not a {what}: it has no {MANIFEST}. {advice}")
        content = file.read_bytes()
        check_signature(path, MANIFEST, content)
        manifest = json.loads(content.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "it is not valid JSON"
        raise StreamTuneError(f"{file} is damaged or cannot be read: {why}. Restore it. {advice}") from error
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != format_name:
        raise StreamTuneError(f"{path} is not a {what}: its format is {found!r}, not '{format_name}'. {advice}")
