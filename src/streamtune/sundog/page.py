"""One page about one entity: its ranking over days as lines, the newest ranking as a table, and why it moved.

Why is told twice: beside every related entity by its users and its probability over days, and day by day in sentences
with the features that changed.
"""

from __future__ import annotations

from pathlib import Path

import jinja2

from streamtune.outputs import write_whole
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
_GONE = "#9996"  # of entities that the newest ranking no longer has: colours would repeat
_TOLD = ("conditional_users", "joint_users")
_WIDTH, _LEFT, _RIGHT, _TOP, _STEP, _TICK = 860, 40, 190, 24, 30, 60
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
svg.ranks { width: 100%; height: auto; }
svg.spark { width: 110px; height: 22px; vertical-align: middle; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
</style>
</head>
<body>
<h1>{{ history.name }}</h1>
<p>Related entities by windows of {{ history.window }} day{{ "s" if history.window > 1 }},
{{ history.days[0] }} to {{ history.days[-1] }}.</p>
<svg class="ranks" viewBox="0 0 {{ width }} {{ height }}" role="img" aria-label="Ranks over days">
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
<th>p(related | entity)</th><th>p over days</th><th>share of all users over days</th></tr></thead>
<tbody>
{% for row in history.newest %}<tr><td>{{ row.rank }}</td><td>{{ row.name }}</td>
<td>{{ "new" if row.before is none else row.before ~ " " ~ row.move }}</td><td>{{ "%.4f"|format(row.score) }}</td>
<td>{{ "{:,}".format(row.users) }}</td><td>{{ "{:,}".format(row.events) }}</td>
<td>{{ "%.4f"|format(row.conditional) }}</td>
{% for name in told %}<td><svg class="spark" viewBox="0 0 110 22" role="img" aria-label="{{ row.name }}: {{ name }}">
<polyline points="{{ sparks[row.related][name] }}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg></td>
{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
{% if days_moved %}<h2>What moved, and why</h2>
{% for day, reasons in days_moved %}<details{{ " open" if loop.first }}><summary>{{ day }}</summary>
<ul>
{% for reason in reasons %}<li>{{ reason }}</li>
{% endfor %}
</ul></details>
{% endfor %}{% endif %}
</body>
</html>
"""


def write_page(history: EntityHistory, file: Path) -> None:
    """Write the page; it needs nothing from elsewhere."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, render_page(history))


def render_page(history: EntityHistory) -> str:
    ranks = max(len(standings) for standings in history.standings)
    height = _TOP + ranks * _STEP + 24
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_PAGE).render(
        history=history,
        width=_WIDTH,
        height=height,
        left=_LEFT,
        right=_RIGHT,
        top=_TOP,
        step=_STEP,
        ranks=ranks,
        ticks=_ticks(history),
        lines=_lines(history),
        told=_TOLD,
        sparks={one.related: {name: _spark(history, one.related, name) for name in _TOLD} for one in history.newest},
        days_moved=[(day, moved) for day, moved in zip(history.days, history.moved, strict=True) if moved][::-1],
    )


def _spark(history: EntityHistory, related: str, name: str) -> str:
    """A feature over days as points of a small line; a day without the pair is 0."""
    by_day = {row["day"]: row[name] for row in history.features.get(related, [])}
    values = [by_day.get(float(day.toordinal()), 0.0) for day in history.days]
    top = max(values) or 1.0
    points = [(2 + 106 * _share(history, place), 20 - 18 * value / top) for place, value in enumerate(values)]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _x(history: EntityHistory, place: int) -> float:
    return round(_LEFT + 6 + (_WIDTH - _LEFT - _RIGHT - 6) * _share(history, place), 1)


def _share(history: EntityHistory, place: int) -> float:
    """How far a day is from the first to the last: days may be missing between two rankings."""
    span = max(1, (history.days[-1] - history.days[0]).days)
    return (history.days[place] - history.days[0]).days / span


def _ticks(history: EntityHistory) -> list[dict[str, object]]:
    """Days with room for their names, from the newest backwards."""
    ticks: list[dict[str, object]] = []
    room = float("inf")
    for place in reversed(range(len(history.days))):
        x = _x(history, place)
        if x <= room:
            ticks.append({"x": x, "label": history.days[place].strftime("%d %b")})
            room = x - _TICK
    return ticks


def _lines(history: EntityHistory) -> list[dict[str, object]]:
    """A line per related entity, broken where it was not ranked; those of the newest day, in its order, lie on top."""
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
                "colour": _COLOURS[number % len(_COLOURS)] if related in last else _GONE,
                "paths": [" ".join(path) for path in paths if len(path) > 1],
                "dots": [point for point in points if point],
                "label_y": _TOP + (last[related] - 1) * _STEP + 4 if related in last else None,
            }
        )
    return lines[::-1]
