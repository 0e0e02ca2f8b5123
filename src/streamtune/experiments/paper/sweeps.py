"""Curves instead of points: measurement error, headroom, safety quantile, scaling law, rate jitter, history size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean
from typing import Any

from streamtune.engines.simulator.settings import MeasurementError
from streamtune.experiments.paper.certainty import Certainty
from streamtune.experiments.paper.contest import WORKLOADS, Arena, Contestant, Judged, Score
from streamtune.experiments.paper.contestants import (
    RIVALS,
    calibrated_with_headroom,
    ds2_with_headroom,
    streamtune,
    untrained,
)
from streamtune.experiments.paper.curve_families import FAMILIES, with_family
from streamtune.experiments.paper.findings import Check, Finding, Shown, curves
from streamtune.experiments.platform import Platform
from streamtune.tuners import StreamTuneSettings
from streamtune.workloads import rates

ERRORS = (0.0, 0.03, 0.06, 0.10, 0.20)
# The share of the noise in the error; the default error has a bias of 3 % and a noise of 2 %.
_NOISE_SHARE = 2 / 3
QUANTILES = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
HEADROOMS = (0.0, 0.05, 0.10, 0.15, 0.20, 0.30)
JITTERS = (0.0, 0.05, 0.10, 0.20, 0.30)
SIZES = (300, 1_000, 3_000, 10_000)
# Jobs that no benchmark is scored on: the safety quantile is chosen with them.
VALIDATION_JOBS = tuple(f"random-{number}" for number in range(5_000, 5_040))

_Measure = dict[str, Callable[[Score], float]]
MEASURES: _Measure = {
    "restarts / change": lambda score: score.reconfigurations,
    "% ends with backpressure": lambda score: 100 * score.backpressure,
    "total / oracle": lambda score: score.over_oracle,
}


PlatformOf = Callable[[int], Platform]


def _platforms(arena: Arena, error: float | None = None, runs: int | None = None) -> PlatformOf:
    """The platform of each seed. No clusters: what differs between sweeps is not the encoder."""
    default = MeasurementError()

    def of_seed(seed: int) -> Platform:
        return Platform(
            seed=seed,
            runs=runs or arena.scale.sweep_runs,
            random_jobs=arena.scale.random_jobs,
            bias_sigma=default.bias_sigma if error is None else error,
            noise_sigma=default.noise_sigma if error is None else error * _NOISE_SHARE,
            clusters=False,
        )

    return of_seed


def _score(
    arena: Arena,
    contestant: Contestant,
    platform_of: PlatformOf,
    workloads: Sequence[str] = WORKLOADS,
    *,
    jitter: float | None = None,
    family: str | None = None,
) -> Score:
    return Score.of(_judged(arena, contestant, platform_of, workloads, jitter=jitter, family=family))


def _judged(
    arena: Arena,
    contestant: Contestant,
    platform_of: PlatformOf,
    workloads: Sequence[str] = WORKLOADS,
    *,
    jitter: float | None = None,
    family: str | None = None,
) -> list[Judged]:
    multiples = (rates.cycle() * 2)[: arena.scale.sweep_changes]
    judged = []
    for seed in arena.scale.seeds:
        platform = platform_of(seed)
        simulator = platform.simulator
        if jitter is not None:
            simulator = simulator.model_copy(update={"rate_cv": jitter})
        for workload in workloads:
            judged += arena.play(
                contestant,
                platform,
                workload,
                multiples,
                simulator=simulator,
                variant=family or ("" if jitter is None else f"jitter {jitter:g}"),
                change=(lambda spec: spec) if family is None else partial(with_family, family=FAMILIES[family]),
            )
    return judged


def _table(title: str, head: str, points: Sequence[str], scores: dict[str, list[Score]]) -> Shown:
    rows = []
    for label, found in scores.items():
        cells = [f"{s.reconfigurations:.2f} · {s.backpressure:.1%} · {s.over_oracle:.3f}" for s in found]
        rows.append((label, *cells))
    return Shown(f"{title}: restarts per change · backpressure left · total / oracle", (head, *points), tuple(rows))


def _panels(scores: dict[str, list[Score]]) -> dict[str, dict[str, Sequence[float]]]:
    return {
        name: {label: [measure(score) for score in found] for label, found in scores.items()}
        for name, measure in MEASURES.items()
    }


def _setting(arena: Arena) -> str:
    seeds = ", ".join(map(str, arena.scale.seeds))
    return (
        f"eight workloads, {arena.scale.sweep_changes} changes each, seeds {seeds}, "
        f"histories of {arena.scale.sweep_runs:,} runs"
    )


def error_sweep(arena: Arena) -> Finding:
    contestants = (streamtune(), untrained(), *RIVALS)
    scores = {one.label: [_score(arena, one, _platforms(arena, error)) for error in ERRORS] for one in contestants}
    exact_ds2 = scores["ds2"][0]
    points = [f"{error:.0%}" for error in ERRORS]
    return Finding(
        name="sweep-error",
        title="Measurement error of useful time from 0 to 20 %",
        setting=f"{_setting(arena)}; the spread of the bias per type, noise is two thirds of it",
        paper="DS2 and ContTune suffer from useful time that is measured inaccurately (Section V-C); no figures.",
        tables=(_table("error", "tuner", points, scores),),
        pictures=(curves([100 * error for error in ERRORS], _panels(scores), "measurement error, %"),),
        checks=(
            Check(
                "without error DS2 is near the oracle: the harness does not handicap it",
                f"{exact_ds2.over_oracle:.3f} × the oracle, {exact_ds2.backpressure:.1%} end with backpressure "
                "(key skew, which means over subtasks hide)",
                0.97 <= exact_ds2.over_oracle <= 1.03,
            ),
        ),
    )


def headroom_sweep(arena: Arena) -> Finding:
    makers = {"ds2": ds2_with_headroom, "ds2-calibrated": calibrated_with_headroom}
    scores = {
        name: [_score(arena, make(headroom), _platforms(arena)) for headroom in HEADROOMS]
        for name, make in makers.items()
    }
    ours = _score(arena, streamtune(), _platforms(arena))
    scores["streamtune (has none)"] = [ours] * len(HEADROOMS)
    return Finding(
        name="sweep-headroom",
        title="Headroom of DS2 from 0 to 30 %",
        setting=_setting(arena),
        paper="",
        tables=(_table("headroom", "tuner", [f"{h:.0%}" for h in HEADROOMS], scores),),
        pictures=(curves([100 * h for h in HEADROOMS], _panels(scores), "headroom, %"),),
    )


def quantile_sweep(arena: Arena) -> Finding:
    """On validation jobs first, which is where the default comes from, then on the eight workloads."""
    judged = {
        name: [
            _judged(arena, streamtune(f"streamtune, q {q:g}", quantile=q), _platforms(arena), jobs) for q in QUANTILES
        ]
        for name, jobs in {"validation jobs": VALIDATION_JOBS, "the eight workloads": WORKLOADS}.items()
    }
    scores = {name: [Score.of(some) for some in found] for name, found in judged.items()}
    default = StreamTuneSettings().quantile
    rule = Certainty.chosen(QUANTILES, judged["validation jobs"], default)
    return Finding(
        name="sweep-quantile",
        title="How sure to be: the safety quantile",
        setting=f"{_setting(arena)}; validation jobs are {VALIDATION_JOBS[0]} to {VALIDATION_JOBS[-1]}",
        paper="",
        tables=(_table("quantile", "jobs", [f"{q:g}" for q in QUANTILES], scores), rule.table),
        pictures=(curves(list(QUANTILES), _panels(scores), "quantile"),),
        checks=(
            Check(
                "the default quantile is not measurably worse than the one of least cost on validation jobs",
                f"default {default:g}, least cost {rule.best:g}: {rule.behind[0]:+.4f} to {rule.behind[1]:+.4f}",
                rule.keeps_default,
            ),
        ),
    )


def curve_sweep(arena: Arena) -> Finding:
    contestants = (streamtune(), untrained(), *RIVALS)
    scores = {
        one.label: [_score(arena, one, _platforms(arena), family=family) for family in FAMILIES] for one in contestants
    }
    return Finding(
        name="sweep-curve",
        title="A scaling law that the history does not have",
        setting=f"{_setting(arena)}; histories follow the universal scalability law throughout",
        paper="",
        tables=(_table("scaling law of the tuned job", "tuner", list(FAMILIES), scores),),
    )


def jitter_sweep(arena: Arena) -> Finding:
    contestants = (streamtune(), *RIVALS)
    scores = {
        one.label: [_score(arena, one, _platforms(arena), jitter=jitter) for jitter in JITTERS] for one in contestants
    }
    return Finding(
        name="sweep-jitter",
        title="Source rates that vary from step to step",
        setting=f"{_setting(arena)}; coefficient of variation of a source's rate over 0.1 s",
        paper="",
        tables=(_table("jitter", "tuner", [f"{j:.0%}" for j in JITTERS], scores),),
        pictures=(curves([100 * j for j in JITTERS], _panels(scores), "rate jitter, %"),),
    )


def learning(arena: Arena) -> Finding:
    """What learning from other jobs buys: the first tuning process of a job, and the long run."""
    sizes = tuple(size for size in SIZES if size <= arena.scale.runs)
    kinds: dict[str, dict[str, Any]] = {"streamtune": {}, "streamtune, labels alone": {"use_busy": False}}
    points = ["no history", *(f"{size:,} runs" for size in sizes)]
    scores: dict[str, list[Score]] = {}
    first: dict[str, list[tuple[float, float]]] = {}
    for label, settings in kinds.items():
        variants: list[tuple[Contestant, PlatformOf]] = [
            (untrained(f"{label}, no history", **settings), _platforms(arena))
        ]
        variants += [(streamtune(label, **settings), _platforms(arena, runs=size)) for size in sizes]
        scores[label] = [_score(arena, one, platform) for one, platform in variants]
        first[label] = [_first_changes(arena, one, platform) for one, platform in variants]
    return Finding(
        name="learning",
        title="What learning from other jobs buys",
        setting=f"{_setting(arena)} or as said; jobs have not run before",
        paper="Pre-training is the heart of the method; no experiment without it.",
        tables=(
            _table("all changes", "tuner", points, scores),
            Shown(
                "the first change of each job: restarts · total / oracle",
                ("tuner", *points),
                tuple(
                    (label, *(f"{restarts:.2f} · {over:.3f}" for restarts, over in found))
                    for label, found in first.items()
                ),
            ),
        ),
    )


def _first_changes(arena: Arena, one: Contestant, platform_of: PlatformOf) -> tuple[float, float]:
    multiples = (rates.cycle() * 2)[: arena.scale.sweep_changes]
    judged = [
        arena.play(one, platform_of(seed), workload, multiples)[0]
        for seed in arena.scale.seeds
        for workload in WORKLOADS
    ]
    return mean(j.reconfigurations for j in judged), sum(j.total for j in judged) / sum(j.oracle for j in judged)
