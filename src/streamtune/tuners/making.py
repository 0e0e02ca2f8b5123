"""Tuners by name, with their settings and the models they go by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamtune.dataflow import Job
from streamtune.errors import TuningError
from streamtune.settings import Settings
from streamtune.tuners.base import Tuner
from streamtune.tuners.registry import NEED_A_COST_MODEL, REGISTRY, check_tuner
from streamtune.tuners.settings import TUNER_SETTINGS, FlinkAutoscalerSettings

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
    settings: Settings | None = None,
) -> Tuner:
    """The tuner of that name, with its published settings unless others are given (``TUNER_SETTINGS`` has the classes).

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
    kind = TUNER_SETTINGS[name]
    if settings is not None and not isinstance(settings, kind):
        raise TuningError(f"'{name}' takes {kind.__name__}, but got {type(settings).__name__}")
    if name in NEED_A_COST_MODEL:
        return _zerotune(job, cost_model, settings)
    if isinstance(model, Path):
        model = load_model(model, job)
    chosen: Any = settings or kind()  # checked above; each tuner takes its own class
    if name in ("streamtune", "streamtune-paper"):
        return _streamtune(name, job, chosen, model, state)
    if name == "ds2-calibrated":
        from streamtune.tuners.ds2 import CalibratedDS2

        return CalibratedDS2(job, None if model is None else model.capacity.saturated_busy, chosen)
    make: Callable[[Job, Settings], Tuner] = REGISTRY[name].load(name)
    return make(job, chosen)


def without_waiting(name: str, settings: Settings | None = None) -> Settings | None:
    """Settings for runs in which every rate is one tuning process: nobody waits an hour before scaling down.

    ``tune`` and ``compare`` on the simulator and on Timely both go by it, unless a config file says how long to wait;
    on a Flink that runs for days the published hour counts.

    >>> without_waiting("flink-autoscaler").scale_down_interval_s, without_waiting("ds2")
    (0.0, None)
    """
    if name != "flink-autoscaler":
        return settings
    return (settings or FlinkAutoscalerSettings()).replace(scale_down_interval_s=0)


def make_contestant(
    name: str,
    job: Job,
    *,
    model: Path | None = None,
    cost_model: Path | None = None,
    settings: Settings | None = None,
) -> Tuner:
    """A tuner for a contest in which every rate is one tuning process."""
    settings = without_waiting(name, settings)
    return make_tuner(name, job, model=model, cost_model=cost_model, settings=settings)


def _streamtune(name: str, job: Job, settings: Any, model: Pretrained | None, state: Path | None) -> Tuner:
    """Loads SciPy and scikit-learn."""
    from streamtune.tuners.streamtune import Memory, PaperStreamTune, StreamTune

    if name == PaperStreamTune.name:
        return PaperStreamTune(job, settings, model=model)
    return StreamTune(job, settings, model=model, memory=None if state is None else Memory(state, job))


def _zerotune(job: Job, cost_model: Path | CostModel | None, settings: Any) -> Tuner:
    """Loads torch."""
    from streamtune.models.costmodel.model import CostModel
    from streamtune.tuners.zerotune import ZeroTune

    if isinstance(cost_model, Path):
        cost_model = CostModel.load(cost_model)
    assert cost_model is not None
    return ZeroTune(job, cost_model, settings=settings)


def load_model(path: Path, job: Job) -> Pretrained:
    """A model bundle brought to this job; loads torch."""
    from streamtune.models.assigned import AssignedModel
    from streamtune.models.bundle import ModelBundle

    return AssignedModel.of(ModelBundle.load(path), job)
