"""What the names and descriptions of Flink's operators say about their kind, window, key and aggregate.

SQL descriptions are a text format of Flink's planner, for instance
``GlobalWindowAggregate(groupBy=[item], window=[HOP(slice_end=[$slice_end], size=[10 s], slide=[2 s])], select=[…])``.
Names of DataStream operators are what their authors chose, or a default such as ``Filter``. Nothing is guessed beyond
what is written: the rest is ``unknown`` and can be given in an overrides file.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from streamtune.dataflow.operator import Aggregate, Join, Window, parse_length

UNKNOWN = "unknown"

# The first that matches decides; SQL's names come before words that a user may have chosen.
_KINDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, flags), kind)
    for pattern, kind, flags in (
        (r"^Source:|TableSourceScan", "source", 0),
        (r"^Sink:|: (Writer|Committer)$|^Sink\(", "sink", 0),
        (r"WindowJoin", "window_join", 0),
        (r"(Interval|Temporal|Lookup|Delta|Multi)?Join(\[|\(|$)", "join", 0),
        (r"(Global|Local)?Window(Aggregate|Rank|Deduplicate)", "window_aggregate", 0),
        (r"^(Tumbling|Sliding)\w*Windows|^Window\((Tumbling|Sliding)", "window_aggregate", 0),
        (r"(Group|Over)\w*Aggregate", "aggregate", 0),
        (r"^Calc(\[|\(|$)", "map", 0),
        (r"^(Correlate|Expand)(\[|\(|$)", "flat_map", 0),
        (r"\bwindow[ _-]?join\b", "window_join", re.IGNORECASE),
        (r"\bjoin\b", "join", re.IGNORECASE),
        (r"\bflat[ _-]?map\b", "flat_map", re.IGNORECASE),
        (r"\bfilter\b", "filter", re.IGNORECASE),
        (r"\bmap\b", "map", re.IGNORECASE),
        (r"\b(aggregat(e|ion)|reduce|keyed (sum|min|max))\b", "aggregate", re.IGNORECASE),
    )
)
# What decides about a vertex of several chained operators: the heaviest of them.
_WEIGHT = ("window_join", "window_aggregate", "join", "aggregate", "flat_map", "filter", "map", "sink", "source")
_AGGREGATES = re.compile(r"\b(COUNT|SUM|MIN|MAX|AVG)\w*\$?\d*\(", re.IGNORECASE)
_SQL_WINDOW = re.compile(r"\b(TUMBLE|HOP)\((.*?\])\)")
_JAVA_WINDOW = re.compile(r"(Tumbling|Sliding)\w*Windows\((\d+)(?:, (\d+))?")


@dataclass(frozen=True)
class Description:
    """What could be read off one vertex."""

    kind: str = UNKNOWN
    window: Window | None = None
    aggregate: Aggregate | None = None
    join: Join | None = None
    width_out: int | None = None
    is_sql: bool = False


def chained_names(vertex_name: str) -> list[str]:
    """The operators that a vertex chains, first to last.

    >>> chained_names("Source: bids -> Filter -> (Map, Sink: out)")
    ['Source: bids', 'Filter', 'Map', 'Sink: out']
    """
    parts = re.split(r"\s*->\s*|,\s+(?![^\[]*\])", vertex_name)
    return [name for name in (part.strip().strip("()").strip() for part in parts) if name]


def describe(vertex_name: str, description: str) -> Description:
    """Read a vertex: its chained names, and the planner's description where there is one.

    >>> found = describe("GlobalWindowAggregate[5]", "GlobalWindowAggregate(groupBy=[item], "
    ...     "window=[HOP(slice_end=[$e], size=[10 s], slide=[2 s])], select=[item, COUNT(*) AS c, start('w$') AS s])")
    >>> found.kind, found.window.length, found.window.slide, found.aggregate.function, found.width_out
    ('window_aggregate', 10.0, 2.0, 'count', 3)
    """
    text = html.unescape(description).replace("<br/>", "\n")
    is_sql = bool(re.search(r"\w+\((?:table|select|groupBy|joinType|window|fields|where)=\[", text))
    kinds = [_kind(name) for name in chained_names(vertex_name)]
    kind = next((kind for kind in _WEIGHT if kind in kinds), UNKNOWN)
    if kind == "map" and is_sql and "where=[" in text:
        kind = "filter"  # the planner calls both Calc
    return Description(
        kind=kind,
        window=_window(text) or _window(vertex_name),
        aggregate=_aggregate(text) if kind in {"window_aggregate", "aggregate"} and is_sql else None,
        join=Join(key_class=UNKNOWN) if kind in {"join", "window_join"} else None,
        width_out=_width(text) if is_sql else None,
        is_sql=is_sql,
    )


def _kind(name: str) -> str:
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), UNKNOWN)


def _window(text: str) -> Window | None:
    if match := _SQL_WINDOW.search(text):
        size, slide = (_duration(name, match[2]) for name in ("size", "slide"))
        if size is not None and (match[1] == "TUMBLE" or slide is not None):
            return _window_of(match[1] == "HOP", size, slide)
    if match := _JAVA_WINDOW.search(text):
        return _window_of(match[1] == "Sliding", int(match[2]) / 1000, int(match[3]) / 1000 if match[3] else None)
    return None


def _window_of(is_sliding: bool, length_s: float, slide_s: float | None) -> Window | None:
    if is_sliding and slide_s is not None and 0 < slide_s <= length_s:
        return Window(type="sliding", policy="time", length=length_s, slide=slide_s)
    if not is_sliding and length_s > 0:
        return Window(type="tumbling", policy="time", length=length_s)
    return None


def _duration(name: str, text: str) -> float | None:
    match = re.search(rf"\b{name}=\[([^\]]+)\]", text)
    if match is None:
        return None
    try:
        return float(str(parse_length(match[1])))
    except ValueError:
        return None


def _aggregate(text: str) -> Aggregate | None:
    match = _AGGREGATES.search(text)
    if match is None:
        return None
    function = match[1].lower()
    grouped = re.search(r"groupBy=\[[^\]]+\]", text) is not None
    # A count is a BIGINT whatever it counts; of all other values and of the keys the text does not give the type.
    value_class = "long" if function == "count" else UNKNOWN
    return Aggregate(function=function, value_class=value_class, key_class=UNKNOWN if grouped else None)


def _width(text: str) -> int | None:
    """How many fields the last operator of a chain puts out."""
    for name in ("select", "fields"):
        found = list(re.finditer(rf"\b{name}=\[", text))
        if found:
            return _top_level_items(text, found[-1].end())
    return None


def _top_level_items(text: str, start: int) -> int:
    depth, items = 0, 1
    for character in text[start:]:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth < 0:
                break
        elif character == "," and depth == 0:
            items += 1
    return items
