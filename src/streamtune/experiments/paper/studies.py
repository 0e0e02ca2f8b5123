"""Fig. 7b, 9a, 10 and 11a, clustering against a global encoder, and the ablation of every step beyond the paper."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean, median

import numpy as np

from streamtune.dataflow import Job, Observation
from streamtune.experiments.paper.contest import WORKLOADS, Arena, Contestant, Judged, Knowledge, Score
from streamtune.experiments.paper.contestants import (
    CONTTUNE,
    DS2_CALIBRATED,
    DS2_PUBLISHED,
    paper,
    streamtune,
    untrained,
)
from streamtune.experiments.paper.findings import COLOURS, Check, Finding, Shown, axes, grouped_bars, svg
from streamtune.tuners import Tuner
from streamtune.tuners.base import Recommendation
from streamtune.workloads import catalogue

# StreamTune Section V-A: ten minutes between reconfigurations.
_WAIT_MIN = 10.0
_SCORE_HEADINGS = ("tuner", "restarts / change", "backpressure left", "on the way / change", "total / oracle")


def score_row(label: str, judged: Sequence[Judged]) -> tuple[str, ...]:
    score = Score.of(judged)
    return (
        label,
        f"{score.reconfigurations:.3f}",
        f"{score.backpressure:.2%}",
        f"{score.on_the_way:.3f}",
        f"{score.over_oracle:.3f}",
    )


def fig7b(arena: Arena) -> Finding:
    """The unseen two-way join: tuning time at every change of rates."""
    unseen = (
        streamtune("streamtune, never seen", never_seen=True),
        paper("svm", never_seen=True, label="paper, svm, never seen"),
    )
    judged = arena.grid(unseen, ("pqp-2way-0",))
    figure, (plot,) = axes(9.0, 3.0)
    rows = []
    for number, (label, found) in enumerate(judged.items()):
        first = [one for one in found if one.seed == arena.scale.seeds[0]]
        minutes = [one.reconfigurations * _WAIT_MIN for one in first]
        plot.plot(range(1, len(minutes) + 1), minutes, ".-", label=label, color=COLOURS[number])
        everywhere = [one.reconfigurations * _WAIT_MIN for one in found]
        rows.append((label, f"{mean(everywhere):.1f}", f"{min(everywhere):.0f}", f"{max(everywhere):.0f}"))
    plot.set_xlabel("change of rates")
    plot.set_ylabel("tuning time, min")
    plot.legend(frameon=False, fontsize=8)
    return Finding(
        name="fig7b",
        title="Fig. 7b: tuning time on a two-way join that pre-training never saw",
        setting=f"{arena.scale.told()}; ten minutes of waiting per reconfiguration as in the paper",
        paper="10 to 40 minutes, 27 on average.",
        tables=(Shown("minutes per change", ("tuner", "mean", "least", "most"), tuple(rows)),),
        pictures=(svg(figure),),
    )


class _Timed(Tuner):
    """Measures the time of another tuner."""

    name = "timed"

    def __init__(self, inner: Tuner) -> None:
        super().__init__(inner.job)
        self._inner = inner
        self._since_s = 0.0
        self.seconds: list[float] = []

    def learn(self, observation: Observation) -> None:
        start = time.perf_counter()
        self._inner.learn(observation)
        self._since_s += time.perf_counter() - start

    def recommend(self, observation: Observation) -> Recommendation:
        """What was learnt since the last recommendation counts: some fit when they learn, some when they are asked."""
        start = time.perf_counter()
        found = self._inner.recommend(observation)
        self.seconds.append(time.perf_counter() - start + self._since_s)
        self._since_s = 0.0
        return found


def recommendation_times(arena: Arena, contestant: Contestant, workload: str, changes: int) -> list[float]:
    made: list[_Timed] = []

    def make(job: Job, known: Knowledge) -> Tuner:
        made.append(_Timed(contestant.make(job, known)))
        return made[-1]

    seed = arena.scale.seeds[0]
    arena.story(
        replace(contestant, make=make), arena.scale.platform(seed), workload, arena.scale.multiples(seed)[:changes]
    )
    return made[0].seconds


def fig9a(arena: Arena) -> Finding:
    """Recommendation time, side by side in one run."""
    contestants = (streamtune(), paper("svm"), paper("xgboost"), CONTTUNE, DS2_PUBLISHED)
    workloads = ("pqp-linear-0", "pqp-2way-0", "pqp-3way-0")
    changes = min(60, arena.scale.changes)
    times = {
        one.label: [recommendation_times(arena, one, workload, changes) for workload in workloads]
        for one in contestants
    }
    sizes = [len(catalogue.load(name).spec.job.dataflow.operators) for name in workloads]
    rows = tuple(
        (
            label,
            *(f"{1000 * median(found):.1f}" for found in by_workload),
            f"{1000 * max(max(f) for f in by_workload):.0f}",
            f"{median([t for f in by_workload for t in f]) / median([t for f in times['conttune'] for t in f]):.2f}",
        )
        for label, by_workload in times.items()
    )
    ours = [seconds for found in times["streamtune"] for seconds in found]
    large = _times_by_size(arena)
    return Finding(
        name="fig9a",
        title="Fig. 9a: time of one recommendation",
        setting=f"{changes} changes of rates per query, one run, one thread",
        paper="Longer than DS2, shorter than ContTune on complex queries; stable with query complexity.",
        tables=(
            Shown(
                "milliseconds, learning included",
                (
                    "tuner",
                    *(f"{name} ({size} operators), median" for name, size in zip(workloads, sizes, strict=True)),
                    "worst of all",
                    "median / ContTune's",
                ),
                rows,
            ),
            Shown(
                "streamtune, larger jobs: median milliseconds",
                ("operators", *(str(size) for size in large)),
                (("ms", *(f"{1000 * value:.1f}" for value in large.values())),),
            ),
        ),
        checks=(Check("under 0.2 s at the median", f"{median(ours):.4f} s", median(ours) < 0.2),),
    )


def _times_by_size(arena: Arena) -> dict[int, float]:
    """Random jobs of growing size: the smallest, the largest of 300, and some between."""
    by_size: dict[int, str] = {}
    for number in range(300):
        name = f"random-{number}"
        by_size.setdefault(len(catalogue.load(name).spec.job.dataflow.operators), name)
    sizes = sorted(by_size)
    chosen = sorted({sizes[round(place * (len(sizes) - 1) / 4)] for place in range(5)})
    return {size: median(recommendation_times(arena, streamtune(), by_size[size], 10)) for size in chosen}


def fig10(arena: Arena) -> Finding:
    """Mean utilisation of the operators over time."""
    seed = arena.scale.seeds[0]
    queries = ("nexmark-q5", "pqp-2way-0", "pqp-3way-0")
    figure, plots = axes(12.0, 2.8, len(queries))
    rows = []
    for plot, query in zip(plots, queries, strict=True):
        story = arena.story(streamtune(), arena.scale.platform(seed), query, arena.scale.multiples(seed)[:20])
        job = catalogue.load(query).spec.job
        inner = [operator.id for operator in job.dataflow.operators if not operator.is_source]
        busy = [float(np.mean([step.observation.operators[key].busy_share for key in inner])) for step in story.steps]
        hours = [step.time_s / 3600 for step in story.steps]
        plot.step(hours, busy, where="post", color=COLOURS[0])
        for before, after in zip(story.steps, story.steps[1:], strict=False):
            if before.change != after.change:
                plot.axvline(before.time_s / 3600, color="#999999", linewidth=0.6, linestyle=":")
        plot.set_title(query, fontsize=9)
        plot.set_xlabel("hours")
        plot.set_ylim(0, 1.05)
        settled = [
            share
            for share, step, following in zip(busy, story.steps, [*story.steps[1:], None], strict=True)
            if following is None or following.change != step.change
        ]
        rows.append((query, f"{mean(busy):.0%}", f"{mean(settled):.0%}"))
    plots[0].set_ylabel("mean busy share")
    return Finding(
        name="fig10",
        title="Fig. 10: utilisation while tuning",
        setting=f"seed {seed}, the first {min(20, arena.scale.changes)} changes; dotted lines are changes of rates",
        paper="Utilisation swings with every change of rates while StreamTune explores.",
        tables=(Shown("mean busy share", ("query", "all observations", "after tuning"), tuple(rows)),),
        pictures=(svg(figure),),
    )


def fig11a(arena: Arena) -> Finding:
    """SVM, XGBoost and a plain network as M_f."""
    queries = ("nexmark-q3", "nexmark-q5", "nexmark-q8")
    judged = arena.grid([paper(kind) for kind in ("svm", "xgboost", "nn")], queries, changes=arena.scale.sweep_changes)
    rows = tuple(score_row(label, found) for label, found in judged.items())
    series = {
        label: [100 * Score.of([one for one in found if one.workload == query]).backpressure for query in queries]
        for label, found in judged.items()
    }
    return Finding(
        name="fig11a",
        title="Fig. 11a: which classifier for M_f (Algorithm 2 as printed)",
        setting=f"{arena.scale.told_short()}; Nexmark Q3, Q5, Q8",
        paper="SVM and XGBoost comparable; the network, which has no monotone constraint, leaves more backpressure.",
        tables=(Shown("all three queries", _SCORE_HEADINGS, rows),),
        pictures=(grouped_bars(queries, series, "% of changes that end with backpressure", None),),
    )


def _global_only(contestant: Contestant, label: str) -> Contestant:
    def make(job: Job, known: Knowledge) -> Tuner:
        return contestant.make(
            job, replace(known, load_model=lambda: replace(known.model, model=known.model.bundle.fallback))
        )

    return replace(contestant, label=label, make=make)


def clusters(arena: Arena) -> Finding:
    """An encoder per cluster against one for all, where it matters most: in the paper's own method."""
    boosted = paper("xgboost")
    judged = arena.grid(
        [
            boosted,
            _global_only(boosted, "paper, xgboost, global encoder"),
            streamtune(),
            _global_only(streamtune(), "streamtune, global encoder"),
        ],
        changes=arena.scale.sweep_changes,
    )
    return Finding(
        name="clusters",
        title="An encoder per cluster, or one for all",
        setting=arena.scale.told_short(),
        paper="Clustering is part of the method; its effect on tuning is not reported by itself.",
        tables=(Shown("", _SCORE_HEADINGS, tuple(score_row(label, found) for label, found in judged.items())),),
    )


