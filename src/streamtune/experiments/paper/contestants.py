"""Who takes part, each with its published settings and the same observations."""

from __future__ import annotations

from typing import Any

from streamtune.experiments.paper.contest import WIDE_BOUND, Contestant, MakeTuner
from streamtune.models.costmodel.settings import AdviceSettings
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
)
from streamtune.tuners.streamtune.settings import ClassifierName
from streamtune.tuners.zerotune import ZeroTune


def streamtune(label: str = "streamtune", *, never_seen: bool = False, **settings: Any) -> Contestant:
    """Our default, with some settings changed."""
    chosen = StreamTuneSettings(**settings)
    return Contestant(label, lambda job, known: StreamTune(job, chosen, model=known.model), never_seen)


def untrained(label: str = "streamtune, no history", **settings: Any) -> Contestant:
    """Our default without any model: a flat prior."""
    chosen = StreamTuneSettings(**settings)
    return Contestant(label, lambda job, _known: StreamTune(job, chosen))


def paper(
    classifier: ClassifierName = "svm", *, never_seen: bool = False, label: str | None = None, **changes: Any
) -> Contestant:
    """Algorithm 2 as printed, with some settings changed."""
    chosen = StreamTuneSettings.paper(classifier).model_copy(update=changes)
    return Contestant(
        label or f"paper, {classifier}", lambda job, known: PaperStreamTune(job, chosen, model=known.model), never_seen
    )


def rival(label: str, make: MakeTuner, bound: int | None = None) -> Contestant:
    return Contestant(label, make) if bound is None else Contestant(label, make, bound=bound)


DS2_PUBLISHED = rival("ds2", lambda job, _known: DS2(job))
DS2_CALIBRATED = rival("ds2-calibrated", lambda job, known: CalibratedDS2(job, known.model.capacity.saturated_busy))
CONTTUNE = rival("conttune", lambda job, _known: ContTune(job))
# Each rate is one tuning process here, so a scale-down must not wait for an hour.
AUTOSCALER = rival(
    "flink-autoscaler", lambda job, _known: FlinkAutoscaler(job, FlinkAutoscalerSettings(scale_down_interval_s=0))
)
DHALION = rival("dhalion", lambda job, _known: Dhalion(job), WIDE_BOUND)
GREEDY = rival("greedy", lambda job, _known: Greedy(job), WIDE_BOUND)
# A cost model of the same history; Eq. 1 as published, and with the resource term of `streamtune advise`.
ZEROTUNE = rival("zerotune", lambda job, known: ZeroTune(job, known.costs))
ZEROTUNE_FRUGAL = rival(
    "zerotune, resources count", lambda job, known: ZeroTune(job, known.costs, settings=AdviceSettings())
)
RIVALS = (DS2_PUBLISHED, DS2_CALIBRATED, CONTTUNE, AUTOSCALER, DHALION, GREEDY, ZEROTUNE, ZEROTUNE_FRUGAL)


def ds2_with_headroom(headroom: float) -> Contestant:
    label = f"ds2, {headroom:.0%} headroom"
    return rival(label, lambda job, _known: DS2(job, DS2Settings(scaling_factor=headroom)))


def calibrated_with_headroom(headroom: float) -> Contestant:
    return rival(
        f"ds2-calibrated, {headroom:.0%} headroom",
        lambda job, known: DS2(
            job, DS2Settings(scaling_factor=headroom, calibration=dict(known.model.capacity.saturated_busy))
        ),
    )


MAIN = (
    streamtune(),
    streamtune("streamtune, never seen", never_seen=True),
    paper("svm"),
    paper("xgboost"),
    *RIVALS,
)
