"""The methods: one file or folder each, behind one small interface.

Importing this room loads no method: names are loaded when they are used, so that DS2 needs nothing that StreamTune
needs (``registry`` says what that is).
"""

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.tuners.base import Recommendation, Tuner
    from streamtune.tuners.conttune import ContTune
    from streamtune.tuners.dhalion import Dhalion
    from streamtune.tuners.ds2 import DS2, CalibratedDS2
    from streamtune.tuners.flink_autoscaler import FlinkAutoscaler
    from streamtune.tuners.greedy import Greedy
    from streamtune.tuners.making import load_model, make_contestant, make_tuner, without_waiting
    from streamtune.tuners.registry import NEED_A_COST_MODEL, NEED_A_MODEL, TUNERS, check_tuner, tuner_names
    from streamtune.tuners.settings import (
        TUNER_SETTINGS,
        ContTuneSettings,
        DhalionSettings,
        DS2Settings,
        FlinkAutoscalerSettings,
        GreedySettings,
        ZeroTuneSettings,
    )
    from streamtune.tuners.streamtune import Memory, PaperStreamTune, Pretrained, StreamTune, StreamTuneSettings
else:
    __getattr__ = lazily(
        __name__,
        {
            "base": ["Recommendation", "Tuner"],
            "conttune": ["ContTune"],
            "dhalion": ["Dhalion"],
            "ds2": ["DS2", "CalibratedDS2"],
            "flink_autoscaler": ["FlinkAutoscaler"],
            "greedy": ["Greedy"],
            "making": ["load_model", "make_contestant", "make_tuner", "without_waiting"],
            "registry": ["NEED_A_COST_MODEL", "NEED_A_MODEL", "TUNERS", "check_tuner", "tuner_names"],
            "settings": [
                "TUNER_SETTINGS",
                "ContTuneSettings",
                "DS2Settings",
                "DhalionSettings",
                "FlinkAutoscalerSettings",
                "GreedySettings",
                "ZeroTuneSettings",
            ],
            "streamtune": ["Memory", "PaperStreamTune", "Pretrained", "StreamTune", "StreamTuneSettings"],
        },
    )

__all__ = [
    "DS2",
    "NEED_A_COST_MODEL",
    "NEED_A_MODEL",
    "TUNERS",
    "TUNER_SETTINGS",
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
    "ZeroTuneSettings",
    "check_tuner",
    "load_model",
    "make_contestant",
    "make_tuner",
    "tuner_names",
    "without_waiting",
]
