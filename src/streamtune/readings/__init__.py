"""What an observation says: bottleneck labels, selectivity, demand and capacity, by one kernel for Spark and online."""

from streamtune.readings.labels import BOTTLENECK, FINE, UNLABELLED, LabelSettings, OperatorBatch, label_batch
from streamtune.readings.online import label_observation

__all__ = [
    "BOTTLENECK",
    "FINE",
    "UNLABELLED",
    "LabelSettings",
    "OperatorBatch",
    "label_batch",
    "label_observation",
]
