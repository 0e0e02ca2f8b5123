"""The methods: one file each, behind one small interface."""

from streamtune.dataflow import Job
from streamtune.errors import TuningError
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.conttune import ContTune, ContTuneSettings
from streamtune.tuners.dhalion import Dhalion, DhalionSettings
from streamtune.tuners.ds2 import DS2, CalibratedDS2, DS2Settings
from streamtune.tuners.flink_autoscaler import FlinkAutoscaler, FlinkAutoscalerSettings
from streamtune.tuners.greedy import Greedy, GreedySettings

TUNERS: dict[str, type[Tuner]] = {
    tuner.name: tuner for tuner in (DS2, CalibratedDS2, ContTune, FlinkAutoscaler, Dhalion, Greedy)
}


def make_tuner(name: str, job: Job) -> Tuner:
    """The tuner of that name with its published settings."""
    if name not in TUNERS:
        raise TuningError(f"unknown tuner '{name}': choose one of {', '.join(sorted(TUNERS))}")
    return TUNERS[name](job)


__all__ = [
    "DS2",
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
    "Recommendation",
    "Tuner",
    "make_tuner",
]
