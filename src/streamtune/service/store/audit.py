"""The audit trail: who changed what, when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select

from streamtune.service.store.database import Database
from streamtune.service.store.tables import audit
from streamtune.service.views import AuditEntry


class AuditTable:
    """Entries are added and read, and go when they are too old; nothing changes them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, now: datetime, who: str, what: str, target: str, detail: Mapping[str, Any] | None = None) -> None:
        values = {"time": now, "who": who, "what": what, "target": target, "detail": dict(detail or {})}
        with self._database.write() as connection:
            connection.execute(insert(audit).values(**values))

    def newest(self, limit: int) -> list[AuditEntry]:
        query = select(audit).order_by(audit.c.number.desc()).limit(limit)
        with self._database.read() as connection:
            return [
                AuditEntry(time=row.time, who=row.who, what=row.what, target=row.target, detail=row.detail)
                for row in connection.execute(query)
            ]
