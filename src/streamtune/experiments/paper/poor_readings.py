"""``bench learning``, poor readings: what the past is worth where busy shares are missing, wrong, or not there at all.

The loop of Fig. 6 and 7a over the same eight workloads. What is poor is what a tuner sees; whether a change ended with
backpressure is judged by what really happened. The past is that of operators alone, without encoders.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from streamtune.dataflow import Job, Observation, OperatorMetrics
from streamtune.engines.simulator.settings import MeasurementError
from streamtune.experiments.coldstart.light import LightModel, light_model
from streamtune.experiments.paper import sweeps
from streamtune.experiments.paper.contest import WORKLOADS, Arena, Contestant, Judged, Knowledge, Score
from streamtune.experiments.paper.findings import Check, Finding, Shown
from streamtune.experiments.platform import Platform
from streamtune.models.transfer.model import TransferModel
from streamtune.tuners import DS2, StreamTune, StreamTuneSettings, Tuner
from streamtune.tuners.base import Recommendation

_WRONG = 0.20
_NOISE_SHARE = 2 / 3


@dataclass(frozen=True)
class Quality:
    """How good readings are: the platform's error, what a tuner is shown, and whether it uses busy shares at all."""

    label: str
    error: float = MeasurementError().bias_sigma
    show: Callable[[Observation], Observation] = lambda seen: seen
    use_busy: bool = True


def without_some_busy(seen: Observation) -> Observation:
    """Every third operator, by its name, reports no busy time, as asynchronous I/O and old sources do not."""
    operators = {
        key: _no_busy(one) if zlib.crc32(key.encode()) % 3 == 0 else one for key, one in seen.operators.items()
    }
    return seen.model_copy(update={"operators": operators})


def _no_busy(metrics: OperatorMetrics) -> OperatorMetrics:
    """What an engine still knows of it: rates, and whether it is held up."""
    held = metrics.backpressured_ms_per_s
    missing = {"busy_ms_per_s": math.nan, "idle_ms_per_s": math.nan, "busy_max_ms_per_s": None, "cpu_load": None}
    return metrics.model_copy(update={**missing, "backpressured_ms_per_s": held})


QUALITIES = (
    Quality("good readings"),
    Quality("busy shares of every third operator missing", show=without_some_busy),
    Quality("busy shares wrong by 20 %", error=_WRONG),
    Quality("labels only", use_busy=False),
)


class ShownTuner(Tuner):
    """Another tuner that is shown poorer observations."""

    name = "shown"

    def __init__(self, inner: Tuner, show: Callable[[Observation], Observation]) -> None:
        super().__init__(inner.job)
        self._inner, self._show = inner, show

    def learn(self, observation: Observation) -> None:
        self._inner.learn(self._show(observation))

    def recommend(self, observation: Observation) -> Recommendation:
        return self._inner.recommend(self._show(observation))


NO_PAST, NEVER_SEEN, OWN_PAST, RIVAL = "no past", "past, job never seen", "past, with the job's own", "DS2"


def _contestant(past: str, quality: Quality, transfer: Callable[[], TransferModel]) -> Contestant:
    settings = StreamTuneSettings(use_busy=quality.use_busy, use_encoder=False)

    def make(job: Job, _known: Knowledge) -> Tuner:
        if past == RIVAL:
            return ShownTuner(DS2(job), quality.show)
        model = None if past == NO_PAST else LightModel(transfer(), job)
        return ShownTuner(StreamTune(job, settings, model=model), quality.show)

    return Contestant(f"{past}, {quality.label}", make)


def _platform(arena: Arena, seed: int, past: str, quality: Quality) -> Platform:
    return Platform(
        seed=seed,
        runs=arena.scale.sweep_runs,
        random_jobs=arena.scale.random_jobs,
        bias_sigma=quality.error,
        noise_sigma=MeasurementError().noise_sigma if quality.error < _WRONG else quality.error * _NOISE_SHARE,
        exclude=() if past == OWN_PAST else WORKLOADS,
        clusters=False,
    )


def _played(arena: Arena, past: str, quality: Quality) -> list[Judged]:
    found: list[Judged] = []
    for seed in arena.scale.seeds:
        platform = _platform(arena, seed, past, quality)
        contestant = _contestant(past, quality, cache(partial(light_model, platform, arena.work, arena.tell)))
        multiples = arena.scale.multiples(seed)[: arena.scale.sweep_changes]
        for workload in WORKLOADS:
            found += arena.play(contestant, platform, workload, multiples, simulator=platform.simulator)
    return found


def _cell(judged: Sequence[Judged]) -> str:
    score = Score.of(judged)
    return f"{score.reconfigurations:.2f} · {score.backpressure:.1%} · {score.on_the_way:.3f} · {score.over_oracle:.3f}"


def learning(arena: Arena) -> Finding:
    """What learning from other jobs buys: by the size of the history, and where readings are poor."""
    sizes, poor = sweeps.learning(arena), poor_readings(arena)
    return replace(sizes, tables=(*poor.tables, *sizes.tables), checks=(*poor.checks, *sizes.checks))


def poor_readings(arena: Arena) -> Finding:
    """The table of reading quality against what is known of the past."""
    judged = {
        quality.label: {
            past: _played(arena, past, quality)
            for past in (NO_PAST, NEVER_SEEN, OWN_PAST, RIVAL)
            if past != RIVAL or quality.use_busy
        }
        for quality in QUALITIES
    }
    rows = tuple(
        (label, *(_cell(found[past]) if past in found else "–" for past in (NO_PAST, NEVER_SEEN, OWN_PAST, RIVAL)))
        for label, found in judged.items()
    )
    checks = []
    for quality in QUALITIES[2:]:
        without, with_past = Score.of(judged[quality.label][NO_PAST]), Score.of(judged[quality.label][OWN_PAST])
        better = with_past.reconfigurations < without.reconfigurations and with_past.over_oracle < without.over_oracle
        checks.append(
            Check(
                f"{quality.label}: fewer restarts and less parallelism with the past than without",
                f"{with_past.reconfigurations:.2f} and {with_past.over_oracle:.3f} against "
                f"{without.reconfigurations:.2f} and {without.over_oracle:.3f}",
                better,
            )
        )
    return Finding(
        name="learning-poor",
        title="What the past is worth where readings are poor",
        setting=f"{arena.scale.replace(runs=arena.scale.sweep_runs).told_short()}; {', '.join(WORKLOADS)}",
        paper="The paper's own information is labels: whether an operator is a bottleneck.",
        tables=(
            Shown(
                "restarts / change · ends with backpressure · seen on the way / change · total / oracle",
                ("readings", NO_PAST, NEVER_SEEN, OWN_PAST, RIVAL),
                rows,
            ),
        ),
        checks=tuple(checks),
    )
