"""Every tuner by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamtune.dataflow import Job
from streamtune.errors import TuningError
from streamtune.settings import Settings
from streamtune.tuners.base import Tuner
from streamtune.tuners.conttune import ContTune
from streamtune.tuners.dhalion import Dhalion
from streamtune.tuners.ds2 import DS2, CalibratedDS2
from streamtune.tuners.flink_autoscaler import FlinkAutoscaler
from streamtune.tuners.greedy import Greedy
from streamtune.tuners.settings import TUNER_SETTINGS, FlinkAutoscalerSettings
from streamtune.tuners.streamtune import Memory, PaperStreamTune, Pretrained, StreamTune

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
    settings: Settings | None = None,
) -> Tuner:
    """The tuner of that name, with its published settings unless others are given (``TUNER_SETTINGS`` has the classes).

    ``model`` (a bundle, or one already assigned to the job), ``cost_model`` and ``state`` serve the tuners that can use
    them.
    """
    check_tuner(name, has_model=model is not None, has_cost_model=cost_model is not None)
    kind = TUNER_SETTINGS[name]
    if settings is not None and not isinstance(settings, kind):
        raise TuningError(f"'{name}' takes {kind.__name__}, but got {type(settings).__name__}")
    if name in NEED_A_COST_MODEL:
        return _zerotune(job, cost_model, settings)
    if isinstance(model, Path):
        model = load_model(model, job)
    chosen: Any = settings or kind()  # checked above; each tuner takes its own class
    if name == StreamTune.name:
        return StreamTune(job, chosen, model=model, memory=None if state is None else Memory(state, job))
    if name == PaperStreamTune.name:
        return PaperStreamTune(job, chosen, model=model)
    if name == CalibratedDS2.name:
        return CalibratedDS2(job, None if model is None else model.capacity.saturated_busy, chosen)
    make: Callable[[Job, Settings], Tuner] = TUNERS[name]
    return make(job, chosen)


def make_contestant(
    name: str,
    job: Job,
    *,
    model: Path | None = None,
    cost_model: Path | None = None,
    settings: Settings | None = None,
) -> Tuner:
    """A tuner for a contest in which every rate is one tuning process: nobody waits an hour before scaling down."""
    if name == FlinkAutoscaler.name:
        settings = (settings or FlinkAutoscalerSettings()).replace(scale_down_interval_s=0)
    return make_tuner(name, job, model=model, cost_model=cost_model, settings=settings)


def _zerotune(job: Job, cost_model: Path | CostModel | None, settings: Any) -> Tuner:
    """Loads torch."""
    from streamtune.models.costmodel.model import CostModel
    from streamtune.tuners.zerotune import ZeroTune

    if isinstance(cost_model, Path):
        cost_model = CostModel.load(cost_model)
    assert cost_model is not None
    return ZeroTune(job, cost_model, settings=settings)


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
