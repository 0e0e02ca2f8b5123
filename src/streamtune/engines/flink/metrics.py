"""From Flink's counters to an ``Observation``: differences between two snapshots, or ``NotReady`` with the reason.

Flink's per-second metrics are averages over a minute that start at arbitrary values, and what REST serves is as old as
the JobManager's last fetch. Counters have neither problem: a subtask's accumulated busy, idle and backpressured time
add up to the time since it started, so their difference is the length of the window by the subtask's own clock,
whenever it was fetched. Rates are differences of record counters over that length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from streamtune.dataflow import Job, Observation, OperatorMetrics
from streamtune.dataflow.observation import EdgeMetrics
from streamtune.dataflow.operator import SINK
from streamtune.engines.base import NotReady
from streamtune.engines.flink.edges import edge_rates
from streamtune.engines.flink.offered import Offered, offered_rate
from streamtune.engines.flink.responses import FINISHED, RUNNING, IoMetrics, VertexDetails

# A window must be seen at least to this part by the subtasks' own clocks; less means the values are stale.
_SEEN_SHARE = 0.5
# Where threads wait for a core, waiting counts as busy, which dominates operators with little to do. Set by hand,
# on runs whose service times were known.
BUSY_RESOLUTION = 0.02


@dataclass(frozen=True)
class SubtaskCounters:
    """One subtask since it started: ``incarnation`` changes with every restart.

    One that has finished, as those of a bounded source do, keeps its counters, and its clock stands still.
    """

    incarnation: tuple[int, int]
    records_in: float
    records_out: float
    busy_ms: float
    idle_ms: float
    backpressured_ms: float
    is_finished: bool = False

    @property
    def clock_ms(self) -> float:
        """Time since the start by the subtask's own clock; NaN where Flink does not measure busy time."""
        return self.busy_ms + self.idle_ms + self.backpressured_ms


@dataclass(frozen=True)
class Snapshot:
    """All counters of a job at one moment, by operator id; ``age_s`` is how long its youngest subtask has run.

    ``taken_s`` is the same moment by a steady clock: lengths go by it, as the wall clock may be set in between.
    """

    taken_at: datetime
    taken_s: float
    operators: Mapping[str, tuple[SubtaskCounters, ...]]
    age_s: float = 0.0
    lag_records: Mapping[str, float] = field(default_factory=dict)
    time_lag_ms: Mapping[str, float] = field(default_factory=dict)  # by event time or watermark
    source_records: Mapping[str, float] = field(default_factory=dict)  # read by sources, before what is chained to them

    @property
    def degrees(self) -> dict[str, int]:
        return {key: len(subtasks) for key, subtasks in self.operators.items()}

    @property
    def finished(self) -> frozenset[str]:
        """Operators that have done all their work."""
        return frozenset(key for key, subtasks in self.operators.items() if all(one.is_finished for one in subtasks))


def counters_of(vertex: VertexDetails) -> tuple[SubtaskCounters, ...] | NotReady:
    """The counters of a vertex, unless some subtask has none yet."""
    found = []
    for subtask in vertex.subtasks:
        is_finished = subtask.status == FINISHED
        if subtask.status != RUNNING and not is_finished:
            return NotReady(f"subtask {subtask.subtask} of '{vertex.name}' is {subtask.status}")
        metrics = subtask.metrics
        if not is_finished and not _is_reported(metrics):
            return NotReady(f"subtask {subtask.subtask} of '{vertex.name}' has no metrics yet")
        counters = SubtaskCounters(
            (subtask.attempt, subtask.start_ms),
            metrics.records_in,
            metrics.records_out,
            metrics.busy_ms,
            metrics.idle_ms,
            metrics.backpressured_ms,
            is_finished,
        )
        found.append(_without_gaps(counters) if is_finished else counters)
    if not found:
        return NotReady(f"'{vertex.name}' has no subtasks")
    return tuple(found)


def _without_gaps(ended: SubtaskCounters) -> SubtaskCounters:
    """Of a subtask that ended as soon as it began Flink may keep no counters: it did nothing."""
    return replace(
        ended,
        records_in=_or_zero(ended.records_in),
        records_out=_or_zero(ended.records_out),
        busy_ms=_or_zero(ended.busy_ms),
        idle_ms=_or_zero(ended.idle_ms),
        backpressured_ms=_or_zero(ended.backpressured_ms),
    )


