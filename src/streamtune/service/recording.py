"""What the service observes, as files of runs that ``streamtune history ingest`` and ``streamtune learn`` read."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from streamtune.dataflow import Job, Observation, Run
from streamtune.dataflow.run_files import RunFiles
from streamtune.errors import StreamTuneError
from streamtune.service.views import HistoryDay, HistoryView, Quarantine, QuarantineReason

log = logging.getLogger("streamtune.service")

_MOST_WAITING = 20_000
SUMMARY = "history.json"


class HistoryWriter:
    """Gathers runs of all jobs, and writes one file of them a minute: few files, each whole from its first moment."""

    def __init__(self, folder: Path, every_s: float = 60.0) -> None:
        self.folder = folder
        self._files = RunFiles(folder, "service.data")
        self._every_s = every_s
        self._lock = threading.Lock()
        self._waiting: list[Run] = []
        self._session = uuid.uuid4().hex[:12]
        self._number = 0
        self._written = time.monotonic()

    def record(self, job: Job, engine: str, seen: Observation) -> None:
        """Keep one observation."""
        with self._lock:
            self._number += 1
            self._waiting.append(Run.of(f"{engine}-{self._session}-{self._number}", job, engine, seen))
            due = time.monotonic() - self._written >= self._every_s
        if due:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting; where that fails it waits on, the oldest going first when there is too much."""
        with self._lock:
            runs, self._waiting = self._waiting, []
            self._written = time.monotonic()
        try:
            self._files.write(runs)
        except StreamTuneError as error:
            log.error("the history cannot be written", extra={"error": str(error)})
            with self._lock:
                self._waiting = [*runs, *self._waiting][-_MOST_WAITING:]


class HistoryReader:
    """What there is to learn from: what ``learn`` has ingested, by its summary, and the files that wait for it."""

    def __init__(self, data: Path) -> None:
        self._runs = data / "runs"
        self._summary = data / SUMMARY
        self._counted: dict[str, Counter[tuple[str, str]]] = {}
        self._lock = threading.Lock()

    def view(self) -> HistoryView:
        known = self._known()
        days: Counter[tuple[str, str]] = Counter()
        for day in known.get("days", []):
            days[(day["day"], day["engine"])] += int(day["runs"])
        ingested = set(known.get("files", []))
        with self._lock:
            files = sorted(self._runs.glob("runs-*.jsonl")) if self._runs.is_dir() else []
            for file in files:
                if file.name not in ingested:
                    if file.name not in self._counted:
                        self._counted[file.name] = _count(file)
                    days += self._counted[file.name]
        reasons = [QuarantineReason.model_validate(one) for one in known.get("reasons", [])]
        return HistoryView(
            days=[HistoryDay(day=day, engine=engine, runs=runs) for (day, engine), runs in sorted(days.items())],
            quarantine=Quarantine(total=int(known.get("rejected", 0)), reasons=reasons),
        )

    def _known(self) -> dict[str, Any]:
        try:
            found = json.loads(self._summary.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def _count(file: Path) -> Counter[tuple[str, str]]:
    """Runs of a file by day and engine; a line that is damaged is left to the ingestion."""
    found: Counter[tuple[str, str]] = Counter()
    try:
        for line in file.read_bytes().splitlines():
            run = json.loads(line)
            found[(str(run["observed_at"])[:10], str(run["engine"]))] += 1
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return found
