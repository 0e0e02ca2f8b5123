"""OptiSample: parallelism from estimated rates (ZeroTune Section IV, Algorithm 1, Definitions 3 to 8).

Source rates are carried through the DAG by *estimated* selectivities (Definitions 3 to 6); an operator gets
P = sf · In_ER instances (Definitions 7 and 8), with one scaling factor sf per operator type, found empirically from
when operators of that type are saturated. Estimates are off on purpose: so training also sees inefficient plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from streamtune.dataflow import Job, Observation, Operator
from streamtune.dataflow.chaining import grouping_numbers
from streamtune.readings.demand import demanded_rates
from streamtune.readings.selectivity import selectivity as selectivity_of

# An operator this busy runs at what its instances can do.
SATURATED = 0.9
# Instances are sized to be busy for this share of the time.
TARGET_BUSY = 0.8


def estimated_selectivity(operator: Operator, usual: Mapping[str, float]) -> float:
    """Definitions 4 to 6 before anything ran: what a count window emits, else what is usual for the type.

    >>> from streamtune.dataflow import Window
    >>> window = Window(type="tumbling", policy="count", length=10)
    >>> estimated_selectivity(Operator(id="a", type="window_aggregate", window=window), {})
    0.1
    """
    window = operator.window
    if operator.type == "window_aggregate" and window is not None and window.policy == "count":
        return 1.0 / window.period
    return usual.get(operator.type, 1.0)


@dataclass(frozen=True)
class OptiSample:
    """Scaling factors (instances per record/s) and usual selectivities by operator type.

    >>> from streamtune.dataflow import Dataflow
    >>> flow = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> source = flow.operators[0].model_copy(update={"rate": 1000.0})
    >>> job = Job("j", Dataflow((source, *flow.operators[1:]), flow.edges))
    >>> OptiSample({"filter": 0.004, "sink": 0.001}, {"filter": 0.5}).degrees(job, 100)
    {'op0': 1, 'op1': 4, 'op2': 1}
    """

    scaling: Mapping[str, float]
    selectivity: Mapping[str, float] = field(default_factory=dict)

    def degrees(
        self,
        job: Job,
        limit: int,
        *,
        rates: Mapping[str, float] | None = None,
        known: Mapping[str, float] | None = None,
        scale: Mapping[str, float] | float = 1.0,
    ) -> dict[str, int]:
        """Algorithm 1. ``known`` selectivities replace estimates; ``scale`` stretches the result, for exploration."""
        flow, seen = job.dataflow, known or {}
        selectivity = [
            seen.get(operator.id, estimated_selectivity(operator, self.selectivity)) for operator in flow.operators
        ]
        offered = rates or job.source_rates
        edges = np.array(flow.edge_indices, dtype=np.int64).reshape(-1, 2)
        demand = demanded_rates(
            np.array([offered.get(operator.id, 0.0) for operator in flow.operators]),
            np.array(selectivity),
            edges[:, 0],
            edges[:, 1],
        )
        degrees = {}
        for operator, rate_per_s in zip(flow.operators, demand.tolist(), strict=True):
            stretch = scale if isinstance(scale, int | float) else scale.get(operator.id, 1.0)
            wanted = self.scaling.get(operator.type, 0.0) * rate_per_s * stretch
            degrees[operator.id] = int(np.clip(np.ceil(wanted - 1e-9), 1, limit))
        return degrees

    @classmethod
    def calibrated(cls, runs: Iterable[tuple[Job, Observation]]) -> OptiSample:
        """The footnote to Definition 7: sf from operators that were saturated in some runs, by type."""
        factors: dict[str, list[float]] = {}
        selectivities: dict[str, list[float]] = {}
        for job, seen in runs:
            grouping = grouping_numbers(job.dataflow, [seen.plan[key] for key in job.dataflow.index])
            for operator, grouped in zip(job.dataflow.operators, grouping.tolist(), strict=True):
                metrics = seen.operators[operator.id]
                if metrics.records_in_per_s <= 0:
                    continue
                # In a chain, busy time is that of the whole thread.
                if metrics.busy_share > SATURATED and grouped == 1:
                    per_record = metrics.parallelism / metrics.records_in_per_s / TARGET_BUSY
                    factors.setdefault(operator.type, []).append(per_record)
                if metrics.records_out_per_s > 0:
                    selectivities.setdefault(operator.type, []).append(selectivity_of(metrics))
        return cls(
            {kind: float(np.median(values)) for kind, values in sorted(factors.items())},
            {kind: float(np.exp(np.mean(np.log(values)))) for kind, values in sorted(selectivities.items())},
        )
