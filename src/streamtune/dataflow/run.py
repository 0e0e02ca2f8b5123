"""``Run``: one history record, the observation of one deployment together with the job it belongs to."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from streamtune.dataflow.graph import Dataflow, Edge
from streamtune.dataflow.job import Job
from streamtune.dataflow.observation import Observation, OperatorMetrics
from streamtune.dataflow.operator import Aggregate, Join, Operator, Partitioning, Window
from streamtune.frozen import Frozen

SCHEMA_VERSION = 1


class RunEdge(Frozen):
    source: str
    target: str
    partitioning: Partitioning = "rebalance"


class RunOperator(Frozen):
    """One operator of a run, flat: identity, Table I features, parallelism, metrics (null where not measured)."""

    id: str
    type: str
    window_type: str | None = None
    window_policy: str | None = None
    window_length: float | None = None
    window_slide: float | None = None
    join_key_class: str | None = None
    aggregate_class: str | None = None
    aggregate_key_class: str | None = None
    aggregate_function: str | None = None
    tuple_width_in: float | None = None
    tuple_width_out: float | None = None
    tuple_type: str | None = None
    parallelism: int
    records_in_per_s: float | None = None
    records_out_per_s: float | None = None
    busy_ms_per_s: float | None = None
    idle_ms_per_s: float | None = None
    backpressured_ms_per_s: float | None = None
    busy_max_ms_per_s: float | None = None
    cpu_load: float | None = None

    @classmethod
    def of(cls, operator: Operator, metrics: OperatorMetrics) -> RunOperator:
        window, aggregate, join = operator.window, operator.aggregate, operator.join
        return cls(
            id=operator.id,
            type=operator.type,
            window_type=window.type if window else None,
            window_policy=window.policy if window else None,
            window_length=window.length if window else None,
            window_slide=window.slide if window else None,
            join_key_class=join.key_class if join else None,
            aggregate_class=aggregate.value_class if aggregate else None,
            aggregate_key_class=aggregate.key_class if aggregate else None,
            aggregate_function=aggregate.function if aggregate else None,
            tuple_width_in=operator.tuple_width_in,
            tuple_width_out=operator.tuple_width_out,
            tuple_type=operator.tuple_type,
            parallelism=metrics.parallelism,
            records_in_per_s=metrics.records_in_per_s,
            records_out_per_s=metrics.records_out_per_s,
            busy_ms_per_s=metrics.busy_ms_per_s,
            idle_ms_per_s=metrics.idle_ms_per_s,
            backpressured_ms_per_s=metrics.backpressured_ms_per_s,
            busy_max_ms_per_s=metrics.busy_max_ms_per_s,
            cpu_load=metrics.cpu_load,
        )

    def to_operator(self, rate: float | None = None) -> Operator:
        """The operator this row describes, without its metrics."""
        window = None
        if self.window_type is not None and self.window_length is not None:
            window = Window.model_validate(
                {
                    "type": self.window_type,
                    "policy": self.window_policy or "time",
                    "length": self.window_length,
                    "slide": self.window_slide,
                }
            )
        aggregate = None
        if self.aggregate_function is not None:
            aggregate = Aggregate(
                function=self.aggregate_function,
                value_class=self.aggregate_class or "unknown",
                key_class=self.aggregate_key_class,
            )
        return Operator(
            id=self.id,
            type=self.type,
            window=window,
            aggregate=aggregate,
            join=Join(key_class=self.join_key_class) if self.join_key_class else None,
            tuple_width_in=self.tuple_width_in,
            tuple_width_out=self.tuple_width_out,
            tuple_type=self.tuple_type,
            rate=rate,
        )


class Run(Frozen):
    """One row of the execution history; ``streamtune.history.schema`` has the same fields as a Spark schema."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    job: str
    engine: str
    observed_at: datetime
    window_s: float = Field(gt=0)
    source_rates: dict[str, float]
    operators: tuple[RunOperator, ...]
    edges: tuple[RunEdge, ...]
    latency_ms: float | None = None
    throughput_per_s: float | None = None

    @classmethod
    def of(cls, run_id: str, job: Job, engine: str, observation: Observation) -> Run:
        flow = job.dataflow
        return cls(
            run_id=run_id,
            job=job.name,
            engine=engine,
            observed_at=observation.observed_at,
            window_s=observation.window_s,
            source_rates=dict(observation.source_rates),
            operators=tuple(
                RunOperator.of(operator, observation.operators[operator.id]) for operator in flow.operators
            ),
            edges=tuple(RunEdge(source=e.source, target=e.target, partitioning=e.partitioning) for e in flow.edges),
            latency_ms=observation.latency_ms,
            throughput_per_s=observation.throughput_per_s,
        )

    @property
    def dataflow(self) -> Dataflow:
        """The DAG of the run, with its Table I features."""
        return Dataflow(
            tuple(operator.to_operator(self.source_rates.get(operator.id)) for operator in self.operators),
            tuple(Edge(edge.source, edge.target, edge.partitioning) for edge in self.edges),
        )

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return self.model_dump(mode="json")
