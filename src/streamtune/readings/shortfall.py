"""Operators that cannot be called fine, whatever backpressure says.

Backpressure needs time to fill buffers and reach a source, and some sources hide it. Algorithm 1 then calls everybody
fine. An operator that is busy all the time and takes less than the sources' rates ask of it is not.
"""

from __future__ import annotations

from streamtune.dataflow import Dataflow, Observation
from streamtune.readings.capacity import SATURATED_SHARE
from streamtune.readings.demand import edge_ratios, input_rates
from streamtune.readings.metrics import hottest_busy_share
from streamtune.readings.selectivity import selectivity

# Part of the demanded rate that a busy operator may lack: rates vary, and so do their measurements.
SHORTFALL = 0.05


def saturated_and_short(dataflow: Dataflow, observation: Observation) -> frozenset[str]:
    """The operators that are saturated and take less than they are offered, by their ids."""
    known = {key: observation.operators[key] for key in dataflow.index if key in observation.operators}
    selectivities = {key: selectivity(known[key]) if key in known else 1.0 for key in dataflow.index}
    demand = input_rates(dataflow, selectivities, observation.source_rates, edge_ratios(observation))
    return frozenset(
        key
        for key, metrics in known.items()
        if hottest_busy_share(metrics) >= SATURATED_SHARE and metrics.records_in_per_s < demand[key] * (1 - SHORTFALL)
    )
