"""``bench coldstart``: the first plan by every way, on jobs never seen, relatives, and jobs deployed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from streamtune.experiments.coldstart.arena import CERTAINTIES, LIMIT, ColdArena
from streamtune.experiments.coldstart.by_law import Against, against_limit, at
from streamtune.experiments.coldstart.jobs import MULTIPLES, NEVER_SEEN, REDEPLOYED, RELATIVES
from streamtune.experiments.coldstart.play import ColdStart, Summary
from streamtune.experiments.coldstart.ways import (
    ABLATION,
    CHEAP,
    COSTLY,
    ONE_DS2,
    OURS,
    ZEROTUNE,
    ZEROTUNE_FRUGAL,
    Way,
)
from streamtune.experiments.paper.contest import Arena, Scale
from streamtune.experiments.paper.findings import COLOURS, Check, Finding, Shown, axes, svg
from streamtune.tuners import StreamTuneSettings

KINDS = (NEVER_SEEN, RELATIVES, REDEPLOYED)


def ways_of(arena: Arena) -> tuple[Way, ...]:
    return (*CHEAP, *COSTLY) if arena.scale.cold_trained else CHEAP


def coldstart(arena: Arena) -> Finding:
    """The whole benchmark."""
    cold = ColdArena(arena)
    judged = {way.label: [one for seed in cold.seeds for one in cold.played(way, seed)] for way in ways_of(arena)}
    ablation = {way.label: [one for seed in cold.seeds for one in cold.first_plans(way, seed)] for way in ABLATION}
    ours, limit = cold.curve(OURS.label, NEVER_SEEN), cold.curve(LIMIT, NEVER_SEEN)
    found = _by_law(cold)
    tables = (
        *by_kind(judged),
        _curve_table(ours, limit),
        _law_table(found),
        _ablation_table({**ablation, OURS.label: judged[OURS.label]}),
    )
    return Finding(
        name="coldstart",
        title="The first plan, before anything of the job was seen",
        setting=told(arena.scale),
        paper="The StreamTune paper starts from running jobs; ZeroTune predicts costs of a plan before it runs.",
        tables=tables,
        pictures=(_curve_picture(ours, limit, judged), _bars(judged)),
        checks=tuple(_checks(judged, found)),
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
    found = at(share, sorted((one.clean, one.over_oracle) for one in curve))
    return None if np.isnan(found) else found


def _against(mine: Summary, limit: Sequence[Summary]) -> str:
    best = total_at(mine.clean, limit)
    return "–" if best is None else f"{mine.over_oracle / best:.3f}"


def _by_law(cold: ColdArena) -> Against:
    return against_limit([one for seed in cold.seeds for one in cold.scored(seed)])


def limit_alone(arena: Arena) -> Finding:
    """First plans of jobs never seen against the limit, and nothing else: minutes."""
    found = _by_law(ColdArena(arena))
    return Finding(
        name="coldstart-limit",
        title="First plans of jobs never seen, against the limit",
        setting=f"platforms {', '.join(map(str, arena.scale.seeds))}, each with a history of {arena.scale.cold_runs:,} "
        f"runs; {arena.scale.cold_unseen} jobs each at {', '.join(f'{m:g}' for m in MULTIPLES)}·W_u; clean is the "
        "chance over fresh draws of the law, intervals (90 %) are over jobs",
        paper="",
        tables=(_law_table(found),),
        checks=(_limit_check(found),),
    )


def _law_table(found: Against) -> Shown:
    rows = [
        (
            f"{one.certainty:g}",
            f"{one.clean:.1%}",
            f"{one.limit_clean:.1%}",
            f"{one.ratio:.3f}",
            "–" if np.isnan(one.same_share) else f"{one.same_share:.3f}",
            "–" if np.isnan(one.between[0]) else f"{one.between[0]:.3f} to {one.between[1]:.3f}",
        )
        for one in found.points
    ]
    headings = ("certainty", "ours clean", "limit clean", "ours / limit", "at the same share", "between")
    return Shown(f"never seen: {found.jobs} jobs, by fresh draws of the law", headings, tuple(rows))


def _limit_check(found: Against) -> Check:
    low, high = found.worst_between
    return Check(
        "never seen: nowhere more than 5 % above the limit's total for the same share",
        f"at worst {found.worst:.3f} × ({low:.3f} to {high:.3f})",
        found.worst <= 1.05,
    )


def _ablation_table(judged: dict[str, list[ColdStart]]) -> Shown:
    rows = []
    for label, some in judged.items():
        cells = [f"{found.clean:.1%} · {found.over_oracle:.3f}" for found in (_of_kind(some, kind) for kind in KINDS)]
        rows.append((label, *cells))
    return Shown("levels of the prior: clean · total / oracle", ("prior", *KINDS), tuple(rows))


def _checks(judged: dict[str, list[ColdStart]], found: Against) -> list[Check]:
    again, related = _of_kind(judged[OURS.label], REDEPLOYED), _of_kind(judged[OURS.label], RELATIVES)
    return [
        _limit_check(found),
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
        setting=f"validation platforms {', '.join(map(str, cold.seeds))}, with jobs never seen of their own",
        paper="",
        tables=(Shown("clean · total / oracle", ("certainty", *KINDS, "cost"), tuple(rows)),),
        checks=(Check("the default is what the rule takes", f"rule {best:g}, default {default:g}", best == default),),
    )