def _or_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _is_reported(metrics: IoMetrics) -> bool:
    return (
        metrics.records_in_complete
        and metrics.records_out_complete
        and math.isfinite(metrics.records_in)
        and math.isfinite(metrics.records_out)
        and math.isfinite(metrics.idle_ms)
        and math.isfinite(metrics.backpressured_ms)
        # Before the first fetch all counters are zero, which no running subtask can be.
        and (
            metrics.idle_ms + metrics.backpressured_ms > 0
            or metrics.busy_ms > 0
            or metrics.records_in + metrics.records_out > 0
        )
    )


def observation_between(
    first: Snapshot,
    last: Snapshot,
    job: Job,
    offered: Mapping[str, float | None],
    latency_ms: float | None = None,
    *,
    largest_guess: float = 4.0,
) -> Observation | NotReady:
    """What happened between two snapshots of one deployment.

    ``offered`` has the rate of every source where it is known; of the others it follows from their lag, or is a guess
    of at most ``largest_guess`` times what they took.
    """
    wall_s = last.taken_s - first.taken_s
    operators: dict[str, OperatorMetrics] = {}
    lengths_s = []
    for operator in job.dataflow.operators:
        before, after = first.operators.get(operator.id), last.operators.get(operator.id)
        if before is None or after is None:
            return NotReady(f"'{operator.id}' was not measured")
        window = _Difference.between(operator.id, before, after, wall_s)
        if isinstance(window, NotReady):
            return window
        if operator.id not in last.finished:  # it has no clock any more
            lengths_s.append(window.length_s)
        lag = last.lag_records.get(operator.id)
        operators[operator.id] = window.metrics(operator.is_source, operator.type == SINK, lag)
    length_s = sum(lengths_s) / len(lengths_s) if lengths_s else wall_s
    _count_reads(job, operators, first, last, length_s)
    # A source that has read everything is offered nothing more, whatever was said of it.
    known = {one.id: 0.0 if one.id in last.finished else offered.get(one.id) for one in job.dataflow.sources}
    found = {key: _offered(key, rate, operators[key], first, last, largest_guess) for key, rate in known.items()}
    flows = edge_rates(
        job.dataflow,
        {key: one.records_in_per_s for key, one in operators.items()},
        {key: one.records_out_per_s for key, one in operators.items()},
        last.degrees,
    )
    return Observation(
        observed_at=last.taken_at,
        window_s=length_s,
        source_rates={key: one.rate_per_s for key, one in found.items()},
        rate_origins={key: one.origin for key, one in found.items() if one.origin != "measured"},
        rate_sds={key: one.sd for key, one in found.items() if one.sd > 0},
        operators=operators,
        edges=tuple(EdgeMetrics(source=a, target=b, records_per_s=rate) for (a, b), rate in flows.items()),
        latency_ms=latency_ms,
        busy_resolution=BUSY_RESOLUTION,
        throughput_per_s=sum(operators[source.id].records_out_per_s for source in job.dataflow.sources),
    )


def _count_reads(
    job: Job, operators: dict[str, OperatorMetrics], first: Snapshot, last: Snapshot, length_s: float
) -> None:
    """What sources read by the counters of the source operator itself, where it has them."""
    for key, after in last.source_records.items():
        before = first.source_records.get(key)
        if before is not None and after > before:
            read = (after - before) / length_s
            # Where all that follows is chained to the source, what it reads is what leaves: Flink counts nothing else.
            out = operators[key].records_out_per_s if job.dataflow.successors(key) else read
            operators[key] = operators[key].model_copy(update={"records_in_per_s": read, "records_out_per_s": out})


def _offered(
    key: str,
    known: float | None,
    metrics: OperatorMetrics,
    first: Snapshot,
    last: Snapshot,
    largest_guess: float,
) -> Offered:
    if known is not None:
        return Offered(known)
    growth = _growth_per_s(key, first.lag_records, last.lag_records, first, last)
    time_growth = _growth_per_s(key, first.time_lag_ms, last.time_lag_ms, first, last)
    behind = None if time_growth is None else time_growth / 1000
    return offered_rate(metrics, growth, behind, largest_guess=largest_guess)


