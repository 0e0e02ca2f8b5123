"""What a controller observes, as records of the history: one observation, one store."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

from streamtune.control.controller import Moment
from streamtune.dataflow import Job, Run
from streamtune.dataflow.run_files import RunFiles


class RunRecorder:
    """Writes every complete observation of one job to a folder that ``streamtune history ingest`` reads.

    ``watch`` takes the place of a controller's watcher and passes every moment on.
    """

    def __init__(
        self, folder: Path, job: Job, engine: str, watch: Callable[[Moment], None] = lambda _moment: None
    ) -> None:
        self._files = RunFiles(folder, "--history")
        self._job = job
        self._engine = engine
        self._watch = watch
        self._session = uuid.uuid4().hex[:12]
        self.written = 0

    def watch(self, moment: Moment) -> None:
        seen = moment.observation
        if seen is not None and set(seen.operators) == set(self._job.dataflow.index):
            self.written += 1
            run_id = f"{self._engine}-{self._session}-{self.written}"
            self._files.write([Run.of(run_id, self._job, self._engine, seen)])
        self._watch(moment)
