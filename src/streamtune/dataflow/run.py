"""``Run``: one history record, the observation of one deployment together with the job it belongs to."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from streamtune.dataflow.features import OperatorFeatures
from streamtune.dataflow.graph import Dataflow, Edge
from streamtune.dataflow.job import Job
from streamtune.dataflow.observation import (
    BUSY_RESOLUTION,
    EdgeMetrics,
    InstancePairMetrics,
    Observation,
    OperatorMetrics,
    RateOrigin,
)
from streamtune.dataflow.operator import Operator, Partitioning
from streamtune.frozen import Frozen

# Version 2 adds lag, backlog growth, CPU and memory of operators, rates of edges and pairs of instances, bottlenecks
# named by the engine, hosts, how offered rates are known, and how the engine is to be read. Records of version 1 are
# records of version 2 without them.
SCHEMA_VERSION = 2
READABLE_VERSIONS = (1, 2)

# Version 1 said how to read an engine by its name alone.
_V1_WITHOUT_BACKPRESSURE = frozenset({"timely", "bytewax"})
_V1_BUSY_RESOLUTION = {"flink": 0.02}


def v1_reports_backpressure(engine: str) -> bool:
    """Whether the engine of a record of version 1 reports backpressure."""
    return engine not in _V1_WITHOUT_BACKPRESSURE


def v1_busy_resolution(engine: str) -> float:
    """How far off a busy share in a record of version 1 may be."""
    return _V1_BUSY_RESOLUTION.get(engine, BUSY_RESOLUTION)


class RunEdge(EdgeMetrics):
    """One edge, and what went over it where the engine knows."""

    partitioning: Partitioning = Field(default="rebalance", description="how records are dealt out to instances")


class RunOperator(OperatorMetrics, OperatorFeatures):
    """One operator of a run, flat: identity, Table I features, parallelism, metrics (null where not measured)."""

    @classmethod
    def joined(cls, operator: Operator, metrics: OperatorMetrics) -> RunOperator:
        return cls(**dict(OperatorFeatures.of(operator)), **dict(metrics))


class Run(Frozen):
    """One row of the execution history; ``streamtune.history.schema`` derives the Spark schema from its fields."""

    schema_version: int = Field(default=SCHEMA_VERSION, description="1 or 2")
    run_id: str = Field(description="unique; two runs with one id are one run, or one of them is wrong")
    job: str = Field(description="name of the job; splits into training and test go by it")
    engine: str = Field(description="flink, simulator, timely, …; models are trained per engine")
    observed_at: datetime = Field(
        description="end of the measuring window, ISO 8601; tables are partitioned by its day (UTC)"
    )
    window_s: float = Field(gt=0, description="length of the measuring window")
    source_rates: dict[str, float] = Field(description="offered rate of each source, records/s")
    operators: tuple[RunOperator, ...] = Field(description="what each of them is, and what was measured of it")
    edges: tuple[RunEdge, ...] = Field(description="of the DAG, and what went over them where it is known")
    latency_ms: float | None = Field(default=None, description="of the job, from end to end")
    throughput_per_s: float | None = Field(default=None, description="of the job, records/s")
    latency_growth_ms_per_s: float | None = Field(default=None, description="trend of latency over the window")
    bottlenecks: tuple[str, ...] | None = Field(
        default=None, description="operators that an engine without backpressure finds too slow by its own rule"
    )
    rate_origins: dict[str, RateOrigin] | None = Field(
        default=None, description="how the rate of a source is known; measured where it is not named"
    )
    rate_sds: dict[str, float] | None = Field(
        default=None, description="standard deviation of the logarithm of a rate that is not exact"
    )
    instance_pairs: tuple[InstancePairMetrics, ...] | None = Field(
        default=None, description="what went from one instance to another"
    )
    hosts: dict[str, str] | None = Field(default=None, description="instance (operator/number) → host it ran on")
    reports_backpressure: bool | None = Field(
        default=None, description="whether lack of backpressure means anything on this engine"
    )
    busy_resolution: float | None = Field(default=None, description="how far off a busy share may be on this engine")

    @classmethod
    def of(cls, run_id: str, job: Job, engine: str, observation: Observation) -> Run:
        flow, seen = job.dataflow, {(edge.source, edge.target): edge for edge in observation.edges}
        return cls(
            run_id=run_id,
            job=job.name,
            engine=engine,
            observed_at=observation.observed_at,
            window_s=observation.window_s,
            source_rates=dict(observation.source_rates),
            operators=tuple(
                RunOperator.joined(operator, observation.operators[operator.id]) for operator in flow.operators
            ),
            edges=tuple(_edge(edge, seen.get((edge.source, edge.target))) for edge in flow.edges),
            latency_ms=observation.latency_ms,
            throughput_per_s=observation.throughput_per_s,
            latency_growth_ms_per_s=observation.latency_growth_ms_per_s,
            bottlenecks=observation.bottlenecks or None,
            rate_origins=dict(observation.rate_origins) or None,
            rate_sds=dict(observation.rate_sds) or None,
            instance_pairs=observation.instance_pairs or None,
            hosts=dict(observation.hosts) or None,
            reports_backpressure=observation.reports_backpressure,
            busy_resolution=observation.busy_resolution,
        )

    @property
    def dataflow(self) -> Dataflow:
        """The DAG of the run, with its Table I features."""
        return Dataflow(
            tuple(operator.to_operator(self.source_rates.get(operator.id)) for operator in self.operators),
            tuple(Edge(edge.source, edge.target, edge.partitioning) for edge in self.edges),
        )

    @property
    def observation(self) -> Observation:
        """What was observed; how to read a record of version 1 follows from the name of its engine."""
        return Observation(
            observed_at=self.observed_at,
            window_s=self.window_s,
            source_rates=self.source_rates,
            operators={
                operator.id: OperatorMetrics(**{name: getattr(operator, name) for name in OperatorMetrics.model_fields})
                for operator in self.operators
            },
            latency_ms=self.latency_ms,
            throughput_per_s=self.throughput_per_s,
            latency_growth_ms_per_s=self.latency_growth_ms_per_s,
            bottlenecks=self.bottlenecks or (),
            rate_origins=self.rate_origins or {},
            rate_sds=self.rate_sds or {},
            edges=tuple(
                EdgeMetrics(**{name: getattr(edge, name) for name in EdgeMetrics.model_fields})
                for edge in self.edges
                if edge.records_per_s is not None or edge.bytes_per_s is not None
            ),
            instance_pairs=self.instance_pairs or (),
            hosts=self.hosts or {},
            reports_backpressure=(
                v1_reports_backpressure(self.engine) if self.reports_backpressure is None else self.reports_backpressure
            ),
            busy_resolution=v1_busy_resolution(self.engine) if self.busy_resolution is None else self.busy_resolution,
        )

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values; parts that an engine does not have are left out."""
        record = self.model_dump(mode="json")
        optional = ("latency_growth_ms_per_s", "bottlenecks", "rate_origins", "rate_sds", "instance_pairs", "hosts")
        return {name: value for name, value in record.items() if name not in optional or value is not None}


def _edge(edge: Edge, seen: EdgeMetrics | None) -> RunEdge:
    return RunEdge(
        source=edge.source,
        target=edge.target,
        records_per_s=None if seen is None else seen.records_per_s,
        bytes_per_s=None if seen is None else seen.bytes_per_s,
        partitioning=edge.partitioning,
    )
