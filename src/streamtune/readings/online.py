"""Labels of one observation: what the online tuner learns from, by the same kernel as the history."""

from __future__ import annotations

import math

import numpy as np

from streamtune.dataflow import Dataflow, Observation
from streamtune.readings.demand import per_edge
from streamtune.readings.labels import OperatorBatch, label_batch
from streamtune.readings.settings import LabelSettings


def label_observation(
    dataflow: Dataflow, observation: Observation, settings: LabelSettings | None = None
) -> dict[str, int]:
    """Operator id → −1, 0 or 1. An operator that the observation does not name is −1."""
    settings = settings or LabelSettings()
    metrics = [observation.operators.get(operator.id) for operator in dataflow.operators]

    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        values = (math.nan if entry is None else getattr(entry, name) for entry in metrics)
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)

    edges = np.array(dataflow.edge_indices, dtype=np.int64).reshape(-1, 2)
    nominal = [observation.source_rates.get(operator.id, math.nan) for operator in dataflow.operators]
    labels = label_batch(
        OperatorBatch(
            run=np.zeros(len(metrics), dtype=np.int64),
            is_source=np.array([operator.is_source for operator in dataflow.operators], dtype=np.bool_),
            busy_ms_per_s=column("busy_ms_per_s"),
            idle_ms_per_s=column("idle_ms_per_s"),
            backpressured_ms_per_s=column("backpressured_ms_per_s"),
            records_in_per_s=column("records_in_per_s"),
            records_out_per_s=column("records_out_per_s"),
            nominal_per_s=np.array(nominal, dtype=np.float64),
            edge_source=edges[:, 0],
            edge_target=edges[:, 1],
            without_backpressure=np.array([not observation.reports_backpressure]),
            backlog_growth_per_s=column("backlog_growth_per_s"),
            edge_per_s=per_edge(dataflow, observation.edge_rates),
            is_guess=np.array([bool(observation.guessed_rates)]),
        ),
        settings,
    )
    return {operator.id: int(label) for operator, label in zip(dataflow.operators, labels, strict=True)}
