"""The charts of a tuning report as plain geometry; the template draws them.

A plot is stretched to the width of the page, so that text keeps its size on any screen: x runs from 0 to ``SPAN_X``,
y from 0 (top) to ``SPAN_Y``, and ticks are placed in per cent of the plot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streamtune.control.story import Change, Step, TuningStory

SPAN_X = 1000.0
SPAN_Y = 100.0
_MAX_RATE_LINES = 4
_TIME_UNITS = ((1.0, "s"), (60.0, "min"), (3600.0, "h"))
_TIME_STEPS_S = (1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 4 * 3600, 8 * 3600, 24 * 3600)


@dataclass(frozen=True)
class Tick:
    """A label on an axis. A ``minor`` one gives way on narrow screens."""

    percent: float
    label: str
    minor: bool = False


@dataclass(frozen=True)
class Line:
    """A step line. ``style`` names its class in the style sheet, ``label`` what it shows."""

    style: str
    label: str
    path: str


@dataclass(frozen=True)
class Plot:
    """One plot area with its lines and the ticks of its y axis."""

    lines: tuple[Line, ...]
    y_ticks: tuple[Tick, ...]


@dataclass(frozen=True)
class Interval:
    """A stretch of time under one plan and one set of rates, judged by the measurement at its end."""

    start_s: float
    end_s: float
    step: Step

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s

    @property
    def total_parallelism(self) -> int:
        return self.step.observation.plan.total


@dataclass(frozen=True)
class Span:
    """A stretch of the x axis and what there is to say about it."""

    x: float
    width: float
    text: str = ""


@dataclass(frozen=True)
class TimeChart:
    """What happened over time: the rates, the parallelism, every reconfiguration, every backpressured stretch."""

    rates: Plot
    parallelism: Plot
    x_ticks: tuple[Tick, ...]
    reconfigurations: tuple[float, ...]
    backpressure: tuple[Span, ...]
    moments: tuple[Span, ...]


@dataclass(frozen=True)
class TimeScale:
    """Axes that several time charts share, so that they can be compared."""

    duration_s: float
    rate_ticks: tuple[float, ...]
    parallelism_ticks: tuple[float, ...]

    @classmethod
    def over(cls, stories: Sequence[TuningStory]) -> TimeScale:
        totals = [interval.total_parallelism for story in stories for interval in intervals(story)]
        totals += [change.oracle_total or 0 for story in stories for change in story.changes]
        rates = [max(values) for story in stories for _, values in _rate_series(story)]
        return cls(
            max(story.steps[-1].time_s - intervals(story)[0].start_s for story in stories),
            round_ticks(max(rates), 4),
            round_ticks(max(totals), 4, whole=True),
        )


@dataclass(frozen=True)
class OperatorChart:
    """The parallelism of one operator over the changes, all tuners and the oracle in one plot.

    ``steady_at`` is set where nothing changes: all tuners, and the oracle if there is one, held one value.
    """

    operator: str
    type: str
    plot: Plot
    x_ticks: tuple[Tick, ...]
    over_oracle: tuple[tuple[str, float], ...]
    steady_at: int | None


def intervals(story: TuningStory) -> list[Interval]:
    """The story's time axis: every observation closes the stretch since the one before it."""
    first = story.steps[0]
    starts = [first.time_s - first.observation.window_s, *(step.time_s for step in story.steps[:-1])]
    return [Interval(start, step.time_s, step) for start, step in zip(starts, story.steps, strict=True)]


def round_ticks(high: float, count: int, *, whole: bool = False) -> tuple[float, ...]:
    """Ticks from 0 to the first round value at or above ``high``, in about ``count`` steps of 1, 2 or 5 times 10ⁿ.

    >>> round_ticks(42, 4, whole=True)
    (0, 20, 40, 60)
    >>> round_ticks(0.9, 3, whole=True)
    (0, 1)
    """
    if not (math.isfinite(high) and high > 0):
        return (0, 1)
    rough = high / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    if whole:
        step = max(1, round(step))
    return tuple(step * number for number in range(math.ceil(high / step - 1e-9) + 1))


