"""From rates and physics to needs: what reaches each operator, and the parallelism that serves it."""

from __future__ import annotations

from collections.abc import Mapping

from streamtune.dataflow.graph import Dataflow
from streamtune.dataflow.physics import OperatorPhysics

# A capacity that misses a rate by float noise alone still serves it.
_ROUNDING = 1e-9


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


def smallest_parallelism(physics: OperatorPhysics, rate_per_s: float, limit: int) -> int | None:
    """The smallest parallelism up to ``limit`` whose capacity is at least ``rate_per_s``; None if there is none.

    >>> smallest_parallelism(OperatorPhysics(service_us=1000), 3500, 100)
    4
    """
    for parallelism in range(1, limit + 1):
        if physics.capacity_per_s(parallelism) >= rate_per_s * (1 - _ROUNDING):
            return parallelism
    return None
