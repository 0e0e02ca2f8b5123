"""The schema of a run, by part, with the version that brought each field."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from streamtune.dataflow.features import OperatorFeatures
from streamtune.dataflow.observation import InstancePairMetrics, OperatorMetrics
from streamtune.dataflow.run import Run, RunEdge
from streamtune_docs.fields import table

# Version 1 is written and will not change; every other field came with version 2.
VERSION_1 = {
    "run": frozenset(
        [
            "schema_version",
            "run_id",
            "job",
            "engine",
            "observed_at",
            "window_s",
            "source_rates",
            "operators",
            "edges",
            "latency_ms",
            "throughput_per_s",
        ]
    ),
    "features": frozenset(OperatorFeatures.model_fields),
    "metrics": frozenset(
        [
            "parallelism",
            "records_in_per_s",
            "records_out_per_s",
            "busy_ms_per_s",
            "idle_ms_per_s",
            "backpressured_ms_per_s",
            "busy_max_ms_per_s",
            "cpu_load",
        ]
    ),
    "edges": frozenset({"source", "target", "partitioning"}),
    "pairs": frozenset(),
}
_MODELS: dict[str, type[BaseModel]] = {
    "run": Run,
    "features": OperatorFeatures,
    "metrics": OperatorMetrics,
    "edges": RunEdge,
    "pairs": InstancePairMetrics,
}


def part(name: str) -> str:
    """The table of one part: ``run``, ``features``, ``metrics``, ``edges`` or ``pairs``."""
    fields: dict[str, FieldInfo] = dict(_MODELS[name].model_fields)
    return table(fields, extra=("since", {key: "1" if key in VERSION_1[name] else "2" for key in fields}))
