"""Live changes as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Header, Request
from sse_starlette import EventSourceResponse, ServerSentEvent

from streamtune.service.api.jobs import Service
from streamtune.service.errors import RequestError
from streamtune.service.events import Event

router = APIRouter(prefix="/api/v1", tags=["service"])

# A listener that does not keep up is cut off; it comes back with the id of the last event that it has.
_QUEUE = 2000


@router.get("/events", response_class=EventSourceResponse)
async def listen(
    service: Service, request: Request, last_event_id: str | None = Header(default=None)
) -> EventSourceResponse:
    """Events ``job``, ``decision`` and ``service``; with ``Last-Event-ID`` goes on where a client left."""
    events, limit = service.context.events, service.context.settings.api.events_clients
    if events.listening >= limit:
        raise RequestError(429, "listeners", f"{limit} clients listen already", "try again later")
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[Event | None](_QUEUE)

    def put(event: Event) -> None:
        def now() -> None:
            if queue.full():
                leave()
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(None)
            else:
                queue.put_nowait(event)

        loop.call_soon_threadsafe(now)

    leave = events.listen(put)
    known = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else None

    async def stream() -> AsyncIterator[ServerSentEvent]:
        sent = known or 0
        try:
            for event in [] if known is None else events.since(known):
                sent = event.id
                yield ServerSentEvent(event.data, event=event.kind, id=str(event.id))
            while not await request.is_disconnected():
                found = await queue.get()
                if found is None:
                    return
                if found.id > sent:
                    yield ServerSentEvent(found.data, event=found.kind, id=str(found.id))
        finally:
            leave()

    return EventSourceResponse(stream(), ping=15)
