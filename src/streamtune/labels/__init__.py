"""Bottleneck labels: Algorithm 1 of the StreamTune paper, one implementation for Spark batches and online tuners."""

from streamtune.labels.kernel import BOTTLENECK, FINE, UNLABELLED, LabelSettings, OperatorBatch, label_batch
from streamtune.labels.online import label_observation

__all__ = [
    "BOTTLENECK",
    "FINE",
    "UNLABELLED",
    "LabelSettings",
    "OperatorBatch",
    "label_batch",
    "label_observation",
]
