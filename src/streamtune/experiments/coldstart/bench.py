"""``bench coldstart``: the first plan by every way, on jobs never seen, relatives, and jobs deployed again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from streamtune.dataflow import Plan
from streamtune.experiments.coldstart.jobs import MULTIPLES, NEVER_SEEN, REDEPLOYED, RELATIVES, Start, platform, starts
from streamtune.experiments.coldstart.limit import limit_plan
from streamtune.experiments.coldstart.play import ColdStart, Summary, judge_plan, oracle_total, play
from streamtune.experiments.coldstart.ways import (
    ABLATION,
    CHEAP,
    COSTLY,
    ONE_DS2,
    OURS,
    ZEROTUNE,
    ZEROTUNE_FRUGAL,
    Knowledge,
    Way,
)
from streamtune.experiments.paper.contest import Arena, Scale
from streamtune.experiments.paper.findings import COLOURS, Check, Finding, Shown, axes, svg
from streamtune.tuners import StreamTune, StreamTuneSettings

KINDS = (NEVER_SEEN, RELATIVES, REDEPLOYED)
CERTAINTIES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LIMIT = "the limit: knows the law"
_SEEDS_OF_VALIDATION = 10


@dataclass
class ColdArena:
    """Cold starts of all platforms, each judged once and kept in ``work``."""

    arena: Arena
    validation: bool = False
    _starts: dict[int, list[Start]] = field(default_factory=dict)
    _known: dict[int, Knowledge] = field(default_factory=dict)
    _oracles: dict[tuple[str, float], int] = field(default_factory=dict)
    _tuners: dict[tuple[int, str], StreamTune] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        """Validation has platforms of its own."""
        offset = _SEEDS_OF_VALIDATION if self.validation else 0
        return [seed + offset for seed in self.arena.scale.seeds]

    def known(self, seed: int) -> Knowledge:
        if seed not in self._known:
            scale = self.arena.scale
            made = platform(seed, scale.cold_runs, scale.random_jobs)
            self._known[seed] = Knowledge(made, self.arena.work, self.arena.tell, is_light=not scale.cold_trained)
        return self._known[seed]

    def starts(self, seed: int) -> list[Start]:
        if seed not in self._starts:
            scale = self.arena.scale
            self._starts[seed] = starts(seed, scale.cold_jobs, scale.random_jobs, validation=self.validation)
        return self._starts[seed]

    def oracle(self, start: Start) -> int:
        place = (start.workload.name, start.multiple)
        if place not in self._oracles:
            self._oracles[place] = oracle_total(start)
        return self._oracles[place]

    def played(self, way: Way, seed: int) -> list[ColdStart]:
        """Every start of a platform by one way."""
        return self._kept(f"{way.label}-{seed}", lambda: [self._play(way, start, seed) for start in self.starts(seed)])

    def _play(self, way: Way, start: Start, seed: int) -> ColdStart:
        return play(way, start, self.known(seed), self.oracle(start))

    def first_plans(self, way: Way, seed: int) -> list[ColdStart]:
        """Every start of a platform by one way, without what comes after the first plan."""

        def judged(start: Start) -> ColdStart:
            known = self.known(seed)
            return judge_plan(way.label, start, way.first(start, known), known, self.oracle(start))

        return self._kept(f"{way.label}-first-{seed}", lambda: [judged(start) for start in self.starts(seed)])

    def planned(self, label: str, seed: int, kind: str, plan_of: Callable[[Start], Plan]) -> list[ColdStart]:
        """First plans alone."""
        return self._kept(
            f"{label}-{kind}-{seed}",
            lambda: [
                judge_plan(label, start, plan_of(start), self.known(seed), self.oracle(start))
                for start in self.starts(seed)
                if start.kind == kind
            ],
        )

    def _kept(self, name: str, make: Callable[[], list[ColdStart]]) -> list[ColdStart]:
        scale = self.arena.scale
        kind = f"{'validation' if self.validation else 'test'}-{'trained' if scale.cold_trained else 'light'}"
        text = f"{kind}-{name}-{scale.cold_jobs}-{scale.cold_runs}"
        file_name = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in text)
        path = self.arena.work / "coldstart" / f"{file_name}.json"
        if not path.exists():
            self.arena.tell(f"cold starts: {name}")
            found = make()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps([one.model_dump() for one in found]), encoding="utf-8")
        return [ColdStart.model_validate(one) for one in json.loads(path.read_text(encoding="utf-8"))]

    def curve(self, who: str, kind: str) -> list[Summary]:
        """First plans of one predictor over the certainty that is asked for."""
        found = []
        for certainty in CERTAINTIES:
            some: list[ColdStart] = []
            for seed in self.seeds:
                some += self.planned(f"{who} {certainty:g}", seed, kind, self._planner(who, certainty, seed))
            found.append(Summary.of(some))
        return found

    def _planner(self, who: str, certainty: float, seed: int) -> Callable[[Start], Plan]:
        if who == LIMIT:
            return lambda start: limit_plan(start, certainty)

        def ours(start: Start) -> Plan:
            job = start.workload.spec.job
            if (seed, job.name) not in self._tuners:  # made once for all rates and certainties
                self._tuners[seed, job.name] = self.known(seed).streamtune(job)
            foreseen = self._tuners[seed, job.name].first_plan(start.rates, certainty)
            assert foreseen is not None
            return Plan({**job.initial_plan, **foreseen.degrees})

        return ours


def ways_of(arena: Arena) -> tuple[Way, ...]:
    return (*CHEAP, *COSTLY) if arena.scale.cold_trained else CHEAP


def coldstart(arena: Arena) -> Finding:
    """The whole benchmark."""
    cold = ColdArena(arena)
    judged = {way.label: [one for seed in cold.seeds for one in cold.played(way, seed)] for way in ways_of(arena)}
    ablation = {way.label: [one for seed in cold.seeds for one in cold.first_plans(way, seed)] for way in ABLATION}
    ours, limit = cold.curve(OURS.label, NEVER_SEEN), cold.curve(LIMIT, NEVER_SEEN)
    tables = (
        *by_kind(judged),
        _curve_table(ours, limit),
        _ablation_table({**ablation, OURS.label: judged[OURS.label]}),
    )
    return Finding(
        name="coldstart",
        title="The first plan, before anything of the job was seen",
        setting=told(arena.scale),
        paper="The StreamTune paper starts from running jobs; ZeroTune predicts costs of a plan before it runs.",
        tables=tables,
        pictures=(_curve_picture(ours, limit, judged), _bars(judged)),
        checks=tuple(_checks(judged, ours, limit)),
        figures={"certainties": list(CERTAINTIES)},
    )


def told(scale: Scale) -> str:
    """How large the benchmark was."""
    return (
        f"platforms {', '.join(map(str, scale.seeds))}, each with a history of {scale.cold_runs:,} runs; "
        f"{scale.cold_jobs} jobs of each kind at {', '.join(f'{m:g}' for m in MULTIPLES)}·W_u; certainty asked for "
        f"{StreamTuneSettings().first_certainty:g}; a step is ten minutes; settled is clean within 1.1 × the oracle"
    )


def by_kind(judged: dict[str, list[ColdStart]]) -> tuple[Shown, ...]:
    """Every way on each kind of job."""
    return tuple(_ways_table(kind, judged) for kind in KINDS)


def _of_kind(some: Sequence[ColdStart], kind: str) -> Summary:
    return Summary.of([one for one in some if one.kind == kind])


def _ways_table(kind: str, judged: dict[str, list[ColdStart]]) -> Shown:
    rows = []
    for label, some in judged.items():
        found = _of_kind(some, kind)
        rows.append(
            (
                label,
                f"{found.clean:.1%}",
                f"{found.over_oracle:.3f}",
                f"{found.reconfigurations:.2f}",
                f"{found.settled:.1%}",
                f"{found.backpressured_min:.1f}",
                f"{found.spare_instance_min:.0f}",
            )
        )
    headings = (
        "first plan by",
        "clean",
        "total / oracle",
        "restarts to settle",
        "settled",
        "backpressured min",
        "spare instance-min",
    )
    count = _of_kind(next(iter(judged.values())), kind).starts
    return Shown(f"{kind}: {count} cold starts", headings, tuple(rows))


def _curve_table(ours: Sequence[Summary], limit: Sequence[Summary]) -> Shown:
    rows = [
        (
            f"{certainty:g}",
            f"{mine.clean:.1%}",
            f"{mine.over_oracle:.3f}",
            f"{best.clean:.1%}",
            f"{best.over_oracle:.3f}",
            _against(mine, limit),
        )
        for certainty, mine, best in zip(CERTAINTIES, ours, limit, strict=True)
    ]
    headings = (
        "certainty",
        "ours clean",
        "total / oracle",
        "limit clean",
        "total / oracle",
        "ours / limit, same share",
    )
    return Shown("never seen: share of clean first plans over their total", headings, tuple(rows))


def total_at(share: float, curve: Sequence[Summary]) -> float | None:
    """The total at which a curve has this share of clean plans, between its points; None outside of them."""
    points = sorted((one.clean, one.over_oracle) for one in curve)
    for (low, total_low), (high, total_high) in pairwise(points):
        if low <= share <= high:
            part = 0.0 if high == low else (share - low) / (high - low)
            return total_low + part * (total_high - total_low)
    return None


def _against(mine: Summary, limit: Sequence[Summary]) -> str:
    best = total_at(mine.clean, limit)
    return "–" if best is None else f"{mine.over_oracle / best:.3f}"


def _ablation_table(judged: dict[str, list[ColdStart]]) -> Shown:
    rows = []
    for label, some in judged.items():
        cells = [f"{found.clean:.1%} · {found.over_oracle:.3f}" for found in (_of_kind(some, kind) for kind in KINDS)]
        rows.append((label, *cells))
    return Shown("levels of the prior: clean · total / oracle", ("prior", *KINDS), tuple(rows))


def _checks(judged: dict[str, list[ColdStart]], ours: Sequence[Summary], limit: Sequence[Summary]) -> list[Check]:
    again, related = _of_kind(judged[OURS.label], REDEPLOYED), _of_kind(judged[OURS.label], RELATIVES)
    ratios = [mine.over_oracle / best for mine in ours if (best := total_at(mine.clean, limit)) is not None]
    worst = max(ratios, default=float("nan"))
    return [
        Check(
            "never seen: nowhere more than 5 % above the limit's total for the same share",
            f"at worst {worst:.3f} × over {len(ratios)} certainties",
            worst <= 1.05,
        ),
        Check(
            "deployed again: at least 95 % clean at no more than 1.10 ×",
            f"{again.clean:.1%} at {again.over_oracle:.3f}",
            again.clean >= 0.95 and again.over_oracle <= 1.10,
        ),
        Check(
            "relatives: at least 90 % clean at no more than 1.25 ×",
            f"{related.clean:.1%} at {related.over_oracle:.3f}",
            related.clean >= 0.90 and related.over_oracle <= 1.25,
        ),
        *restart_checks(judged),
    ]


def restart_checks(judged: dict[str, list[ColdStart]]) -> list[Check]:
    """Restarts from cold to settled against those of each rival that was run."""
    mine, found = Summary.of(judged[OURS.label]), []
    for rival in (ONE_DS2, ZEROTUNE, ZEROTUNE_FRUGAL):
        if rival.label in judged:
            theirs = Summary.of(judged[rival.label])
            found.append(
                Check(
                    f"from cold to settled in at most half the restarts of '{rival.label}'",
                    f"{mine.reconfigurations:.2f} against {theirs.reconfigurations:.2f}",
                    mine.reconfigurations <= theirs.reconfigurations / 2,
                )
            )
    return found


def _curve_picture(ours: Sequence[Summary], limit: Sequence[Summary], judged: dict[str, list[ColdStart]]) -> str:
    figure, (plot,) = axes(7.5, 4.2)
    for number, (label, curve) in enumerate(((OURS.label, ours), (LIMIT, limit))):
        x, y = [one.over_oracle for one in curve], [100 * one.clean for one in curve]
        plot.plot(x, y, "o-", ms=4, label=label, color=COLOURS[number])
    for number, (label, some) in enumerate(judged.items()):
        if label != OURS.label:
            found = _of_kind(some, NEVER_SEEN)
            place, colour = min(found.over_oracle, 3.0), COLOURS[(number + 2) % len(COLOURS)]
            plot.plot(place, 100 * found.clean, "s", ms=5, label=label, color=colour)
    plot.set_xlabel("total parallelism of first plans / oracle (3 and more at the edge)")
    plot.set_ylabel("clean first plans, %")
    plot.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return svg(figure)


def _bars(judged: dict[str, list[ColdStart]]) -> str:
    figure, plots = axes(10.0, 3.4, 2)
    labels = list(judged)
    measures: list[tuple[str, Callable[[Summary], float]]] = [
        ("restarts to settle", lambda one: one.reconfigurations),
        ("backpressured minutes", lambda one: one.backpressured_min),
    ]
    for plot, (title, measure) in zip(plots, measures, strict=True):
        for number, kind in enumerate(KINDS):
            places = np.arange(len(labels)) + (number - 1) * 0.27
            values = [measure(_of_kind(judged[label], kind)) for label in labels]
            plot.barh(places, values, 0.26, label=kind, color=COLOURS[number])
        plot.set_yticks(range(len(labels)), labels if plot is plots[0] else [""] * len(labels), fontsize=7)
        plot.invert_yaxis()
        plot.set_xlabel(title)
    plots[1].legend(frameon=False, fontsize=7)
    return svg(figure)


# What first plans are asked for: clean shares of relatives and of jobs deployed again.
_WANTED = {RELATIVES: 0.90, REDEPLOYED: 0.95}


def choose_certainty(arena: Arena) -> Finding:
    """The certainty of first plans, by a rule, on validation jobs and platforms that no table is scored on.

    The rule: the least certainty with which 90 % of relatives and 95 % of jobs deployed again start clean. Beside it
    stands a cost by which a first plan that is short counts as one that is twice as large as need be.
    """
    cold = ColdArena(arena, validation=True)
    rows, met = [], []
    curves = {kind: cold.curve(OURS.label, kind) for kind in KINDS}
    for place, certainty in enumerate(CERTAINTIES):
        found = {kind: curves[kind][place] for kind in KINDS}
        cost = float(np.mean([one.over_oracle - one.clean for one in found.values()]))
        if all(found[kind].clean >= share for kind, share in _WANTED.items()):
            met.append(certainty)
        cells = [f"{one.clean:.1%} · {one.over_oracle:.3f}" for one in found.values()]
        rows.append((f"{certainty:g}", *cells, f"{cost:.3f}"))
    default = StreamTuneSettings().first_certainty
    best = min(met, default=CERTAINTIES[-1])
    return Finding(
        name="coldstart-certainty",
        title="How sure should a first plan be?",
        setting=f"validation platforms {', '.join(map(str, cold.seeds))}, jobs that the benchmark does not have",
        paper="",
        tables=(Shown("clean · total / oracle", ("certainty", *KINDS, "cost"), tuple(rows)),),
        checks=(Check("the default is what the rule takes", f"rule {best:g}, default {default:g}", best == default),),
    )
