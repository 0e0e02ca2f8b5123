"""Messages to webhooks that wait to be sent: they outlive a crash."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, insert, select, update

from streamtune.service.store.database import Database
from streamtune.service.store.tables import outbox


@dataclass(frozen=True)
class Message:
    """One event for one address."""

    id: str
    url: str
    event: str
    body: str
    attempts: int
    time: datetime


class OutboxTable:
    """Messages by the time of their next try."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, url: str, event: str, body: str, now: datetime) -> str:
        message_id = uuid.uuid4().hex
        values = {"id": message_id, "time": now, "url": url, "event": event, "body": body, "attempts": 0}
        with self._database.write() as connection:
            connection.execute(insert(outbox).values(**values, next_try=now, state="waiting"))
        return message_id

    def due(self, now: datetime, limit: int = 20) -> list[Message]:
        which = (outbox.c.state == "waiting") & (outbox.c.next_try <= now)
        query = select(outbox).where(which).order_by(outbox.c.next_try).limit(limit)
        with self._database.read() as connection:
            return [
                Message(row.id, row.url, row.event, row.body, row.attempts, row.time)
                for row in connection.execute(query)
            ]

    def sent(self, message: Message) -> None:
        self._set(message, state="sent", error=None)

    def failed(self, message: Message, error: str, next_try: datetime | None) -> None:
        """Try again later, or never where there is no next time."""
        if next_try is None:
            self._set(message, state="given_up", error=error)
        else:
            self._set(message, next_try=next_try, error=error)

    def waiting(self) -> int:
        query = select(func.count()).select_from(outbox).where(outbox.c.state == "waiting")
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def _set(self, message: Message, **values: object) -> None:
        values["attempts"] = message.attempts + 1
        with self._database.write() as connection:
            connection.execute(update(outbox).where(outbox.c.id == message.id).values(**values))