def short_number(value: float) -> str:
    """A rate as an axis shows it.

    >>> short_number(160_000), short_number(1_200_000), short_number(0.5), short_number(0)
    ('160 k', '1.2 M', '0.5', '0')
    """
    for size, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """A duration in the two units that matter.

    >>> duration(45), duration(4200), duration(90)
    ('45 s', '1 h 10 min', '1 min 30 s')
    """
    whole = round(seconds)
    parts = [(whole // 3600, "h"), (whole % 3600 // 60, "min"), (whole % 60, "s")]
    leading = next((place for place, (value, _) in enumerate(parts) if value), 2)
    shown = [(value, unit) for value, unit in parts[leading : leading + 2] if value] or [(0, "s")]
    return " ".join(f"{value} {unit}" for value, unit in shown)


def time_chart(story: TuningStory, scale: TimeScale, style: str, label: str) -> TimeChart:
    stretches = intervals(story)
    origin, unit = stretches[0].start_s, SPAN_X / (scale.duration_s or 1.0)
    edges = [((part.start_s - origin) * unit, (part.end_s - origin) * unit) for part in stretches]
    spans = [
        Span(start, end - start, _tooltip(part, story)) for part, (start, end) in zip(stretches, edges, strict=True)
    ]
    lines = [
        Line(style, label, step_path(edges, [p.total_parallelism for p in stretches], scale.parallelism_ticks[-1]))
    ]
    oracle = [story.changes[part.step.change].oracle_total for part in stretches]
    if any(total is not None for total in oracle):
        lines.insert(0, Line("oracle", "oracle", step_path(edges, oracle, scale.parallelism_ticks[-1])))
    rates = tuple(
        Line(f"rate{number}", name, step_path(edges, values, scale.rate_ticks[-1]))
        for number, (name, values) in enumerate(_rate_series(story))
    )
    return TimeChart(
        rates=Plot(rates, _y_ticks(scale.rate_ticks)),
        parallelism=Plot(tuple(lines), _y_ticks(scale.parallelism_ticks)),
        x_ticks=time_ticks(scale.duration_s),
        reconfigurations=tuple(
            start for part, (start, _) in zip(stretches, edges, strict=True) if part.step.reconfigured
        ),
        backpressure=_merged(
            span for part, span in zip(stretches, spans, strict=True) if part.step.observation.has_backpressure
        ),
        moments=tuple(spans),
    )


def operator_charts(stories: Mapping[str, TuningStory], styles: Mapping[str, str]) -> list[OperatorChart]:
    """One small chart per operator; ``stories`` (by label) share the job and the sequence of rates."""
    first = next(iter(stories.values()))
    return [_operator_chart(operator, kind, stories, styles) for operator, kind in first.operators]


def _operator_chart(
    operator: str, kind: str, stories: Mapping[str, TuningStory], styles: Mapping[str, str]
) -> OperatorChart:
    chosen = {label: [change.plan[operator] for change in story.changes] for label, story in stories.items()}
    best = {label: [_oracle_degree(change, operator) for change in story.changes] for label, story in stories.items()}
    known = {tuple(series) for series in best.values() if any(degree is not None for degree in series)}
    drawn: list[Sequence[int | None]] = [*chosen.values(), *known]
    values = {degree for series in drawn for degree in series if degree is not None}
    ticks = round_ticks(max(*values, 2), 2, whole=True)
    count = len(next(iter(chosen.values())))
    edges = [(index * SPAN_X / count, (index + 1) * SPAN_X / count) for index in range(count)]
    lines = [Line("oracle", "oracle", step_path(edges, series, ticks[-1])) for series in sorted(known, key=str)]
    lines += [Line(styles[label], label, step_path(edges, series, ticks[-1])) for label, series in chosen.items()]
    ratios = tuple(
        (label, sum(chosen[label]) / sum(degree or 0 for degree in series))
        for label, series in best.items()
        if all(degree is not None for degree in series)
    )
    return OperatorChart(
        operator,
        kind,
        Plot(tuple(lines), _y_ticks(ticks)),
        change_ticks(count),
        ratios,
        steady_at=values.pop() if len(values) == 1 else None,
    )


def _oracle_degree(change: Change, operator: str) -> int | None:
    return change.oracle_plan[operator] if change.oracle_plan is not None else None


def step_path(edges: Sequence[tuple[float, float]], values: Sequence[float | None], top: float) -> str:
    """SVG path data of a step line: level over each stretch, upright between two; a missing value leaves a gap.

    >>> step_path([(0, 500), (500, 1000)], [10, 5], top=10)
    'M0 0H500V50H1000'
    """
    parts: list[str] = []
    drawing = False
    for (start, end), value in zip(edges, values, strict=True):
        if value is None or not math.isfinite(value):
            drawing = False
            continue
        y = _short(SPAN_Y * (1 - value / top))
        parts.append(f"V{y}H{_short(end)}" if drawing else f"M{_short(start)} {y}H{_short(end)}")
        drawing = True
    return "".join(parts)


def time_ticks(duration_s: float) -> tuple[Tick, ...]:
    step = next((step for step in _TIME_STEPS_S if duration_s / step <= 9), _TIME_STEPS_S[-1])
    size, unit = next((size, unit) for size, unit in reversed(_TIME_UNITS) if step >= size)
    count = math.floor(duration_s / step + 1e-9)
    return tuple(
        Tick(100 * step * number / (duration_s or 1.0), f"{step * number / size:g} {unit}", minor=number % 2 == 1)
        for number in range(count + 1)
    )


def change_ticks(count: int) -> tuple[Tick, ...]:
    """Numbers of changes, 1 to ``count``, each in the middle of its stretch."""
    step = max(1, int(round_ticks(count, 6, whole=True)[1]))
    return tuple(Tick(100 * (number - 0.5) / count, str(number)) for number in range(step, count + 1, step))


def _y_ticks(values: Sequence[float]) -> tuple[Tick, ...]:
    return tuple(Tick(100 * (1 - value / values[-1]), short_number(value)) for value in values)


def _rate_series(story: TuningStory) -> list[tuple[str, list[float]]]:
    """The offered rate per source; sources with the same rates share a line, too many sources become their sum."""
    offered = [step.observation.source_rates for step in story.steps]
    names: dict[tuple[float, ...], list[str]] = {}
    for source in offered[0]:
        names.setdefault(tuple(rates[source] for rates in offered), []).append(source)
    if len(names) > _MAX_RATE_LINES:
        return [(f"all {len(offered[0])} sources together", [sum(rates.values()) for rates in offered])]
    return [
        (", ".join(sources) + (" (each)" if len(sources) > 1 else ""), list(values))
        for values, sources in names.items()
    ]


def _tooltip(part: Interval, story: TuningStory) -> str:
    seen, change = part.step.observation, story.changes[part.step.change]
    lines = [
        f"change {part.step.change + 1}, until {duration(part.end_s)}",
        *(f"{source}: {rate:,.0f} records/s" for source, rate in seen.source_rates.items()),
        f"parallelism {part.total_parallelism}"
        + (f", oracle {change.oracle_total}" if change.oracle_total is not None else ""),
    ]
    if part.step.reconfigured:
        lines.append("reconfigured at the start")
    lines += [
        f"{operator} backpressured {seen.operators[operator].backpressured_share:.0%}"
        for operator in seen.backpressured()
    ]
    return "\n".join(lines)


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Neighbouring stretches as one."""
    merged: list[Span] = []
    for span in spans:
        if merged and math.isclose(merged[-1].x + merged[-1].width, span.x, abs_tol=1e-6):
            merged[-1] = Span(merged[-1].x, merged[-1].width + span.width)
        else:
            merged.append(Span(span.x, span.width))
    return tuple(merged)


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
