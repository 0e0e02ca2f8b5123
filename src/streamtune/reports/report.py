"""The report of one or more tuning stories: one HTML file that needs nothing else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from jinja2 import Environment

from streamtune import __version__
from streamtune.control.controller import StopReason
from streamtune.control.story import Step, TuningStory
from streamtune.dataflow import BACKPRESSURE_SHARE, OperatorMetrics
from streamtune.reports import charts, dag_drawing
from streamtune.reports.charts import OperatorChart, TimeChart, TimeScale
from streamtune.reports.pages import ReportError, template_environment, write_page

STOP_REASONS: Mapping[StopReason, str] = {
    "no_backpressure": "no backpressure",
    "unchanged": "plan unchanged",
    "bound": "bound reached",
    "dry_run": "dry run",
    "crashed": "job crashed",
    "rolled_back": "taken back",
    "held": "no changes now",
}
# A longer table of changes is folded; so are the dataflows of all tuners after the first two.
LONGEST_OPEN_TABLE = 20
OPEN_DRAWINGS = 2
DENSE_CHANGES = 40
# Busy shares at which a box takes the next darker colour.
LOAD_LEVELS = (0.25, 0.50, 0.75, 0.90)
_STYLES = 6

_Key = TypeVar("_Key", bound=Hashable)
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Figures:
    """The key figures of one tuner, over one story or pooled over several."""

    changes: int
    reconfigurations: int
    backpressured: int
    parallelism: int
    oracle_parallelism: int | None
    observations: int
    backpressured_observations: int
    instance_s: float
    duration_s: float

    @classmethod
    def of(cls, stories: Sequence[TuningStory]) -> Figures:
        changes = [change for story in stories for change in story.changes]
        seen = [step.observation for story in stories for step in story.steps]
        parts = [part for story in stories for part in charts.intervals(story)]
        best = [change.oracle_total for change in changes]
        return cls(
            changes=len(changes),
            reconfigurations=sum(change.reconfigurations for change in changes),
            backpressured=sum(change.backpressure for change in changes),
            parallelism=sum(change.total_parallelism for change in changes),
            oracle_parallelism=None if None in best else sum(total or 0 for total in best),
            observations=len(seen),
            backpressured_observations=sum(observation.has_backpressure for observation in seen),
            instance_s=sum(part.total_parallelism * part.length_s for part in parts),
            duration_s=sum(part.length_s for part in parts),
        )

    @property
    def reconfigurations_per_change(self) -> float:
        return self.reconfigurations / self.changes

    @property
    def over_oracle(self) -> float | None:
        return self.parallelism / self.oracle_parallelism if self.oracle_parallelism else None

    @property
    def mean_instances(self) -> float:
        """Instances running on average over time."""
        return self.instance_s / self.duration_s

    @property
    def rank(self) -> tuple[float, float, float]:
        """First no backpressure, then few instances, then few reconfigurations."""
        return (self.backpressured / self.changes, self.mean_instances, self.reconfigurations_per_change)


@dataclass(frozen=True)
class Scored:
    """A tuner under the name and the line style it goes by, with its figures."""

    label: str
    style: str
    figures: Figures


@dataclass(frozen=True)
class Tuned(Scored):
    """One tuner on one job, with the whole story."""

    story: TuningStory


@dataclass(frozen=True)
class OperatorBox:
    """One operator in the drawing of the dataflow."""

    box: dag_drawing.Box
    type: str
    metrics: OperatorMetrics
    oracle: int | None
    load_level: int | None
    backpressured: bool


@dataclass(frozen=True)
class Peak:
    """The dataflow of one story as last measured under its highest rate."""

    tuned: Tuned
    number: int
    step: Step
    drawing: dag_drawing.Drawing
    boxes: tuple[OperatorBox, ...]


@dataclass(frozen=True)
class Section:
    """All stories of one job under the same sequence of rates."""

    anchor: str
    job: str
    verdict: str
    tuned: tuple[Tuned, ...]
    peaks: tuple[Peak, ...]
    timelines: tuple[tuple[Tuned, TimeChart], ...]
    operators: tuple[OperatorChart, ...]
    steady: tuple[OperatorChart, ...]

    @property
    def has_oracle(self) -> bool:
        return any(change.oracle_total is not None for entry in self.tuned for change in entry.story.changes)

    @property
    def is_dense(self) -> bool:
        """So many changes that lines must be thin."""
        return len(self.tuned[0].story.changes) > DENSE_CHANGES


def render_report(stories: Sequence[TuningStory], *, title: str, command: str | None = None) -> str:
    """One self-contained HTML page: the same stories always give the same page."""
    _check(stories)
    groups = _grouped(stories, key=lambda story: (story.job, story.operators, story.edges, _rates_of(story)))
    sections = [_section(f"job-{number}", group) for number, group in enumerate(groups, start=1)]
    pooled = _pooled(sections)
    verdict = sections[0].verdict if len(sections) == 1 else _verdict(pooled, f"{len(sections)} jobs")
    return (
        _environment()
        .get_template("tuning_report.html.j2")
        .render(
            title=title,
            command=command,
            verdict=verdict,
            pooled=pooled,
            sections=sections,
            windows_s=sorted({step.observation.window_s for story in stories for step in story.steps}),
            has_oracle=any(section.has_oracle for section in sections),
            version=__version__,
            backpressure_share=BACKPRESSURE_SHARE,
            load_levels=LOAD_LEVELS,
            longest_open_table=LONGEST_OPEN_TABLE,
            open_drawings=OPEN_DRAWINGS,
            stop_reasons=STOP_REASONS,
            span_x=charts.SPAN_X,
            span_y=charts.SPAN_Y,
            box_width=dag_drawing.BOX_WIDTH,
            box_height=dag_drawing.BOX_HEIGHT,
        )
    )


def write_report(path: Path, stories: Sequence[TuningStory], *, title: str, command: str | None = None) -> None:
    """Write the page atomically: a reader sees the old file or the new one, never half of it."""
    write_page(path, render_report(stories, title=title, command=command))


def _check(stories: Sequence[TuningStory]) -> None:
    if not stories:
        raise ReportError("a report needs at least one tuning story, but got none: tune a job first")
    for story in stories:
        observed = {step.change for step in story.steps}
        missing = [number for number in range(len(story.changes)) if number not in observed]
        if not story.changes or missing:
            what = f"no observation of change {missing[0] + 1}" if missing else "no change"
            raise ReportError(
                f"the story of '{story.tuner}' on '{story.job}' has {what}: "
                "tune over at least one rate and keep every step"
            )


def _rates_of(story: TuningStory) -> tuple[tuple[tuple[str, float], ...], ...]:
    return tuple(tuple(sorted(change.rates.items())) for change in story.changes)


def _grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> list[list[_Item]]:
    """Items with equal keys together, both in order of appearance."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _section(anchor: str, stories: Sequence[TuningStory]) -> Section:
    tuned = tuple(
        Tuned(label, _style(number), Figures.of([story]), story)
        for number, (label, story) in enumerate(zip(_labels(stories), stories, strict=True))
    )
    scale = TimeScale.over(stories)
    operators = charts.operator_charts(
        {entry.label: entry.story for entry in tuned}, {entry.label: entry.style for entry in tuned}
    )
    # Operators that never move are named, not drawn; unless that would leave nothing to draw.
    moving = tuple(chart for chart in operators if chart.steady_at is None) or tuple(operators)
    return Section(
        anchor=anchor,
        job=stories[0].job,
        verdict=_verdict(tuned, stories[0].job),
        tuned=tuned,
        peaks=tuple(_peak(entry) for entry in tuned),
        timelines=tuple((entry, charts.time_chart(entry.story, scale, entry.style, entry.label)) for entry in tuned),
        operators=moving,
        steady=tuple(chart for chart in operators if chart not in moving),
    )


