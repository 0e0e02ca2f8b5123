"""From a topology of the thesis, or one of our own jobs, to flows between tasks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streamtune.dataflow import Dataflow
from streamtune.placement.fluid import TaskFlows
from streamtune.placement.unroll import record_bytes, unrolled
from streamtune.workloads.placement_topologies import ACKER, Component, Floats, Link, Topology


def task_flows(topology: Topology) -> TaskFlows:
    """Every link of a topology as edges between tasks, with what each spout task's tuples become on them."""
    spouts = np.flatnonzero(topology.spout_rates > 0)
    unit = np.zeros((spouts.size, len(topology.tasks)))
    unit[np.arange(spouts.size), spouts] = 1.0
    handled = topology.handled(unit)
    sources, targets, sizes, shares = [], [], [], []
    for link in topology.links:
        rows, columns = np.nonzero(link.shares)
        sender = rows + topology.first[link.source]
        sources.append(sender)
        targets.append(columns + topology.first[link.target])
        sizes.append(np.full(rows.size, link.tuple_bytes))
        shares.append(handled[:, sender] * link.shares[rows, columns])
    answers = _answers(topology, handled)
    return TaskFlows(
        topology.tasks,
        topology.operators,
        spouts.astype(np.int64),
        topology.spout_rates[spouts],
        np.concatenate(sources).astype(np.int64),
        np.concatenate(targets).astype(np.int64),
        np.concatenate(sizes),
        np.concatenate(shares, axis=1),
        handled + answers,
    )


def _answers(topology: Topology, handled: Floats) -> Floats:
    """Acknowledgements that come back to the spouts are tuples a spout handles too."""
    extra = np.zeros_like(handled)
    for link in topology.links:
        if link.source == ACKER:
            rows = slice(topology.first[ACKER], topology.first[ACKER] + link.shares.shape[0])
            columns = slice(topology.first[link.target], topology.first[link.target] + link.shares.shape[1])
            extra[:, columns] += handled[:, rows] @ link.shares
    return extra


def job_topology(
    name: str,
    flow: Dataflow,
    plan: Mapping[str, int],
    source_rates: Mapping[str, float],
    selectivities: Mapping[str, float],
) -> Topology:
    """An ordinary job as a topology: its partitioning decides which task talks to which."""
    unit_rates = {operator.id: (1.0, 1.0) for operator in flow.operators}
    spread = unrolled(flow, plan, unit_rates, bytes_per_record={operator.id: 1.0 for operator in flow.operators})
    first = {operator.id: spread.index[f"{operator.id}-0"] for operator in flow.operators}
    components = tuple(
        Component(
            operator.id,
            plan[operator.id],
            source_rates[operator.id] * selectivities.get(operator.id, 1.0) / plan[operator.id]
            if operator.is_source
            else 0.0,
        )
        for operator in flow.operators
    )
    links = []
    for edge in flow.edges:
        a, b = plan[edge.source], plan[edge.target]
        shares = np.zeros((a, b))
        inside = (spread.sources >= first[edge.source]) & (spread.sources < first[edge.source] + a)
        inside &= (spread.targets >= first[edge.target]) & (spread.targets < first[edge.target] + b)
        np.add.at(
            shares,
            (spread.sources[inside] - first[edge.source], spread.targets[inside] - first[edge.target]),
            spread.bytes_per_s[inside],
        )
        # The graph spreads the operator's whole output; a link wants it per tuple of one task.
        factor = 1.0 if flow.operator(edge.source).is_source else selectivities.get(edge.source, 1.0)
        links.append(Link(edge.source, edge.target, shares * a * factor, record_bytes(flow.operator(edge.source))))
    return Topology(name, components, tuple(links))
