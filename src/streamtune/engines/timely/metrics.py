"""From the counters of a running job to an ``Observation``.

Rates are differences of our own counters of records *taken* by an operator: bytewax' built-in input counter counts a
batch when it is handed over, before it is worked on, and so hides a slow operator. Busy time is the time that instances
spent on their records, measured around that work, as DS2 instruments Timely; Timely itself knows neither busy nor
backpressured time, so the latter is always 0 and the rest is idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from streamtune.dataflow import Job, Observation, OperatorMetrics, Plan
from streamtune.engines.timely.latency import EpochLatencies, slope
from streamtune.frozen import Frozen
from streamtune.readings import BOTTLENECK, LabelSettings, label_observation

ENGINE = "timely"


class Counters(Frozen):
    """One operator since the start of the job: one entry per instance."""

    taken: tuple[int, ...]
    given: tuple[int, ...]
    busy_s: tuple[float, ...]
    waiting: tuple[int, ...]


class Snapshot(Frozen):
    """All counters at one moment of event time."""

    now_us: int
    is_up: bool
    is_finished: bool
    epochs: tuple[tuple[int, int], ...]
    operators: Mapping[str, Counters]


def observation_of(
    job: Job,
    plan: Plan,
    rates: Mapping[str, float],
    samples: Sequence[Snapshot],
    latencies: EpochLatencies,
    observed_at: datetime,
    labels: LabelSettings,
) -> Observation:
    """What happened between the first and the last sample."""
    first, last = samples[0], samples[-1]
    window_s = (last.now_us - first.now_us) / 1e6
    operators = {key: _metrics(key, plan[key], samples, window_s) for key in job.dataflow.index}
    seen = Observation(
        observed_at=observed_at,
        window_s=window_s,
        source_rates=dict(rates),
        operators=operators,
        latency_ms=latencies.mean_ms if len(latencies) else None,
        throughput_per_s=sum(operators[source.id].records_out_per_s for source in job.dataflow.sources),
        latency_growth_ms_per_s=latencies.growth_ms_per_s,
        reports_backpressure=False,
    )
    verdicts = label_observation(job.dataflow, seen, labels)
    short = tuple(key for key, verdict in verdicts.items() if verdict == BOTTLENECK)
    return seen.model_copy(update={"bottlenecks": short})


def _metrics(key: str, parallelism: int, samples: Sequence[Snapshot], window_s: float) -> OperatorMetrics:
    before, after = samples[0].operators[key], samples[-1].operators[key]
    busy_ms = [
        min(1000.0, 1000 * (late - early) / window_s) for early, late in zip(before.busy_s, after.busy_s, strict=True)
    ]
    busy = sum(busy_ms) / parallelism
    waiting = [sample.operators[key].waiting for sample in samples]
    return OperatorMetrics(
        parallelism=parallelism,
        records_in_per_s=(sum(after.taken) - sum(before.taken)) / window_s,
        records_out_per_s=(sum(after.given) - sum(before.given)) / window_s,
        busy_ms_per_s=busy,
        idle_ms_per_s=1000 - busy,
        backpressured_ms_per_s=0.0,
        busy_max_ms_per_s=max(busy_ms),
        lag_records=float(sum(waiting[-1])),
        backlog_growth_per_s=_growth_per_s([sample.now_us / 1e6 for sample in samples], waiting),
    )


def _growth_per_s(times_s: Sequence[float], waiting: Sequence[Sequence[int]]) -> float | None:
    """Trend of an operator's queue if every instance's grew like the worst one's.

    An epoch is done when its last record is, so one hot instance that falls behind makes the latency grow, however idle
    the others are; the sum over all would hide it.

    >>> _growth_per_s([0.0, 1.0, 2.0], [(0, 0), (1, 5), (2, 10)])
    10.0
    """
    trends = [slope(times_s, queue) for queue in zip(*waiting, strict=True)]
    known = [trend for trend in trends if trend is not None]
    return len(trends) * max(known) if known else None
