"""What was measured on a real Flink, as findings: downtime, cost of polling, the simulator's fidelity, tuning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median
from typing import Any

from streamtune.control.story import Change, TuningStory
from streamtune.experiments.paper.contest import WORKLOADS
from streamtune.experiments.paper.findings import Check, Finding, Shown, grouped_bars
from streamtune.workloads import cycle


def flink_findings(measured: Mapping[str, Any]) -> list[Finding]:
    """Of the pieces that ``benchmarks/flink.py`` keeps, by their keys; what was not measured is not there."""

    def under(part: str) -> dict[str, Any]:
        return {key: value for key, value in measured.items() if key.startswith(f"{part}/")}

    return [
        *downtime_finding(under("downtime")),
        *polling_finding(under("polling")),
        *fidelity_finding(under("fidelity")),
        *tuning_finding(stories_of(measured)),
    ]


def stories_of(measured: Mapping[str, Any]) -> list[TuningStory]:
    return [TuningStory.model_validate(value) for key, value in measured.items() if key.startswith("tuning/")]


def downtime_finding(measured: dict[str, Any]) -> Iterator[Finding]:
    down = {key.split("/")[1]: [row["down_s"] for row in rows] for key, rows in measured.items()}
    rows = tuple(
        (
            mode,
            str(len(times)),
            f"{median(times):.2f}",
            f"{max(times):.2f}",
            f"{median(row['until_running_s'] for row in measured[f'downtime/{mode}']):.1f}",
        )
        for mode, times in down.items()
    )
    if {"live", "restart"} <= set(down):
        live, restart = median(down["live"]), median(down["restart"])
        check = Check("live is shorter than stop-and-restart", f"{live:.2f} s against {restart:.2f} s", live < restart)
        headings = ("mode", "rescales", "down s (median)", "down s (most)", "until all run s")
        yield Finding(
            "downtime",
            "Downtime of a reconfiguration",
            "a small job without much state on this machine: the time in which nothing reaches the sink",
            "",
            (Shown("", headings, rows),),
            checks=(check,),
        )


def polling_finding(measured: dict[str, Any]) -> Iterator[Finding]:
    rows = tuple(
        (
            f"{row['vertices']} × {row['subtasks']}",
            str(row["calls"]),
            f"{row['wall_s']:.2f}",
            f"{row['cpu_s']:.3f}",
        )
        for row in sorted(measured.values(), key=lambda row: row["subtasks"])
    )
    if rows:
        headings = ("vertices × subtasks", "REST calls", "wall s", "CPU s of StreamTune")
        yield Finding(
            "polling", "What one snapshot costs", "an observation takes two", "", (Shown("", headings, rows),)
        )


def fidelity_finding(measured: dict[str, Any]) -> Iterator[Finding]:
    rows = []
    for key, found in measured.items():
        errors = sorted(abs(row["busy_simulated"] - row["busy_measured"]) for row in found)
        agree = mean((row["backpressured_simulated"] > 0.1) == (row["backpressured_measured"] > 0.1) for row in found)
        rows.append(
            (
                key.split("/")[1],
                f"{median(errors):.3f}",
                f"{errors[int(0.9 * (len(errors) - 1))]:.3f}",
                f"{agree:.0%}",
                *_safe_parallelism(found),
            )
        )
    headings = (
        "job",
        "error of busy share (median)",
        "(90 %)",
        "same backpressure",
        "oracle's plan is clean",
        "one instance less is short",
    )
    if rows:
        yield Finding(
            "fidelity",
            "The simulator against Flink",
            "the same specs at 3, 7 and 10·W_u, at the oracle's plan and with one instance less of its widest operator",
            "",
            (Shown("", headings, tuple(rows)),),
        )


def _safe_parallelism(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """How often Flink is clean at the oracle's plan, and short with one instance less, as the simulator says."""
    backpressure: dict[tuple[float, bool], bool] = {}
    for multiple in {row["multiple"] for row in rows}:
        plans: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        operators = len({row["operator"] for row in rows})
        of_rate = [row for row in rows if row["multiple"] == multiple]
        for start in range(0, len(of_rate), operators):
            seen = of_rate[start : start + operators]
            plans[all(row["parallelism"] == row["oracle_parallelism"] for row in seen)] += seen
        for is_oracle, seen in plans.items():
            if seen:
                backpressure[multiple, is_oracle] = any(row["backpressured_measured"] > 0.1 for row in seen)
    clean = [not found for (_, is_oracle), found in backpressure.items() if is_oracle]
    short = [found for (_, is_oracle), found in backpressure.items() if not is_oracle]
    return f"{sum(clean)} of {len(clean)}", f"{sum(short)} of {len(short)}"


