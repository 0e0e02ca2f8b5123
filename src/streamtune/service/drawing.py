"""The dataflow of a job as an SVG file, coloured by load, with the report's layout."""

from __future__ import annotations

from html import escape

from streamtune.reports.dag_drawing import BOX_HEIGHT, BOX_WIDTH, Box, draw_dag
from streamtune.service.views import JobDetail, OperatorView

_THEMES = {
    "light": {"ink": "#1c2330", "soft": "#5b6473", "wire": "#98a2b3", "box": "#ffffff", "track": "#e4e7ec"},
    "dark": {"ink": "#e8ebf0", "soft": "#a4adbb", "wire": "#667085", "box": "#1d2430", "track": "#39424f"},
}
# From idle to full, readable with every common colour blindness; backpressure has its own.
_LOADS = {
    "light": ("#eef4fb", "#cfe3f7", "#f7e3b5", "#f3b98f"),
    "dark": ("#1f2a38", "#23425f", "#5a4a1d", "#6e3a1c"),
}
_ALARM = {"light": "#b42318", "dark": "#f97066"}
_NAME_LENGTH = 22


def draw_job(job: JobDetail, theme: str = "light") -> str:
    """One SVG document; every name in it is text, never markup."""
    drawing = draw_dag([one.id for one in job.operators], [(edge.source, edge.target) for edge in job.edges])
    colours = _THEMES[theme]
    operators = {one.id: one for one in job.operators}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {drawing.width:.0f} {drawing.height:.0f}" '
        f'width="{drawing.width:.0f}" height="{drawing.height:.0f}" role="img" '
        f'font-family="Inter, Helvetica Neue, Arial, system-ui, sans-serif" fill="{colours["ink"]}">',
        f"<title>{escape(f'Dataflow of {job.name}: {len(job.operators)} operators')}</title>",
    ]
    for wire in drawing.wires:
        parts.append(f'<path d="{wire.path}" fill="none" stroke="{colours["wire"]}" stroke-width="1.5"/>')
        parts.append(f'<path d="{wire.arrow}" fill="{colours["wire"]}"/>')
    parts += [_box(box, operators[box.operator], theme) for box in drawing.boxes]
    return "\n".join([*parts, "</svg>"])


def _box(box: Box, operator: OperatorView, theme: str) -> str:
    colours, held = _THEMES[theme], (operator.backpressured or 0.0) > 0.1
    stroke = _ALARM[theme] if held or operator.bottleneck else colours["wire"]
    width = 3 if held or operator.bottleneck else 1
    x, y = box.x, box.y
    name = operator.id if len(operator.id) <= _NAME_LENGTH else f"{operator.id[: _NAME_LENGTH - 1]}…"
    wanted = "" if operator.recommended in (None, operator.parallelism) else f" → {operator.recommended}"
    rate = "" if operator.rate_in is None else f"{_short(operator.rate_in)} records/s"
    lines = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX_WIDTH:.0f}" height="{BOX_HEIGHT:.0f}" rx="6" '
        f'fill="{_fill(operator, theme)}" stroke="{stroke}" stroke-width="{width}"/>',
        f'<text x="{x + 10:.1f}" y="{y + 22:.1f}" font-size="13" font-weight="650">{escape(name)}'
        f"<title>{escape(operator.id)}</title></text>",
        f'<text x="{x + 10:.1f}" y="{y + 39:.1f}" font-size="11.5" fill="{colours["soft"]}">'
        f"{escape(operator.type)}</text>",
        f'<text x="{x + 10:.1f}" y="{y + 62:.1f}" font-size="17" font-weight="700">× {operator.parallelism}'
        f"{escape(wanted)}</text>",
        f'<text x="{x + 10:.1f}" y="{y + 80:.1f}" font-size="11.5">{escape(rate)}</text>',
    ]
    return "\n".join([*lines, *_bars(x + 10, y + 88, operator, theme)])


def _bars(x: float, y: float, operator: OperatorView, theme: str) -> list[str]:
    """Busy and backpressured shares as one bar."""
    if operator.busy is None:
        return []
    room = BOX_WIDTH - 20
    busy, held = room * min(1.0, operator.busy), room * min(1.0, operator.backpressured or 0.0)
    bar = '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="6" rx="3" fill="{}"/>'.format
    parts = [bar(x, y, room, _THEMES[theme]["track"]), bar(x, y, busy, "#2e77d0")]
    return [*parts, bar(x + busy, y, held, _ALARM[theme])] if held > 0.5 else parts


def _fill(operator: OperatorView, theme: str) -> str:
    if operator.busy is None:
        return _THEMES[theme]["box"]
    level = 3 if operator.busy > 0.9 else 2 if operator.busy > 0.7 else 1 if operator.busy > 0.35 else 0
    return _LOADS[theme][level]


def _short(value: float) -> str:
    """A rate in few characters.

    >>> [_short(value) for value in (12.3, 4_500.0, 1_234_567.0)]
    ['12', '4.5 k', '1.2 M']
    """
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.1f}{unit}"
    return f"{value:.0f}"