def _labels(stories: Sequence[TuningStory]) -> list[str]:
    """The tuner's name, with the seed or a number where the name alone would not tell two stories apart."""
    labels = [story.tuner for story in stories]
    if len({story.seed for story in stories}) > 1:
        labels = _told_apart(labels, [f"seed {story.seed}" for story in stories])
    return _told_apart(labels, [f"#{number}" for number in range(1, len(stories) + 1)])


def _told_apart(labels: Sequence[str], additions: Sequence[str]) -> list[str]:
    often = Counter(labels)
    return [f"{label} {more}" if often[label] > 1 else label for label, more in zip(labels, additions, strict=True)]


def _style(number: int) -> str:
    return f"series{number % _STYLES}"


def _pooled(sections: Sequence[Section]) -> list[Scored]:
    """The figures per tuner over all jobs."""
    by_label = _grouped((entry for section in sections for entry in section.tuned), key=lambda entry: entry.label)
    return [
        Scored(entries[0].label, _style(number), Figures.of([entry.story for entry in entries]))
        for number, entries in enumerate(by_label)
    ]


def _verdict(scored: Sequence[Scored], subject: str) -> str:
    """One sentence with the figures; of several tuners the best comes first."""
    best, *others = sorted(scored, key=lambda entry: entry.figures.rank)
    figures = best.figures
    ended = f"{figures.backpressured} of {figures.changes}" if figures.backpressured else "none"
    parallelism = (
        f"{figures.over_oracle:.2f} × the oracle's parallelism"
        if figures.over_oracle is not None
        else f"{figures.mean_instances:.1f} instances on average"
    )
    changes = f"{figures.changes} rate change" + ("s" if figures.changes > 1 else "")
    sentence = (
        f"{best.label} followed {changes} of {subject} with {figures.reconfigurations_per_change:.2f} reconfigurations "
        f"each; {ended} ended with backpressure, at {parallelism}"
    )
    if others:
        shown = "; ".join(_in_short(entry) for entry in others[:2])
        more = len(others) - 2
        sentence += f". Against it {shown}" + (f"; and {more} more below" if more > 0 else "")
    return sentence + "."


