"""Who takes part, each with its published settings and the same observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtune.benchmark.paper.contest import WIDE_BOUND, Contestant
from streamtune.dataflow import Job
from streamtune.encoder.assigned import AssignedModel
from streamtune.tuners import (
    DS2,
    CalibratedDS2,
    ContTune,
    Dhalion,
    DS2Settings,
    FlinkAutoscaler,
    FlinkAutoscalerSettings,
    Greedy,
    PaperStreamTune,
    StreamTune,
    StreamTuneSettings,
    Tuner,
)


def streamtune(label: str = "streamtune", *, never_seen: bool = False, **settings: Any) -> Contestant:
    """Our default, with some settings changed."""
    chosen = StreamTuneSettings(**settings)
    return Contestant(label, lambda job, model: StreamTune(job, chosen, model=model), never_seen)


def untrained(label: str = "streamtune, no history", **settings: Any) -> Contestant:
    """Our default without any model: a flat prior."""
    chosen = StreamTuneSettings(**settings)
    return Contestant(label, lambda job, _model: StreamTune(job, chosen))


def paper(classifier: str = "svm", *, never_seen: bool = False, label: str | None = None, **changes: Any) -> Contestant:
    """Algorithm 2 as printed, with some settings changed."""
    chosen = StreamTuneSettings.paper(classifier).model_copy(update=changes)
    return Contestant(
        label or f"paper, {classifier}", lambda job, model: PaperStreamTune(job, chosen, model=model), never_seen
    )


def rival(label: str, make: Callable[[Job, AssignedModel], Tuner], bound: int | None = None) -> Contestant:
    return Contestant(label, make) if bound is None else Contestant(label, make, bound=bound)


DS2_PUBLISHED = rival("ds2", lambda job, _model: DS2(job))
DS2_CALIBRATED = rival("ds2-calibrated", lambda job, model: CalibratedDS2(job, model.capacity.saturated_busy))
CONTTUNE = rival("conttune", lambda job, _model: ContTune(job))
# Each rate is one tuning process here, so a scale-down must not wait for an hour.
AUTOSCALER = rival(
    "flink-autoscaler", lambda job, _model: FlinkAutoscaler(job, FlinkAutoscalerSettings(scale_down_interval_s=0))
)
DHALION = rival("dhalion", lambda job, _model: Dhalion(job), WIDE_BOUND)
GREEDY = rival("greedy", lambda job, _model: Greedy(job), WIDE_BOUND)
RIVALS = (DS2_PUBLISHED, DS2_CALIBRATED, CONTTUNE, AUTOSCALER, DHALION, GREEDY)


def ds2_with_headroom(headroom: float) -> Contestant:
    label = f"ds2, {headroom:.0%} headroom"
    return rival(label, lambda job, _model: DS2(job, DS2Settings(scaling_factor=headroom)))


def calibrated_with_headroom(headroom: float) -> Contestant:
    return rival(
        f"ds2-calibrated, {headroom:.0%} headroom",
        lambda job, model: DS2(
            job, DS2Settings(scaling_factor=headroom, calibration=dict(model.capacity.saturated_busy))
        ),
    )


MAIN = (
    streamtune(),
    streamtune("streamtune, never seen", never_seen=True),
    paper("svm"),
    paper("xgboost"),
    *RIVALS,
)
