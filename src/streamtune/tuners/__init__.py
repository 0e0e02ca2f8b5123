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
    from streamtune.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "ContTune": "streamtune.tuners.conttune",
            "ContTuneSettings": "streamtune.tuners.conttune",
            "Dhalion": "streamtune.tuners.dhalion",
            "DhalionSettings": "streamtune.tuners.dhalion",
            "CalibratedDS2": "streamtune.tuners.ds2",
            "DS2": "streamtune.tuners.ds2",
            "DS2Settings": "streamtune.tuners.ds2",
            "FlinkAutoscaler": "streamtune.tuners.flink_autoscaler",
            "FlinkAutoscalerSettings": "streamtune.tuners.flink_autoscaler",
            "Greedy": "streamtune.tuners.greedy",
            "GreedySettings": "streamtune.tuners.greedy",
            "Memory": "streamtune.tuners.streamtune.memory",
            "Pretrained": "streamtune.tuners.streamtune.pretrained",
            "StreamTuneSettings": "streamtune.tuners.streamtune.settings",
            "PaperStreamTune": "streamtune.tuners.streamtune.tuner",
            "StreamTune": "streamtune.tuners.streamtune.tuner",
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