def _in_short(scored: Scored) -> str:
    figures = scored.figures
    parallelism = (
        f"{figures.over_oracle:.2f} ×" if figures.over_oracle is not None else f"{figures.mean_instances:.1f} instances"
    )
    return (
        f"{scored.label}: {figures.reconfigurations_per_change:.2f} reconfigurations, "
        f"{figures.backpressured} of {figures.changes} with backpressure, {parallelism}"
    )


def _peak(tuned: Tuned) -> Peak:
    """The last change with the highest total rate, as its last observation shows it."""
    story = tuned.story
    totals = [sum(change.rates.values()) for change in story.changes]
    number = max(range(len(totals)), key=lambda position: (totals[position], position))
    step = [step for step in story.steps if step.change == number][-1]
    drawing = dag_drawing.draw_dag([operator for operator, _ in story.operators], story.edges)
    oracle = story.changes[number].oracle_plan or {}
    kinds, backpressured = dict(story.operators), set(step.observation.backpressured())
    boxes = tuple(
        OperatorBox(
            box=box,
            type=kinds[box.operator],
            metrics=step.observation.operators[box.operator],
            oracle=oracle.get(box.operator),
            load_level=_load_level(step.observation.operators[box.operator].busy_share),
            backpressured=box.operator in backpressured,
        )
        for box in drawing.boxes
    )
    return Peak(tuned, number, step, drawing, boxes)


def _load_level(busy_share: float) -> int | None:
    return sum(busy_share >= level for level in LOAD_LEVELS) if math.isfinite(busy_share) else None


@cache
def _environment() -> Environment:
    environment = template_environment().overlay()
    environment.filters.update(percent=_percent, shortened=_shortened, duration=charts.duration)
    return environment


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%" if math.isfinite(share) else "–"


def _shortened(text: str, longest: int) -> str:
    """The text, its middle cut out if it is too long: what differs is at the start or the end."""
    if len(text) <= longest:
        return text
    head = (longest - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"
