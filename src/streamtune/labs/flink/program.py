"""From a job spec and a plan to the argument of the Java job, and the file its sources read their rates from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamtune.dataflow import Plan
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.flink.published import JOB_PARAMETER, RATES_PARAMETER
from streamtune.errors import EngineError
from streamtune.labs.flink.settings import WorkloadSettings


def program_argument(spec: JobSpec, plan: Plan, rates_file: Path, settings: WorkloadSettings) -> str:
    """The job as the JSON that ``EmulatedJob.java`` reads."""
    if spec.physics is None:
        raise EngineError(f"job '{spec.job.name}' has no physics: the Flink workload needs it to emulate operators")
    if any(one.shares for one in spec.physics.values()):
        raise EngineError(f"job '{spec.job.name}' has shares in its physics, which only the simulator emulates")
    spec.job.check_plan(plan)
    flow = spec.job.dataflow
    partitioning = {(edge.source, edge.target): edge.partitioning for edge in flow.edges}
    operators: list[dict[str, Any]] = []
    for key in flow.order:
        operator = flow.operator(key)
        entry: dict[str, Any] = {
            "id": key,
            "type": operator.type,
            "parallelism": plan[key],
            "inputs": [{"from": one, "partitioning": partitioning[one, key]} for one in flow.predecessors(key)],
            "physics": spec.physics[key].model_dump(mode="json", exclude={"shares"}),
        }
        if operator.window is not None:
            entry["window"] = operator.window.model_dump(mode="json")
        if operator.is_source:
            entry["rate"] = operator.rate
            if settings.limit is not None:
                entry["limit"] = settings.limit
        operators.append(entry)
    shown = JobSpec(spec.job).to_mapping()
    return json.dumps(
        {
            "name": spec.job.name,
            "operators": operators,
            "key_groups": settings.key_groups,
            "checkpoint_ms": round(1000 * settings.checkpoint_s),
            "rates_file": str(rates_file),
            "shown": {JOB_PARAMETER: json.dumps(shown), RATES_PARAMETER: str(rates_file)},
        }
    )
