"""Hand-made observations: what an engine would report, with only the numbers that matter spelled out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, OperatorMetrics

START = datetime(2026, 1, 1, tzinfo=UTC)


def chain(*types: str, max_parallelism: int = 128) -> Job:
    """source → op1 → op2 …, the operators named op1, op2 … and of the given types."""
    operators = [Operator(id="source", type="source", rate=1000)]
    operators += [Operator(id=f"op{number}", type=kind) for number, kind in enumerate(types, start=1)]
    edges = tuple(Edge(before.id, after.id, after.default_partitioning) for before, after in pairwise(operators))
    return Job("chain", Dataflow(tuple(operators), edges), max_parallelism=max_parallelism)


def metrics(
    parallelism: int,
    taken: float,
    busy: float,
    *,
    emitted: float | None = None,
    blocked: float = 0.0,
    hottest: float | None = None,
    lag: float | None = None,
) -> OperatorMetrics:
    """Times in ms per s; what is neither busy nor blocked is idle."""
    return OperatorMetrics(
        parallelism=parallelism,
        records_in_per_s=taken,
        records_out_per_s=taken if emitted is None else emitted,
        busy_ms_per_s=busy,
        idle_ms_per_s=1000 - busy - blocked,
        backpressured_ms_per_s=blocked,
        busy_max_ms_per_s=hottest,
        lag_records=lag,
    )


def sighting(
    operators: Mapping[str, OperatorMetrics], *, offered: Mapping[str, float] | float = 1000, minute: float = 0
) -> Observation:
    rates = dict(offered) if isinstance(offered, Mapping) else {"source": offered}
    return Observation(
        observed_at=START + timedelta(minutes=minute), window_s=60, source_rates=rates, operators=dict(operators)
    )
