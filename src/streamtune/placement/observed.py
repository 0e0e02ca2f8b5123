"""From what an engine observed to a graph, and from a placement back to a plan."""

from __future__ import annotations

import numpy as np

from streamtune.dataflow import Observation, Plan
from streamtune.dataflow.plan import Instance
from streamtune.placement.graph import CommunicationGraph, PlacementError
from streamtune.placement.problem import Placement


def observed_graph(observation: Observation) -> CommunicationGraph:
    """The communication graph as measured: tasks ``operator/number``, loads in records/s in and out (Section 3.3).

    Only for engines that report what goes from instance to instance; ``unroll`` works it out for the others.
    """
    pairs = observation.instance_pairs
    if not pairs:
        raise PlacementError(
            "the engine does not report what goes from instance to instance: work the graph out from rates (unroll)"
        )
    instances = [Instance(key, n) for key, seen in observation.operators.items() for n in range(seen.parallelism)]
    index = {instance: place for place, instance in enumerate(instances)}
    sources = np.array([index[Instance(pair.source, pair.source_instance)] for pair in pairs], dtype=np.int64)
    targets = np.array([index[Instance(pair.target, pair.target_instance)] for pair in pairs], dtype=np.int64)
    records = np.array([pair.records_per_s or 0.0 for pair in pairs])
    loads = sum(np.bincount(ends, weights=records, minlength=len(instances)) for ends in (sources, targets))
    return CommunicationGraph.from_arrays(
        [str(instance) for instance in instances],
        np.asarray(loads, dtype=np.float64),
        sources,
        targets,
        [pair.bytes_per_s or 0.0 for pair in pairs],
        operators=[instance.operator for instance in instances],
    )


def placed_plan(plan: Plan, placed: Placement) -> Plan:
    """The same plan with the placement of a graph whose tasks are called ``operator/number``."""
    return plan.replace(placement={Instance.parse(task): host for task, host in placed.assignment.items()})
