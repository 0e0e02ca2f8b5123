"""The rate demanded of an operator: source rates carried through the dataflow by selectivities.

Not a feature of Table I. The paper's encoder has to learn selectivities from types and widths to know what reaches an
operator; a running job shows them (records out over records in), whatever its plan, so the rate that a plan must
sustain can be worked out. Where nothing was measured, the mean of the operator's type stands in.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Dataflow

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def demanded_rates(offered: Floats, selectivity: Floats, edge_source: Indices, edge_target: Indices) -> Floats:
    """What reaches every operator of many dataflows when none is a bottleneck: N operators, E edges.

    Every successor gets all of an operator's output; inputs add up. ``offered`` is the rate of a source and 0
    elsewhere. It takes as many rounds as the longest path has edges.

    >>> offered, selectivity = np.array([100.0, 0.0, 0.0]), np.array([1.0, 0.5, 1.0])
    >>> demanded_rates(offered, selectivity, np.array([0, 1]), np.array([1, 2])).tolist()
    [100.0, 100.0, 50.0]
    """
    rates = offered
    for _ in range(len(offered)):
        sent = (rates * selectivity)[edge_source]
        carried = offered + np.bincount(edge_target, weights=sent, minlength=len(offered))
        if np.array_equal(carried, rates):
            break
        rates = carried
    return rates


def input_rates(
    flow: Dataflow, selectivities: Mapping[str, float], source_rates: Mapping[str, float]
) -> dict[str, float]:
    """The demanded rate of every operator of one dataflow, by operator id; for a source, what it has to read.

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
    )
    return dict(zip(keys, rates.tolist(), strict=True))
