"""The nouns: operators, dataflows, jobs, plans, observations and runs."""

from streamtune.dataflow.graph import Dataflow, Edge
from streamtune.dataflow.job import Job
from streamtune.dataflow.observation import (
    BACKPRESSURE_SHARE,
    METRICS,
    EdgeMetrics,
    InstancePairMetrics,
    Observation,
    OperatorMetrics,
)
from streamtune.dataflow.operator import Aggregate, Join, Operator, Window
from streamtune.dataflow.plan import Instance, Instances, InstanceSize, Plan
from streamtune.dataflow.run import Run, RunEdge, RunOperator

__all__ = [
    "BACKPRESSURE_SHARE",
    "METRICS",
    "Aggregate",
    "Dataflow",
    "Edge",
    "EdgeMetrics",
    "Instance",
    "InstancePairMetrics",
    "InstanceSize",
    "Instances",
    "Job",
    "Join",
    "Observation",
    "Operator",
    "OperatorMetrics",
    "Plan",
    "Run",
    "RunEdge",
    "RunOperator",
    "Window",
]
