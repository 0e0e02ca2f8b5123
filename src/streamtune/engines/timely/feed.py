"""A source instance: records that are due by the clock, and a mark at the end of every epoch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from streamtune.engines.timely.instance import END_US, Addressed, Route
from streamtune.engines.timely.records import SECOND_US, Copies, Record, source_record
from streamtune.engines.timely.service import ServiceClock


class Timebase:
    """Event time is time since the start of the job; the start lies a little ahead, so that all workers are up."""

    def __init__(self, lead_s: float) -> None:
        self._start_s = time.monotonic() + lead_s

    def now_us(self) -> int:
        return int((time.monotonic() - self._start_s) * SECOND_US)


class Feed:
    """Every p-th record of a source, from number ``index`` on. Falls behind the clock when its service takes too long.

    ``last`` ends the stream after that many records of the whole source; then everything is complete.
    """

    def __init__(
        self,
        source: str,
        index: int,
        parallelism: int,
        rates: Mapping[str, float],
        clock: ServiceClock,
        copies: Copies,
        routes: Sequence[Route],
        *,
        source_salt: int,
        epoch_us: int,
        last: int | None = None,
    ) -> None:
        self._source, self._parallelism, self._rates = source, parallelism, rates
        self._clock, self._copies, self._routes = clock, copies, routes
        self._salt, self._epoch_us, self._last = source_salt, epoch_us, last
        self._number = index
        self._rate = rates[source]
        # The schedule: record number `_first` is due at `_since_us`, the others follow at the rate.
        self._first, self._since_us = 0, 0.0
        self._next_mark_us = epoch_us
        self.taken = 0
        self.given = 0
        self._now_us = 0

    @property
    def busy_s(self) -> float:
        return self._clock.busy_s

    @property
    def waiting(self) -> int:
        """Records that are due and were not sent yet."""
        if self._rate <= 0 or self._is_over:
            return 0
        return max(0, int((self._now_us - self._next_us) * self._rate / SECOND_US / self._parallelism))

    @property
    def _next_us(self) -> float:
        """When the next record is due."""
        return self._since_us + (self._number - self._first) * SECOND_US / self._rate

    @property
    def _is_over(self) -> bool:
        return self._last is not None and self._number >= self._last

    def poll(self, now_us: int) -> list[Addressed]:
        """What is due by now, as far as the turn's service allows."""
        began_s = self._clock.begin()
        self._now_us = now_us
        self._follow_the_rate(now_us)
        sent: list[Addressed] = []
        room = self._clock.room()
        while room > 0:
            records, copied = self._due(min(now_us, self._next_mark_us), room)
            room -= len(records)
            self.taken += len(records)
            self.given += len(copied)
            self._clock.serve(len(records))
            for route in self._routes:
                sent += route.send(copied)
            if room <= 0 or not self._mark(now_us, sent):
                break
        self._clock.end(began_s, more_waits=self.waiting > 0)
        return sent

    def _follow_the_rate(self, now_us: int) -> None:
        rate = self._rates[self._source]
        if rate != self._rate:
            self._since_us = self._next_us if self._rate > 0 else float(now_us)
            self._first, self._rate = self._number, rate

    def _due(self, until_us: int, room: int) -> tuple[list[Record], list[Record]]:
        """The records before a moment, and their copies."""
        records: list[Record] = []
        copied: list[Record] = []
        if self._rate <= 0:
            return records, copied
        while (time_us := self._next_us) < until_us and len(records) < room and not self._is_over:
            record = source_record(self._salt, self._number, int(time_us))
            records.append(record)
            self._copies.emit(record, copied)
            self._number += self._parallelism
        return records, copied

    def _mark(self, now_us: int, sent: list[Addressed]) -> bool:
        """End an epoch if all its records are out; whether another one may follow."""
        if self._is_over:
            if self._next_mark_us == END_US:
                return False
            self._next_mark_us = END_US
            self._send_mark(END_US, sent)
            return False
        complete = self._rate <= 0 or self._next_us >= self._next_mark_us
        if now_us < self._next_mark_us or not complete:
            return False
        self._send_mark(self._next_mark_us, sent)
        self._next_mark_us += self._epoch_us
        return True

    def _send_mark(self, mark_us: int, sent: list[Addressed]) -> None:
        for route in self._routes:
            sent += route.mark(mark_us)
