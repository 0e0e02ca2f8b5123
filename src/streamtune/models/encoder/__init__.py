"""Pre-trained encoders: a graph neural network per cluster that sees operator-level bottlenecks.

Importing this room loads torch; nothing else in StreamTune does unless it is asked for a learned model.
"""

from streamtune.models.encoder.graphs import Batch, GraphSet, scaled_log
from streamtune.models.encoder.network import BottleneckNetwork, NetworkSettings
from streamtune.models.encoder.training import Trained, TrainingSettings, train

__all__ = [
    "Batch",
    "BottleneckNetwork",
    "GraphSet",
    "NetworkSettings",
    "Trained",
    "TrainingSettings",
    "scaled_log",
    "train",
]
