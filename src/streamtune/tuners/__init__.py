"""The methods: one file or folder each, behind one small interface."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamtune.dataflow import Job
from streamtune.errors import TuningError
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.conttune import ContTune, ContTuneSettings
from streamtune.tuners.dhalion import Dhalion, DhalionSettings
from streamtune.tuners.ds2 import DS2, CalibratedDS2, DS2Settings
from streamtune.tuners.flink_autoscaler import FlinkAutoscaler, FlinkAutoscalerSettings
from streamtune.tuners.greedy import Greedy, GreedySettings
from streamtune.tuners.streamtune import Memory, PaperStreamTune, Pretrained, StreamTune, StreamTuneSettings

if TYPE_CHECKING:
    from streamtune.models.costmodel.model import CostModel

# Every one of these can be made from a job alone.
TUNERS: dict[str, type[Tuner]] = {
    tuner.name: tuner for tuner in (StreamTune, DS2, CalibratedDS2, ContTune, FlinkAutoscaler, Dhalion, Greedy)
}
NEED_A_MODEL = (PaperStreamTune.name,)
NEED_A_COST_MODEL = ("zerotune",)


def tuner_names() -> list[str]:
    return [*TUNERS, *NEED_A_MODEL, *NEED_A_COST_MODEL]


def make_tuner(
    name: str,
    job: Job,
    *,
    model: Path | Pretrained | None = None,
    cost_model: Path | CostModel | None = None,
    state: Path | None = None,
) -> Tuner:
    """The tuner of that name with its published settings.

    ``model`` (a bundle, or one already assigned to the job), ``cost_model`` and ``state`` serve the tuners that can use
    them.
    """
    check_tuner(name, has_model=model is not None, has_cost_model=cost_model is not None)
    if name in NEED_A_COST_MODEL:
        return _zerotune(job, cost_model)
    if isinstance(model, Path):
        model = load_model(model, job)
    if name == StreamTune.name:
        return StreamTune(job, model=model, memory=None if state is None else Memory(state, job))
    if name == PaperStreamTune.name:
        return PaperStreamTune(job, model=model)
    if name == CalibratedDS2.name:
        return CalibratedDS2(job, None if model is None else model.capacity.saturated_busy)
    return TUNERS[name](job)


def make_contestant(name: str, job: Job, *, model: Path | None = None, cost_model: Path | None = None) -> Tuner:
    """A tuner for a contest in which every rate is one tuning process: nobody waits an hour before scaling down."""
    if name == FlinkAutoscaler.name:
        return FlinkAutoscaler(job, FlinkAutoscalerSettings(scale_down_interval_s=0))
    return make_tuner(name, job, model=model, cost_model=cost_model)


def _zerotune(job: Job, cost_model: Path | CostModel | None) -> Tuner:
    """Loads torch."""
    from streamtune.models.costmodel.model import CostModel
    from streamtune.tuners.zerotune import ZeroTune

    if isinstance(cost_model, Path):
        cost_model = CostModel.load(cost_model)
    assert cost_model is not None
    return ZeroTune(job, cost_model)


def check_tuner(name: str, *, has_model: bool, has_cost_model: bool = False) -> None:
    """Refuse a tuner that cannot be made, before anything starts."""
    if name not in tuner_names():
        raise TuningError(f"unknown tuner '{name}': choose one of {', '.join(sorted(tuner_names()))}")
    if name in NEED_A_MODEL and not has_model:
        raise TuningError(f"'{name}' needs a model: give --model; 'streamtune pretrain' makes one")
    if name in NEED_A_COST_MODEL and not has_cost_model:
        raise TuningError(f"'{name}' needs a cost model: give --cost-model; 'streamtune costmodel train' makes one")


def load_model(path: Path, job: Job) -> Pretrained:
    """A model bundle brought to this job; loads torch."""
    from streamtune.models.assigned import AssignedModel
    from streamtune.models.bundle import ModelBundle

    return AssignedModel.of(ModelBundle.load(path), job)


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
