"""What a real Flink job lives through, by its own counters: kept beside the tuners and known to none of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamtune.dataflow import BACKPRESSURE_SHARE
from streamtune.engines.flink.polling import state_of
from streamtune.engines.flink.responses import JobDetails

_Totals = dict[str, tuple[float, float]]  # vertex → its subtasks' clocks together, and what of it was backpressured


@dataclass
class FlinkBooks:
    """Backpressured, down and instance-seconds of one job, from looks at it every second or so.

    The time between two looks counts as backpressured when an operator was for more than ``BACKPRESSURE_SHARE`` of it,
    as down when not all subtasks ran at its end. Counters start anew with every rescale: time for which there is no
    difference yet is judged by the first one that there is.
    """

    tuned: frozenset[str]  # vertices that count as instances: sources are never rescaled
    seconds: float = 0.0
    backpressured_s: float = 0.0
    down_s: float = 0.0
    instance_s: float = 0.0
    changes: int = 0
    _at_s: float | None = None
    _open_s: float = 0.0
    _running: dict[str, int] | None = None
    _totals: _Totals | None = None

    def take(self, details: JobDetails, at_s: float) -> None:
        """One look, at a time of any clock that goes forward."""
        elapsed_s = 0.0 if self._at_s is None else at_s - self._at_s
        self._at_s = at_s
        self.seconds += elapsed_s
        if self._running is not None:
            self.instance_s += elapsed_s * sum(self._running.values())
        if state_of(details) is not None:
            self.down_s += elapsed_s
            self._totals = None
            return
        self._open_s += elapsed_s
        self._note_instances(details)
        totals = {vertex.id: _totals(vertex.metrics) for vertex in details.vertices if not vertex.has_finished}
        share = None if self._totals is None else _largest_share(self._totals, totals)
        if share is not None:
            self.backpressured_s += self._open_s if share > BACKPRESSURE_SHARE else 0.0
            self._open_s = 0.0
        if share is not None or self._totals is None or _went_back(self._totals, totals):
            self._totals = totals

    def _note_instances(self, details: JobDetails) -> None:
        running = {vertex.id: vertex.parallelism for vertex in details.vertices if vertex.id in self.tuned}
        if self._running is not None and running != self._running:
            self.changes += 1
            self._totals = None
        self._running = running


def _totals(metrics: object) -> tuple[float, float]:
    busy, idle, blocked = (getattr(metrics, name) for name in ("busy_ms", "idle_ms", "backpressured_ms"))
    known = [part for part in (busy, idle, blocked) if math.isfinite(part)]
    return sum(known), blocked if math.isfinite(blocked) else 0.0


def _largest_share(before: _Totals, now: _Totals) -> float | None:
    """Of the operators, the largest backpressured share of the time between; None while some have nothing new."""
    shares = []
    for key, (clock, blocked) in now.items():
        length = clock - before.get(key, (math.inf, 0.0))[0]
        if length <= 0:
            return None
        shares.append(max(0.0, blocked - before[key][1]) / length)
    return max(shares, default=None)


def _went_back(before: _Totals, now: _Totals) -> bool:
    return any(clock < before.get(key, (0.0, 0.0))[0] for key, (clock, _) in now.items())