def tuning_finding(stories: Sequence[TuningStory]) -> Iterator[Finding]:
    if not stories:
        return
    names = {story.job for story in stories}
    paper, foreign = [job for job in WORKLOADS if job in names], sorted(names - set(WORKLOADS))
    jobs = [*paper, *foreign]
    tuners = list(dict.fromkeys(story.tuner for story in stories))
    by_tuner = {tuner: {story.job: story for story in stories if story.tuner == tuner} for tuner in tuners}
    above = {
        tuner: [own[job].over_oracle or 0.0 if job in own else 0.0 for job in jobs] for tuner, own in by_tuner.items()
    }
    peaks = tuple(
        (tuner, *(_at_the_top(own[job]) if job in own else "–" for job in jobs)) for tuner, own in by_tuner.items()
    )
    left = {tuner: sum(story.backpressure_after_tuning for story in own.values()) for tuner, own in by_tuner.items()}
    checks: tuple[Check, ...] = ()
    if "streamtune" in left:
        told = ", ".join(f"{tuner} {count}" for tuner, count in left.items())
        checks = (Check("StreamTune leaves no backpressure", told, left["streamtune"] == 0),)
    headings = ("tuner", *_SCORED)
    yield Finding(
        "tuning",
        "Tuning over one cycle of ten rates",
        f"{len(jobs)} jobs at this machine's rates; the oracle knows the emulated service times",
        "StreamTune recommends the least parallelism, restarts least and never leaves backpressure.",
        (
            *(
                Shown(title, headings, _scores(by_tuner, group))
                for title, group in (("the paper's jobs", paper), ("jobs that nobody here wrote", foreign))
                if group
            ),
            Shown("total parallelism at 10·W_u (oracle's)", ("tuner", *jobs), peaks),
        ),
        pictures=(grouped_bars(jobs, above, "total parallelism / oracle, ten rates", 1.0),),
        checks=checks,
    )


def repeats_finding(repeats: Sequence[Sequence[TuningStory]]) -> Finding:
    """Repetitions of the tuning experiment on the paper's jobs, each and all together, against the three targets."""
    repeats = [[story for story in stories if story.job in WORKLOADS] for stories in repeats]
    rows, pooled = [], _by_tuner([story for stories in repeats for story in stories])
    for number, stories in enumerate(repeats, start=1):
        rows += [(f"{number}", tuner, *_cells(changes)) for tuner, changes in _by_tuner(stories).items()]
    rows += [("all", tuner, *_cells(changes)) for tuner, changes in pooled.items()]
    jobs = {story.job for stories in repeats for story in stories}
    headings = ("repetition", "tuner", *_SCORED)
    return Finding(
        "repeats",
        "Tuning on a real Flink, repeated",
        f"{len(repeats)} repetitions of {len(jobs)} jobs over one cycle of rates",
        "StreamTune recommends the least parallelism, restarts least and never leaves backpressure.",
        (Shown("", headings, tuple(rows)),),
        checks=tuple(_repeat_checks(pooled, wanted=len(WORKLOADS) * len(repeats) * len(cycle()))),
    )


def _repeat_checks(pooled: Mapping[str, Sequence[Change]], wanted: int) -> Iterator[Check]:
    mine, theirs = pooled.get("streamtune", []), pooled.get("ds2", [])
    yield Check("every change was measured", f"{len(mine)} of {wanted}", len(mine) == wanted)
    if not mine:
        return
    left = sum(one.backpressure for one in mine)
    yield Check("no change ends with backpressure", f"{left} of {len(mine)}", left == 0)
    over = _over_oracle(mine)
    yield Check("at most 1.05 × the oracle", f"{over:.3f}", over <= 1.05)
    if theirs:
        ours, ds2 = (mean(one.reconfigurations for one in some) for some in (mine, theirs))
        yield Check("no more reconfigurations than DS2", f"{ours:.2f} against {ds2:.2f} per change", ours <= ds2)


def _by_tuner(stories: Sequence[TuningStory]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for story in stories:
        found.setdefault(story.tuner, []).extend(story.changes)
    return found


def _over_oracle(changes: Sequence[Change]) -> float:
    return sum(one.total_parallelism for one in changes) / sum(one.oracle_total or 0 for one in changes)


_SCORED = ("reconfigurations / change", "ended with backpressure", "seen / change", "total / oracle")


def _cells(changes: Sequence[Change]) -> tuple[str, ...]:
    return (
        f"{mean(one.reconfigurations for one in changes):.2f}",
        f"{sum(one.backpressure for one in changes)} of {len(changes)}",
        f"{mean(one.backpressure_seen for one in changes):.2f}",
        f"{_over_oracle(changes):.3f}",
    )


def _scores(by_tuner: Mapping[str, Mapping[str, TuningStory]], jobs: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """One row per tuner that was run on any of the jobs."""
    rows = []
    for tuner, own in by_tuner.items():
        changes = [change for job in jobs if job in own for change in own[job].changes]
        if changes:
            rows.append((tuner, *_cells(changes)))
    return tuple(rows)


def _at_the_top(story: TuningStory) -> str:
    top = max(story.changes, key=lambda change: sum(change.rates.values()))
    return f"{top.total_parallelism} ({top.oracle_total})"
