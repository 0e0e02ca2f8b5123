"""One instance of an operator: its queue, its progress in event time, its counters. No Timely in here either.

The behaviour is Timely's: whatever arrives is queued without bound, an instance works a short turn and gives its
worker back. Progress travels as marks, one per epoch and channel: "nothing before this moment comes from me any more".
"""

from __future__ import annotations

import bisect
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamtune.dataflow.operator import Partitioning
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.engines.timely.operators import Core
from streamtune.engines.timely.records import Record, Selectivities, mix
from streamtune.engines.timely.service import ServiceClock

END_US = 1 << 62


@dataclass(slots=True)
class Message:
    """Records from one instance to another, or a mark when there are none."""

    target: int  # which instance of the receiving operator
    channel: int  # which instance it comes from, unique among all
    side: int  # which input of a join it is
    records: list[Record]
    keys: list[int]
    mark_us: int = -1


# Receiving operator, key that leads to the worker of the receiving instance, message.
Addressed = tuple[str, str, Message]


class Route:
    """From one instance to all instances of one successor."""

    def __init__(
        self,
        target: str,
        partitioning: Partitioning,
        doors: Sequence[str],
        physics: OperatorPhysics,
        selectivities: Selectivities,
        *,
        channel: int,
        own_index: int,
        side: int,
        key_salt: int,
    ) -> None:
        self.target, self.channel, self.side = target, channel, side
        self._doors, self._selectivities, self._salt = doors, selectivities, key_salt
        self._partitioning = partitioning
        self._own_index = own_index
        self._turns = itertools.cycle(range(len(doors)))
        self._bounds = hash_bounds(physics, len(doors))

    def send(self, records: Sequence[Record]) -> list[Addressed]:
        """The records, in one message per instance that gets any."""
        size = self._selectivities.keys.get(self.target)
        batches: dict[int, tuple[list[Record], list[int]]] = {}
        choose, key_salt, bounds = self._chooser(size), self._salt, self._bounds
        for record in records:
            key = mix(record[0] ^ key_salt) % size if size else 0
            chosen = bisect.bisect_right(bounds, (key + 0.5) / size) if choose is None and size else -1
            for index in (chosen,) if choose is None else choose():
                batch = batches.get(index)
                if batch is None:
                    batch = batches[index] = ([], [])
                batch[0].append(record)
                batch[1].append(key)
        return [
            (self.target, self._doors[index], Message(index, self.channel, self.side, taken, keys))
            for index, (taken, keys) in batches.items()
        ]

    def _chooser(self, size: int | None) -> Callable[[], Sequence[int]] | None:
        """How instances are picked; None means by key."""
        everybody = range(len(self._doors))
        if self._partitioning == "broadcast":
            return lambda: everybody
        if self._partitioning == "forward" and self._own_index in everybody:
            own = (self._own_index,)
            return lambda: own
        if self._partitioning == "hash" and size:
            return None
        return lambda: (next(self._turns),)

    def mark(self, mark_us: int) -> list[Addressed]:
        """The news of progress, to every instance."""
        return [
            (self.target, door, Message(index, self.channel, self.side, [], [], mark_us))
            for index, door in enumerate(self._doors)
        ]


def hash_bounds(physics: OperatorPhysics, parallelism: int) -> list[float]:
    """Where the key range of each instance ends, but for the last: the first gets more, as the skew says.

    >>> hash_bounds(OperatorPhysics(service_us=1), 4)
    [0.25, 0.5, 0.75]
    >>> hash_bounds(OperatorPhysics(service_us=1, skew=1.0), 2)
    [0.75]
    """
    hottest = min(1.0, physics.hot_factor(parallelism) / parallelism)
    others = (1 - hottest) / max(1, parallelism - 1)
    return [hottest + others * index for index in range(parallelism - 1)]


class Instance:
    """One instance: takes messages, works in turns, gives addressed messages."""

    def __init__(
        self,
        core: Core,
        clock: ServiceClock,
        fire_share: float,
        channels: Sequence[int],
        routes: Sequence[Route],
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self._core, self._clock, self._routes = core, clock, routes
        self._fire_share = fire_share
        self._unfired = 0.0
        self._progress = dict.fromkeys(channels, 0)
        self._frontier_us = 0
        self._reached_us: int | None = None
        self._queue: deque[Message] = deque()
        self._position = 0
        self._held: list[Addressed] = []
        self._on_progress = on_progress
        self.taken = 0
        self.given = 0
        self.arrived = 0

    @property
    def busy_s(self) -> float:
        return self._clock.busy_s

    @property
    def waiting(self) -> int:
        """Records that arrived and were not taken yet."""
        return self.arrived - self.taken

    @property
    def wants_a_turn(self) -> bool:
        return bool(self._queue or self._held) or self._reached_us is not None

    def accept(self, message: Message) -> None:
        self._queue.append(message)
        self.arrived += len(message.records)

    def work(self) -> list[Addressed]:
        """One turn: as many records as fit into it; what they give leaves when their service is delivered."""
        began_s = self._clock.begin()
        results: list[Record] = []
        room = self._clock.room()
        while self._queue and room > 0:
            message = self._queue[0]
            if message.mark_us >= 0:
                self._queue.popleft()
                self._note_mark(message, results)
                room = min(room, self._clock.room())
            else:
                room -= self._take(message, room, results)
        self._pass_on(results)
        self._clock.end(began_s, more_waits=bool(self._queue))
        if self._clock.is_behind:
            return []
        if self._reached_us is not None and self._on_progress is not None:
            self._on_progress(self._reached_us)
        self._reached_us = None
        leaving, self._held = self._held, []
        return leaving

    def _take(self, message: Message, room: int, results: list[Record]) -> int:
        """Take up to ``room`` records of the first message; how many."""
        start = self._position
        stop = min(len(message.records), start + room)
        take, side = self._core.take, message.side
        for record, key in zip(message.records[start:stop], message.keys[start:stop], strict=True):
            take(record, key, side, results)
        count = stop - start
        self.taken += count
        self._clock.serve(count * (1 - self._fire_share))
        self._unfired += count * self._fire_share
        if stop == len(message.records):
            self._queue.popleft()
            self._position = 0
        else:
            self._position = stop
        return count

    def _note_mark(self, message: Message, results: list[Record]) -> None:
        self._progress[message.channel] = message.mark_us
        frontier_us = min(self._progress.values())
        if frontier_us <= self._frontier_us:
            return
        self._frontier_us = frontier_us
        if self._core.advance(frontier_us, results):
            self._clock.serve(self._unfired)
            self._unfired = 0.0
        self._pass_on(results)
        results.clear()
        for route in self._routes:
            self._held += route.mark(frontier_us)
        self._reached_us = frontier_us

    def _pass_on(self, results: Sequence[Record]) -> None:
        if results:
            self.given += len(results)
            for route in self._routes:
                self._held += route.send(results)
