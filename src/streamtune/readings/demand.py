"""The rate demanded of an operator: source rates carried through the dataflow by selectivities.

Not a feature of Table I. The paper's encoder has to learn selectivities from types and widths to know what reaches an
operator; a running job shows them (records out over records in), whatever its plan, so the rate that a plan must
sustain can be worked out. Where nothing was measured, the mean of the operator's type stands in.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Dataflow, Observation

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def demanded_rates(
    offered: Floats,
    selectivity: Floats,
    edge_source: Indices,
    edge_target: Indices,
    edge_ratio: Floats | None = None,
) -> Floats:
    """What reaches every operator of many dataflows when none is a bottleneck: N operators, E edges.

    Inputs add up. ``edge_ratio`` is records over an edge per record into its writer, NaN where nobody counted them:
    there, a reader gets all of the writer's output. ``offered`` is the rate of a source and 0 elsewhere. It takes as
    many rounds as the longest path has edges.

    >>> offered, selectivity = np.array([100.0, 0.0, 0.0]), np.array([1.0, 0.5, 1.0])
    >>> demanded_rates(offered, selectivity, np.array([0, 1]), np.array([1, 2])).tolist()
    [100.0, 100.0, 50.0]
    >>> demanded_rates(offered, selectivity, np.array([0, 1]), np.array([1, 2]), np.array([np.nan, 0.01])).tolist()
    [100.0, 100.0, 1.0]
    """
    ratio = selectivity[edge_source]
    if edge_ratio is not None:
        ratio = np.where(np.isfinite(edge_ratio), edge_ratio, ratio)
    rates = offered
    for _ in range(len(offered)):
        sent = rates[edge_source] * ratio
        carried = offered + np.bincount(edge_target, weights=sent, minlength=len(offered))
        if np.array_equal(carried, rates):
            break
        rates = carried
    return rates


def input_rates(
    flow: Dataflow,
    selectivities: Mapping[str, float],
    source_rates: Mapping[str, float],
    edge_ratios: Mapping[tuple[str, str], float] | None = None,
) -> dict[str, float]:
    """The demanded rate of every operator of one dataflow, by operator id; for a source, what it has to read.

    ``edge_ratios`` are records over an edge per record into its writer, where they are known.

    >>> flow = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> input_rates(flow, {"op0": 1.0, "op1": 0.5, "op2": 1.0}, {"op0": 100.0})
    {'op0': 100.0, 'op1': 100.0, 'op2': 50.0}
    """
    keys = tuple(flow.index)
    edges = np.array(flow.edge_indices, dtype=np.int64).reshape(-1, 2)
    rates = demanded_rates(
        np.array([source_rates.get(key, 0.0) for key in keys], dtype=np.float64),
        np.array([selectivities[key] for key in keys], dtype=np.float64),
        edges[:, 0],
        edges[:, 1],
        per_edge(flow, edge_ratios),
    )
    return dict(zip(keys, rates.tolist(), strict=True))


def per_edge(flow: Dataflow, edge_ratios: Mapping[tuple[str, str], float] | None) -> Floats | None:
    """The ratios in the order of the edges, NaN where one is not known; None where none is."""
    if not edge_ratios:
        return None
    known = (edge_ratios.get((edge.source, edge.target), np.nan) for edge in flow.edges)
    return np.fromiter(known, dtype=np.float64, count=len(flow.edges))


def edge_ratios(observation: Observation) -> dict[tuple[str, str], float]:
    """Records over every counted edge per record into its writer; edges whose writer took in nothing are left out."""
    taken = {key: metrics.records_in_per_s for key, metrics in observation.operators.items()}
    return {
        edge: rate / taken[edge[0]]
        for edge, rate in observation.edge_rates.items()
        if taken.get(edge[0], 0.0) > 0 and np.isfinite(taken[edge[0]])
    }


def carried_rates(
    flow: Dataflow,
    offered: Floats,
    selectivity: Floats,
    edge_ratios: Mapping[tuple[str, str], float] | None = None,
) -> Floats:
    """The same for one dataflow under many rates or selectivities: both M × N, in the order of its operators.

    >>> flow = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> carried_rates(flow, np.array([[100.0, 0, 0], [10.0, 0, 0]]), np.array([[1.0, 0.5, 1.0]])).tolist()
    [[100.0, 100.0, 50.0], [10.0, 10.0, 5.0]]
    """
    index = flow.index
    rates: Floats = np.broadcast_to(offered, np.broadcast_shapes(offered.shape, selectivity.shape)).copy()
    for key in flow.order:
        place = index[key]
        for before in flow.predecessors(key):
            ratio = (edge_ratios or {}).get((before, key), selectivity[:, index[before]])
            rates[:, place] += rates[:, index[before]] * ratio
    return rates
