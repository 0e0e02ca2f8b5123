"""The tuners that policies ask for, with the model that is running."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamtune.dataflow import Job
from streamtune.service.settings import Policy
from streamtune.service.store import Store
from streamtune.settings import Settings
from streamtune.tuners import check_tuner, make_tuner
from streamtune.tuners.base import Tuner


class Tuners:
    """Makes tuners. A bundle is loaded once; which model is running is asked of the store, not for every job."""

    def __init__(
        self,
        store: Store,
        *,
        memory: Path | None = None,
        settings: Callable[[str], Settings | None] = lambda _name: None,
    ) -> None:
        self._store = store
        self._memory = memory
        self._settings = settings
        self._bundles: dict[Path, Any] = {}
        self._lock = threading.Lock()
        self._running: tuple[str, Path] | None = None
        self.refresh()

    def use(self, settings: Callable[[str], Settings | None]) -> None:
        """Settings of tuners that were read anew; tuners that are made from now on have them."""
        self._settings = settings

    def refresh(self) -> None:
        """Look which model is running."""
        row = self._store.models.running()
        self._running = None if row is None else (row.version, row.path)

    def version(self, policy: Policy) -> str | None:
        if policy.model is not None:
            return Path(policy.model).name
        return None if self._running is None else self._running[0]

    def make(self, policy: Policy, job: Job) -> Tuner:
        path = Path(policy.model) if policy.model is not None else None if self._running is None else self._running[1]
        check_tuner(policy.tuner, has_model=path is not None)
        model = None if path is None else self._assigned(path, job)
        settings = self._settings(policy.tuner)
        return make_tuner(policy.tuner, job, model=model, state=self._memory, settings=settings)

    def _assigned(self, path: Path, job: Job) -> Any:
        from streamtune.models.assigned import AssignedModel
        from streamtune.models.bundle import ModelBundle

        with self._lock:
            if path not in self._bundles:
                self._bundles[path] = ModelBundle.load(path)
            return AssignedModel.of(self._bundles[path], job)
