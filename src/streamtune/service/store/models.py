"""Models by version: one of them at most is the running one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select, update

from streamtune.service.errors import RequestError
from streamtune.service.store.database import Database
from streamtune.service.store.tables import audit, models
from streamtune.service.views import ModelView


@dataclass(frozen=True)
class ModelRow:
    """One model: where its bundle is, what it was learnt from, how good it is."""

    version: str
    created: datetime
    path: Path
    data: Mapping[str, Any]
    scores: Mapping[str, float | None]
    status: str
    compared_with: str | None
    changed: str

    def view(self) -> ModelView:
        plain = {name: getattr(self, name) for name in ModelView.model_fields}
        return ModelView.model_validate(plain)


class ModelTable:
    """The register of models."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, model: ModelRow, *, promote: bool = False, who: str | None = None) -> None:
        """Add a model, let it run if it is to, and say so in the audit trail: all of it or nothing."""
        plain = {**model.__dict__, "path": str(model.path), "data": dict(model.data), "scores": dict(model.scores)}
        with self._database.write() as connection:
            connection.execute(insert(models).values(**plain, promoted=None))
            if promote:
                _run(connection, model.version, model.created)
            if who is not None:
                said = {"what": "model_promoted" if promote else "model_rejected", "target": model.version}
                detail = {"reason": model.changed}
                connection.execute(insert(audit).values(time=model.created, who=who, detail=detail, **said))

    def all(self) -> list[ModelRow]:
        with self._database.read() as connection:
            return [_model(row) for row in connection.execute(select(models).order_by(models.c.created.desc()))]

    def get(self, version: str) -> ModelRow | None:
        with self._database.read() as connection:
            row = connection.execute(select(models).where(models.c.version == version)).one_or_none()
        return None if row is None else _model(row)

    def running(self) -> ModelRow | None:
        with self._database.read() as connection:
            row = connection.execute(select(models).where(models.c.status == "running")).one_or_none()
        return None if row is None else _model(row)

    def promote(self, version: str, now: datetime) -> None:
        """Let a model run; the one that ran before is kept to go back to."""
        with self._database.write() as connection:
            found = connection.execute(select(models.c.status).where(models.c.version == version)).scalar_one_or_none()
            if found is None:
                raise RequestError(404, "no_model", f"no model '{version}'", "reload the page")
            if found == "running":
                raise RequestError(409, "running", f"model '{version}' is running already", "choose another one")
            _run(connection, version, now)

    def roll_back(self, now: datetime) -> str:
        """Back to the model that ran before; returns its version."""
        with self._database.write() as connection:
            before = (models.c.status == "retired") & models.c.promoted.is_not(None)
            query = select(models.c.version).where(before).order_by(models.c.promoted.desc()).limit(1)
            version = connection.execute(query).scalar_one_or_none()
            if version is None:
                raise RequestError(409, "no_earlier", "no model ran before this one", "promote another one instead")
            current = models.c.status == "running"
            connection.execute(update(models).where(current).values(promoted=None))  # not to be rolled back to
            _run(connection, str(version), now)
            return str(version)


def _run(connection: Connection, version: str, now: datetime) -> None:
    connection.execute(update(models).where(models.c.status == "running").values(status="retired"))
    connection.execute(update(models).where(models.c.version == version).values(status="running", promoted=now))


def _model(row: Any) -> ModelRow:
    return ModelRow(
        row.version, row.created, Path(row.path), row.data, row.scores, row.status, row.compared_with, row.changed
    )