def ablation(arena: Arena) -> Finding:
    """From the paper's method to ours, one step at a time, and ours with one thing taken away."""
    steps = (
        paper("svm"),
        paper("svm", label="+ feedback weighs 20 ×", feedback_weight=20.0),
        paper("svm", label="+ what was seen binds", feedback_weight=20.0, binding=True),
        streamtune("posterior instead, labels alone", use_busy=False, use_encoder=True, ignored_drop=0),
        streamtune("+ busy shares", ignored_drop=0),
        streamtune("+ drops of 1 ignored: streamtune"),
        streamtune("streamtune without binding", binding=False),
        streamtune("streamtune without capacity curves of the history", use_history=False),
        streamtune("streamtune without the encoder", use_encoder=False),
        streamtune("streamtune without curves and encoder", use_history=False, use_encoder=False),
        untrained("streamtune, no history at all"),
        DS2_CALIBRATED,
    )
    judged = arena.grid(steps, changes=arena.scale.sweep_changes)
    return Finding(
        name="ablation",
        title="Every step beyond the paper, and what each buys",
        setting=f"{arena.scale.told_short()}; {', '.join(WORKLOADS)}",
        paper="",
        tables=(Shown("", _SCORE_HEADINGS, tuple(score_row(label, found) for label, found in judged.items())),),
    )
