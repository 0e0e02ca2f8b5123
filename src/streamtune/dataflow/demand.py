"""What reaches each operator of a dataflow when nothing is a bottleneck."""

from __future__ import annotations

from collections.abc import Mapping

from streamtune.dataflow.graph import Dataflow


def input_rates(
    flow: Dataflow, selectivities: Mapping[str, float], source_rates: Mapping[str, float]
) -> dict[str, float]:
    """Records/s that reach every operator when nothing is a bottleneck; for a source, what it has to read.

    Every successor gets all of an operator's output; inputs add up.

    >>> flow = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> input_rates(flow, {"op0": 1.0, "op1": 0.5, "op2": 1.0}, {"op0": 100.0})
    {'op0': 100.0, 'op1': 100.0, 'op2': 50.0}
    """
    rates: dict[str, float] = {}
    for operator_id in flow.order:
        arriving = sum(rates[before] * selectivities[before] for before in flow.predecessors(operator_id))
        rates[operator_id] = source_rates.get(operator_id, arriving)
    return rates
