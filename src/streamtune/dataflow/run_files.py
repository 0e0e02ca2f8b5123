"""Runs written down as JSON lines, for ``streamtune history ingest`` to read."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streamtune.dataflow.run import Run
from streamtune.errors import StreamTuneError
from streamtune.outputs import sweep_unfinished, unfinished_file


class RunFiles:
    """Writes each batch of runs as one new file, whole from its first moment: what is there can be ingested."""

    def __init__(self, folder: Path, option: str = "--out") -> None:
        self._folder = folder
        self._option = option
        try:
            folder.mkdir(parents=True, exist_ok=True)
            sweep_unfinished(folder, "runs-*.jsonl")
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, runs: Sequence[Run]) -> Path | None:
        """The new file; None where there was nothing to write."""
        if not runs:
            return None
        lines = "".join(f"{json.dumps(_without_nan(run.to_record()), allow_nan=False)}\n" for run in runs)
        first = min(run.observed_at for run in runs).strftime("%Y%m%dT%H%M%S%f")
        name = f"runs-{first}-{uuid.uuid4().hex[:8]}.jsonl"
        scratch = unfinished_file(self._folder / name)
        try:
            scratch.write_text(lines, encoding="utf-8")
            return scratch.replace(self._folder / name)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StreamTuneError:
        return StreamTuneError(
            f"{self._folder} cannot be written: {error.strerror}. Choose another {self._option} folder"
        )


def _without_nan(value: Any) -> Any:
    """What was not measured is null in a record: JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
