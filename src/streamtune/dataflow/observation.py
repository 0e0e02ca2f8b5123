"""``Observation``: what an engine reports about one deployment over one window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from streamtune.dataflow.job import ParallelismPlan
from streamtune.frozen import Frozen

# StreamTune Section V-B: an operator is under backpressure when its backpressured share exceeds 10 %.
BACKPRESSURE_SHARE = 0.10


class OperatorMetrics(Frozen):
    """One operator over one window: means over its subtasks, unless the name says otherwise.

    Times are ms per s, as Flink reports them, and may be NaN where the engine has no value. ``busy_max_ms_per_s``
    is the busiest subtask, ``lag_records`` what waits in front of a source (on Timely, of any operator), and
    ``backlog_growth_per_s`` the trend of that over the window, as if all instances fell behind like the worst one.
    """

    parallelism: int = Field(ge=1)
    records_in_per_s: float
    records_out_per_s: float
    busy_ms_per_s: float
    idle_ms_per_s: float
    backpressured_ms_per_s: float
    busy_max_ms_per_s: float | None = None
    cpu_load: float | None = None
    lag_records: float | None = None
    backlog_growth_per_s: float | None = None

    @property
    def _total_ms(self) -> float:
        return self.busy_ms_per_s + self.idle_ms_per_s + self.backpressured_ms_per_s

    @property
    def busy_share(self) -> float:
        """The paper's resource metric R: busy / (busy + idle + backpressured)."""
        return self.busy_ms_per_s / self._total_ms if self._total_ms else math.nan

    @property
    def backpressured_share(self) -> float:
        return self.backpressured_ms_per_s / self._total_ms if self._total_ms else math.nan

    @property
    def is_complete(self) -> bool:
        return all(map(math.isfinite, (self.records_in_per_s, self.records_out_per_s, self._total_ms)))


class Observation(Frozen):
    """One window of one deployment. ``source_rates`` are the rates that are offered, not what got through.

    ``bottlenecks`` are the operators that an engine without backpressure finds too slow by its rule on rates, and
    ``latency_growth_ms_per_s`` is the trend of latency over the window, where an engine follows it.
    """

    observed_at: datetime
    window_s: float = Field(gt=0)
    source_rates: Mapping[str, float]
    operators: Mapping[str, OperatorMetrics]
    latency_ms: float | None = None
    throughput_per_s: float | None = None
    latency_growth_ms_per_s: float | None = None
    bottlenecks: tuple[str, ...] = ()

    @property
    def plan(self) -> ParallelismPlan:
        return ParallelismPlan({key: metrics.parallelism for key, metrics in self.operators.items()})

    def backpressured(self, share: float = BACKPRESSURE_SHARE) -> tuple[str, ...]:
        """The operators under backpressure."""
        return tuple(key for key, metrics in self.operators.items() if metrics.backpressured_share > share)

    @property
    def has_backpressure(self) -> bool:
        """Whether the job visibly fails to keep up: backpressure, or on engines without it a bottleneck by rates."""
        return bool(self.bottlenecks or self.backpressured())
