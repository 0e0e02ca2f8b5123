"""One page about one entity: its ranking over days as lines, the newest ranking as a table, and why it moved."""

from __future__ import annotations

from pathlib import Path

import jinja2

from streamtune.sundog.history import EntityHistory

_COLOURS = (
    "#1f6f8b",
    "#d1603d",
    "#6a8d3a",
    "#8a5fa8",
    "#b8902b",
    "#4a4e57",
    "#c2427e",
    "#5fa8a0",
    "#9b6b4e",
    "#7d86a8",
)
_WIDTH, _LEFT, _RIGHT, _TOP, _STEP = 860, 40, 190, 24, 30
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ history.name }}: related entities over days</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #8884; }
th:nth-child(2), td:nth-child(2) { text-align: left; }
svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
</style>
</head>
<body>
<h1>{{ history.name }}</h1>
<p>Related entities by windows of {{ history.window }} days, {{ history.days[0] }} to {{ history.days[-1] }}.</p>
<svg viewBox="0 0 {{ width }} {{ height }}" role="img" aria-label="Ranks over days">
{% for rank in range(1, ranks + 1) %}
<text x="{{ left - 12 }}" y="{{ top + (rank - 1) * step + 4 }}" text-anchor="end">{{ rank }}</text>
{% endfor %}
{% for tick in ticks %}<text x="{{ tick.x }}" y="{{ height - 6 }}" text-anchor="middle">{{ tick.label }}</text>
{% endfor %}
{% for line in lines %}<g><title>{{ line.name }}</title>
{% for path in line.paths %}<polyline points="{{ path }}" fill="none" stroke="{{ line.colour }}" stroke-width="2.5"/>
{% endfor %}{% for x, y in line.dots %}<circle cx="{{ x }}" cy="{{ y }}" r="4" fill="{{ line.colour }}"/>
{% endfor %}{% if line.label_y is not none %}
<text x="{{ width - right + 14 }}" y="{{ line.label_y }}">{{ line.name }}</text>{% endif %}</g>
{% endfor %}
</svg>
<h2>{{ history.days[-1] }}</h2>
<table>
<thead><tr><th>rank</th><th>related</th><th>before</th><th>score</th><th>users</th><th>events</th>
<th>p(related | entity)</th></tr></thead>
<tbody>
{% for row in history.newest %}<tr><td>{{ row.rank }}</td><td>{{ row.name }}</td>
<td>{{ "new" if row.before is none else row.before ~ " " ~ row.move }}</td><td>{{ "%.4f"|format(row.score) }}</td>
<td>{{ "{:,}".format(row.users) }}</td><td>{{ "{:,}".format(row.events) }}</td>
<td>{{ "%.4f"|format(row.conditional) }}</td></tr>
{% endfor %}
</tbody>
</table>
{% if history.reasons %}<h2>What moved, and why</h2>
<ul>
{% for reason in history.reasons %}<li>{{ reason }}</li>
{% endfor %}
</ul>{% endif %}
</body>
</html>
"""


def write_page(history: EntityHistory, file: Path) -> None:
    """Write the page; it needs nothing from elsewhere."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(render_page(history), encoding="utf-8")


def render_page(history: EntityHistory) -> str:
    ranks = max(len(standings) for standings in history.standings)
    height = _TOP + ranks * _STEP + 24
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    shown = range(0, len(history.days), max(1, len(history.days) // 8))
    return environment.from_string(_PAGE).render(
        history=history,
        width=_WIDTH,
        height=height,
        left=_LEFT,
        right=_RIGHT,
        top=_TOP,
        step=_STEP,
        ranks=ranks,
        ticks=[{"x": _x(history, place), "label": history.days[place].strftime("%d %b")} for place in shown],
        lines=_lines(history),
    )


def _x(history: EntityHistory, place: int) -> float:
    span = max(1, len(history.days) - 1)
    return round(_LEFT + 6 + (_WIDTH - _LEFT - _RIGHT - 6) * place / span, 1)


def _lines(history: EntityHistory) -> list[dict[str, object]]:
    """A line per related entity, broken where it was not ranked; those of the newest day come in its order."""
    names = {one.related: one.name for standings in history.standings for one in standings}
    last = {one.related: one.rank for one in history.newest}
    lines: list[dict[str, object]] = []
    for number, related in enumerate(sorted(names, key=lambda key: (last.get(key, 999), key))):
        ranks = [
            next((one.rank for one in standings if one.related == related), None) for standings in history.standings
        ]
        points = [
            None if rank is None else (_x(history, place), _TOP + (rank - 1) * _STEP)
            for place, rank in enumerate(ranks)
        ]
        paths: list[list[str]] = [[]]
        for point in points:
            if point is None:
                paths.append([])
            else:
                paths[-1].append(f"{point[0]},{point[1]}")
        lines.append(
            {
                "name": names[related],
                "colour": _COLOURS[number % len(_COLOURS)],
                "paths": [" ".join(path) for path in paths if len(path) > 1],
                "dots": [point for point in points if point],
                "label_y": _TOP + (last[related] - 1) * _STEP + 4 if related in last else None,
            }
        )
    return lines
