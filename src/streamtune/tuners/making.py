"""Tuners by name, with the models they go by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamtune.dataflow import Job
from streamtune.tuners.base import Tuner
from streamtune.tuners.registry import NEED_A_COST_MODEL, REGISTRY, check_tuner

if TYPE_CHECKING:
    from streamtune.models.costmodel.model import CostModel
    from streamtune.tuners.streamtune.pretrained import Pretrained


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

    >>> from streamtune.workloads import load
    >>> make_tuner("ds2", load("nexmark-q5").spec.job).name
    'ds2'
    >>> make_tuner("ds3", load("nexmark-q5").spec.job)
    Traceback (most recent call last):
    streamtune.errors.TuningError: unknown tuner 'ds3': choose one of conttune, dhalion, ds2, ...
    """
    check_tuner(name, has_model=model is not None, has_cost_model=cost_model is not None)
    if name in NEED_A_COST_MODEL:
        return _zerotune(job, cost_model)
    if isinstance(model, Path):
        model = load_model(model, job)
    if name in ("streamtune", "streamtune-paper"):
        from streamtune.tuners.streamtune import Memory, PaperStreamTune, StreamTune

        if name == PaperStreamTune.name:
            return PaperStreamTune(job, model=model)
        return StreamTune(job, model=model, memory=None if state is None else Memory(state, job))
    if name == "ds2-calibrated":
        from streamtune.tuners.ds2 import CalibratedDS2

        return CalibratedDS2(job, None if model is None else model.capacity.saturated_busy)
    return REGISTRY[name].load(name)(job)


def make_contestant(name: str, job: Job, *, model: Path | None = None, cost_model: Path | None = None) -> Tuner:
    """A tuner for a contest in which every rate is one tuning process: nobody waits an hour before scaling down."""
    if name == "flink-autoscaler":
        from streamtune.tuners.flink_autoscaler import FlinkAutoscaler, FlinkAutoscalerSettings

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


def load_model(path: Path, job: Job) -> Pretrained:
    """A model bundle brought to this job; loads torch."""
    from streamtune.models.assigned import AssignedModel
    from streamtune.models.bundle import ModelBundle

    return AssignedModel.of(ModelBundle.load(path), job)
