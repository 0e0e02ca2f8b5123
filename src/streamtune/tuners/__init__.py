"""The methods: one file or folder each, behind one small interface.

Importing this room loads no method: names are loaded when they are used, so that DS2 needs nothing that StreamTune
needs (``registry`` says what that is).
"""

from typing import TYPE_CHECKING

from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.making import load_model, make_contestant, make_tuner
from streamtune.tuners.registry import NEED_A_COST_MODEL, NEED_A_MODEL, TUNERS, check_tuner, tuner_names

if TYPE_CHECKING:
    from streamtune.tuners.conttune import ContTune, ContTuneSettings
    from streamtune.tuners.dhalion import Dhalion, DhalionSettings
    from streamtune.tuners.ds2 import DS2, CalibratedDS2, DS2Settings
    from streamtune.tuners.flink_autoscaler import FlinkAutoscaler, FlinkAutoscalerSettings
    from streamtune.tuners.greedy import Greedy, GreedySettings
    from streamtune.tuners.streamtune.memory import Memory
    from streamtune.tuners.streamtune.pretrained import Pretrained
    from streamtune.tuners.streamtune.settings import StreamTuneSettings
    from streamtune.tuners.streamtune.tuner import PaperStreamTune, StreamTune
else:
    from streamtune.lazy import lazily

    __getattr__ = lazily(
        __name__,
        {
            "conttune": ["ContTune", "ContTuneSettings"],
            "dhalion": ["Dhalion", "DhalionSettings"],
            "ds2": ["DS2", "CalibratedDS2", "DS2Settings"],
            "flink_autoscaler": ["FlinkAutoscaler", "FlinkAutoscalerSettings"],
            "greedy": ["Greedy", "GreedySettings"],
            "streamtune.memory": ["Memory"],
            "streamtune.pretrained": ["Pretrained"],
            "streamtune.settings": ["StreamTuneSettings"],
            "streamtune.tuner": ["PaperStreamTune", "StreamTune"],
        },
    )

__all__ = [
    "DS2",
    "NEED_A_COST_MODEL",
    "NEED_A_MODEL",
    "TUNERS",
    "CalibratedDS2",
    "ContTune",
    "ContTuneSettings",
    "DS2Settings",
    "Dhalion",
    "DhalionSettings",
    "FlinkAutoscaler",
    "FlinkAutoscalerSettings",
    "Greedy",
    "GreedySettings",
    "Memory",
    "PaperStreamTune",
    "Pretrained",
    "Recommendation",
    "StreamTune",
    "StreamTuneSettings",
    "Tuner",
    "check_tuner",
    "load_model",
    "make_contestant",
    "make_tuner",
    "tuner_names",
]
