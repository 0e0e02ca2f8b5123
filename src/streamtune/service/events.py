"""Live changes, for server-sent events: a short memory, so that a client that comes back misses nothing."""

from __future__ import annotations

import itertools
import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel

_KEPT = 4000


@dataclass(frozen=True)
class Event:
    """One change."""

    id: int
    kind: str
    data: str


class Events:
    """Publishes from any thread; listeners are called in it and must not block.

    >>> events = Events()
    >>> seen = []
    >>> leave = events.listen(seen.append)
    >>> events.publish("service", {"counts": {}})
    >>> leave()
    >>> seen[0].kind, len(events.since(seen[0].id - 1))
    ('service', 1)
    """

    def __init__(self, first: int = 1) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(first)
        self._past: deque[Event] = deque(maxlen=_KEPT)
        self._listeners: set[Callable[[Event], None]] = set()

    def publish(self, kind: str, content: BaseModel | dict[str, object]) -> None:
        text = (
            content.model_dump_json(by_alias=True)
            if isinstance(content, BaseModel)
            else json.dumps(content, default=str)
        )
        with self._lock:
            event = Event(next(self._numbers), kind, text)
            self._past.append(event)
            listeners = list(self._listeners)
        for listener in listeners:
            listener(event)

    def since(self, last: int) -> list[Event]:
        """What came after an event; all that is remembered where that one is forgotten."""
        with self._lock:
            return [event for event in self._past if event.id > last]

    @property
    def listening(self) -> int:
        return len(self._listeners)

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Be told of all that comes; returns how to leave."""
        with self._lock:
            self._listeners.add(listener)

        def leave() -> None:
            with self._lock:
                self._listeners.discard(listener)

        return leave
