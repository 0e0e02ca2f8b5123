"""What an emulated job publishes about itself, so that whoever attaches to it knows its operators and its rates."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from streamtune.errors import EngineError

JOB_PARAMETER = "streamtune.job"
RATES_PARAMETER = "streamtune.rates_file"


def write_rates(path: Path, rates: Mapping[str, float]) -> None:
    """Offer other rates to a running job; written atomically, so that no source ever reads half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f"{path.name}.{os.getpid()}.new")
        scratch.write_text(json.dumps(dict(rates)))
        scratch.replace(path)
    except OSError as error:
        raise EngineError(f"the rates of the job cannot be written to {path}: {error.strerror}") from error


def read_rates(path: Path) -> dict[str, float] | None:
    """The rates on offer; None where the file cannot be read, for instance on another machine."""
    try:
        rates = json.loads(path.read_text())
        return {str(source): float(rate) for source, rate in rates.items()}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return None
