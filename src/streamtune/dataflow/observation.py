"""``Observation``: what an engine reports about one deployment over one window.

``OperatorMetrics`` is the one place where a metric is declared: the Parquet schema, the validation, the kernels and the
history record take their columns from its fields.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from streamtune.dataflow.plan import Plan
from streamtune.frozen import Frozen

# StreamTune Section V-B: an operator is under backpressure when its backpressured share exceeds 10 %.
BACKPRESSURE_SHARE = 0.10
# Busy time is reported in whole milliseconds per second: shares closer than this cannot be told apart.
BUSY_RESOLUTION = 0.002

RateOrigin = Literal["measured", "lag", "estimated"]


def _nan_for_null(value: object) -> object:
    """Null becomes NaN, and always the same NaN object, so that equal observations compare equal."""
    return math.nan if value is None or (isinstance(value, float) and math.isnan(value)) else value


def _null_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


# A number that may not have been measured: NaN in Python, null in JSON and in tables.
Measured = Annotated[
    float, BeforeValidator(_nan_for_null), PlainSerializer(_null_for_nan, return_type=float | None, when_used="json")
]


class OperatorMetrics(Frozen):
    """One operator over one window: means over its subtasks, unless the name says otherwise.

    Times are ms per s, as Flink reports them. What an engine cannot measure at all is ``None``; what it could not
    measure this time is NaN.
    """

    parallelism: int = Field(ge=1, description="instances that ran")
    records_in_per_s: Measured = Field(default=math.nan, description="records taken in, of all instances together")
    records_out_per_s: Measured = Field(default=math.nan, description="records given out, of all instances together")
    busy_ms_per_s: Measured = Field(default=math.nan, description="time spent working")
    idle_ms_per_s: Measured = Field(default=math.nan, description="time without input")
    backpressured_ms_per_s: Measured = Field(default=math.nan, description="time waiting for a slower reader")
    busy_max_ms_per_s: float | None = Field(default=None, description="time spent working of the busiest subtask")
    cpu_load: float | None = Field(default=None, description="load of the processor, where an engine has it")
    lag_records: float | None = Field(
        default=None, description="records waiting in front of a source (on Timely, of any operator)"
    )
    backlog_growth_per_s: float | None = Field(
        default=None, description="trend of that lag, as if all instances fell behind like the worst one"
    )
    cpu_cores: float | None = Field(default=None, description="cores that one instance used")
    memory_mb: float | None = Field(default=None, description="MiB that one instance used")

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


# Every metric of an operator by name, in the order of declaration.
METRICS = tuple(name for name in OperatorMetrics.model_fields if name != "parallelism")
# A trend may go down as well as up; all other metrics are at least 0.
SIGNED_METRICS = frozenset({"backlog_growth_per_s"})


class EdgeMetrics(Frozen):
    """What went over one edge of the dataflow, all instances together."""

    source: str = Field(description="id of the operator that sends")
    target: str = Field(description="id of the operator that receives")
    records_per_s: float | None = Field(default=None, description="records sent, where the engine counts them")
    bytes_per_s: float | None = Field(default=None, description="bytes sent, where the engine counts them")


class InstancePairMetrics(EdgeMetrics):
    """What went from one instance to another."""

    source_instance: int = Field(ge=0, description="number of the instance that sends, from 0")
    target_instance: int = Field(ge=0, description="number of the instance that receives, from 0")


class Observation(Frozen):
    """One window of one deployment. ``source_rates`` are the rates that are offered, not what got through.

    ``rate_origins`` says how the rate of a source is known (measured where it is not named), ``rate_sds`` how far off
    its logarithm may be (standard deviation, 0 where it is not named), ``bottlenecks`` are the operators that an engine
    without backpressure finds too slow by its rule on rates, ``latency_growth_ms_per_s`` is the trend of latency over
    the window, ``edges`` and ``instance_pairs`` say what went where, ``hosts`` where each instance
    (``operator/number``) ran. ``reports_backpressure`` and ``busy_resolution`` say how the engine is to be read:
    whether lack of backpressure means anything, and how far off a busy share may be.

    >>> held = OperatorMetrics(parallelism=1, busy_ms_per_s=300, idle_ms_per_s=0, backpressured_ms_per_s=700)
    >>> full = OperatorMetrics(parallelism=2, busy_ms_per_s=1000, idle_ms_per_s=0, backpressured_ms_per_s=0)
    >>> seen = Observation(observed_at=datetime(2026, 1, 1), window_s=60, source_rates={"bids": 80_000.0},
    ...                    operators={"bids": held, "hot": full})
    >>> seen.has_backpressure, seen.backpressured(), dict(seen.plan)
    (True, ('bids',), {'bids': 1, 'hot': 2})
    """

    observed_at: datetime
    window_s: float = Field(gt=0)
    source_rates: Mapping[str, float]
    operators: Mapping[str, OperatorMetrics]
    latency_ms: float | None = None
    throughput_per_s: float | None = None
    latency_growth_ms_per_s: float | None = None
    bottlenecks: tuple[str, ...] = ()
    rate_origins: Mapping[str, RateOrigin] = Field(default_factory=dict)
    rate_sds: Mapping[str, float] = Field(default_factory=dict)
    edges: tuple[EdgeMetrics, ...] = ()
    instance_pairs: tuple[InstancePairMetrics, ...] = ()
    hosts: Mapping[str, str] = Field(default_factory=dict)
    reports_backpressure: bool = True
    busy_resolution: float = Field(default=BUSY_RESOLUTION, ge=0)

    @property
    def plan(self) -> Plan:
        return Plan({key: metrics.parallelism for key, metrics in self.operators.items()})

    @property
    def guessed_rates(self) -> tuple[str, ...]:
        """The sources whose offered rate is a guess, because they were held up and nobody counts what waits."""
        return tuple(key for key, origin in self.rate_origins.items() if origin == "estimated")

    @property
    def edge_rates(self) -> dict[tuple[str, str], float]:
        """Records/s over every edge that an engine counts."""
        return {(edge.source, edge.target): edge.records_per_s for edge in self.edges if edge.records_per_s is not None}

    def backpressured(self, share: float = BACKPRESSURE_SHARE) -> tuple[str, ...]:
        """The operators under backpressure."""
        return tuple(key for key, metrics in self.operators.items() if metrics.backpressured_share > share)

    @property
    def has_backpressure(self) -> bool:
        """Whether the job visibly fails to keep up: backpressure, or on engines without it a bottleneck by rates."""
        return bool(self.bottlenecks or self.backpressured())
