"""The nouns: operators, dataflows, jobs, plans, observations and runs. Imports none of our other rooms."""

from streamtune.dataflow.graph import Dataflow, Edge
from streamtune.dataflow.job import Job, ParallelismPlan
from streamtune.dataflow.observation import BACKPRESSURE_SHARE, Observation, OperatorMetrics
from streamtune.dataflow.operator import Aggregate, Join, Operator, Window
from streamtune.dataflow.run import Run, RunEdge, RunOperator

__all__ = [
    "BACKPRESSURE_SHARE",
    "Aggregate",
    "Dataflow",
    "Edge",
    "Job",
    "Join",
    "Observation",
    "Operator",
    "OperatorMetrics",
    "ParallelismPlan",
    "Run",
    "RunEdge",
    "RunOperator",
    "Window",
]