@dataclass(frozen=True)
class _Difference:
    """One operator over one window, summed over its subtasks."""

    parallelism: int
    length_s: float
    records_in: float
    records_out: float
    busy_share: float
    idle_share: float
    backpressured_share: float
    busy_share_max: float

    @classmethod
    def between(
        cls, name: str, before: tuple[SubtaskCounters, ...], after: tuple[SubtaskCounters, ...], wall_s: float
    ) -> _Difference | NotReady:
        if len(before) != len(after) or any(a.incarnation != b.incarnation for a, b in zip(before, after, strict=True)):
            restarted = f"'{name}' was restarted or rescaled within the window"
            return NotReady(restarted, retry_after_s=1.0, is_unhealthy=True)
        pairs = list(zip(before, after, strict=True))
        records_in = sum(b.records_in - a.records_in for a, b in pairs)
        records_out = sum(b.records_out - a.records_out for a, b in pairs)
        if records_in < 0 or records_out < 0:
            return NotReady(f"the counters of '{name}' went backwards", retry_after_s=1.0)
        running = [_shares(a, b, wall_s) for a, b in pairs if not b.is_finished]
        length_s = sum(part[0] for part in running) / len(running) if running else wall_s
        parts = [*running, *(_shares_of_finished(a, b, length_s) for a, b in pairs if b.is_finished)]
        if not length_s >= _SEEN_SHARE * wall_s:
            return NotReady(f"the metrics of '{name}' are stale: {length_s:.1f} s of {wall_s:.1f} s were reported")
        busy, idle, blocked = (sum(part[i] for part in parts) / len(parts) for i in (1, 2, 3))
        hottest = max((part[1] for part in parts if math.isfinite(part[1])), default=math.nan)
        return cls(len(pairs), length_s, records_in, records_out, busy, idle, blocked, hottest)

    def metrics(self, is_source: bool, is_sink: bool, lag: float | None) -> OperatorMetrics:
        taken, emitted = self.records_in / self.length_s, self.records_out / self.length_s
        if is_source and taken == 0:
            taken = emitted  # sources that do not count what they read
        return OperatorMetrics(
            parallelism=self.parallelism,
            records_in_per_s=taken,
            records_out_per_s=0.0 if is_sink else emitted,
            busy_ms_per_s=1000 * self.busy_share,
            idle_ms_per_s=1000 * self.idle_share,
            backpressured_ms_per_s=1000 * self.backpressured_share,
            busy_max_ms_per_s=1000 * self.busy_share_max if math.isfinite(self.busy_share_max) else None,
            lag_records=lag,
        )


def _shares(before: SubtaskCounters, after: SubtaskCounters, wall_s: float) -> tuple[float, float, float, float]:
    """Length of the window by the subtask's clock, and the shares of busy, idle and backpressured time in it.

    Flink books idle and blocked time when a pause ends, so busy time, which is the rest, can even shrink by a few
    milliseconds; it is cut at zero. Sources of the old kind report no busy time: theirs stays unknown.
    """
    idle = max(0.0, after.idle_ms - before.idle_ms)
    blocked = max(0.0, after.backpressured_ms - before.backpressured_ms)
    busy = after.busy_ms - before.busy_ms
    if not math.isfinite(busy):
        length_ms = 1000 * wall_s
        return wall_s, math.nan, min(1.0, idle / length_ms), min(1.0, blocked / length_ms)
    busy = max(0.0, busy)
    total = busy + idle + blocked
    if total <= 0:
        return 0.0, math.nan, math.nan, math.nan
    return total / 1000, busy / total, idle / total, blocked / total


def _shares_of_finished(
    before: SubtaskCounters, after: SubtaskCounters, length_s: float
) -> tuple[float, float, float, float]:
    """The same for a subtask that has finished: since it did it is idle, though it counts that no longer."""
    length_ms = 1000 * length_s
    busy = min(1.0, max(0.0, after.busy_ms - before.busy_ms) / length_ms) if length_ms > 0 else 0.0
    blocked = max(0.0, after.backpressured_ms - before.backpressured_ms) / length_ms if length_ms > 0 else 0.0
    blocked = min(blocked, 1.0 - busy)
    return length_s, busy, 1.0 - busy - blocked, blocked


def _growth_per_s(
    source: str, before: Mapping[str, float], after: Mapping[str, float], first: Snapshot, last: Snapshot
) -> float | None:
    wall_s = last.taken_s - first.taken_s
    if source not in before or source not in after or wall_s <= 0:
        return None
    return (after[source] - before[source]) / wall_s
