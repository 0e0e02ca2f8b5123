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
from streamtune.engines.flink.vocabulary import UNKNOWN as UNKNOWN
from streamtune.engines.flink.vocabulary import heaviest, kind_of

# An aggregate with what the planner writes around it: COUNT(DISTINCT user) FILTER $f2 AS n, MIN_RETRACT(price). The
# name is exact, or MINUTE and COUNTRY would be aggregates; STDDEV_POP is a STDDEV, $SUM0 a SUM.
_AGGREGATE = re.compile(
    r"\b(COUNT|SUM|MIN|MAX|AVG|FIRST_VALUE|LAST_VALUE|LISTAGG|STDDEV|VAR|COLLECT|ARRAY_AGG|JSON_OBJECTAGG"
    r"|JSON_ARRAYAGG)(?:[01]|IANCE|_POP|_SAMP|_WS|_(?:NULL|ABSENT)_ON_NULL)?(?:_RETRACT)?(?:\$\d+)?"
    r"\((DISTINCT )?[^()]*(?:\([^()]*\)[^()]*)*\)( FILTER)?",
    re.IGNORECASE,
)
_SQL_WINDOW = re.compile(r"\b(TUMBLE|HOP|CUMULATE|SESSION)\((.*?\])\)")
_GROUP_WINDOW = re.compile(r"\b(Tumbling|Sliding|Session)GroupWindow\([^(),]+, [^,()]+, (\d+)(?:, (\d+))?\)")
_JAVA_WINDOW = re.compile(r"(Tumbling|Sliding|EventTimeSession|ProcessingTimeSession)\w*Windows\((\d+)(?:, (\d+))?")
# A group window that counts rows is written like one of time, and nobody has windows of some milliseconds.
_LEAST_GROUP_WINDOW_MS = 100
_SQL_TEXT = re.compile(r"\b[A-Z]\w+\(\w+=\[")
# What leads from one operator to the next in a name: a chain, or branches of it.
_CHAINED = re.compile(r"[(\[{]|\s*->\s*|,\s+")
_CLOSES = {"(": ")", "[": "]", "{": "}"}
# With pipeline.vertex-name-include-index-prefix every vertex is numbered, and a changed job numbers otherwise.
_VERTEX_INDEX = re.compile(r"^\[vertex-\d+\]")
_TREE = re.compile(r"^[ :|+-]+")  # what a description draws before each operator
# Field classes that a description gives away: casts, counts and window times.
_CAST = re.compile(r"CAST\((?:[^()]|\([^()]*\))*? AS ([A-Z]+)[^)]*\) AS (\w+)")
_COUNT = re.compile(r"\bCOUNT1?(?:_RETRACT)?(?:\$\d+)?\([^)]*\) AS (\w+)")
_CLASSES = {
    "BIGINT": "long", "INTEGER": "int", "INT": "int", "SMALLINT": "int", "TINYINT": "int", "DOUBLE": "double",
    "FLOAT": "float", "DECIMAL": "decimal", "VARCHAR": "string", "CHAR": "string", "STRING": "string",
    "BOOLEAN": "boolean", "TIMESTAMP": "timestamp", "DATE": "date", "TIME": "time",
}  # fmt: skip


@dataclass(frozen=True)
class Description:
    """What could be read off one vertex."""

    kind: str = UNKNOWN
    window: Window | None = None
    aggregate: Aggregate | None = None
    join: Join | None = None
    width_out: int | None = None
    is_sql: bool = False
    read_from: str = ""


def chained_names(vertex_name: str) -> list[str]:
    """The operators that a vertex chains, first to last.

    Brackets of an operator's own hold its arguments; those that begin where an operator would are branches.

    >>> chained_names("Source: bids -> Filter -> (Map, Sink: out)")
    ['Source: bids', 'Filter', 'Map', 'Sink: out']
    >>> chained_names("[vertex-1]Calc(select=[a, b], where=[(a > 1)]) -> Rank[4]")
    ['Calc(select=[a, b], where=[(a > 1)])', 'Rank[4]']
    """
    names: list[str] = []
    left = [_VERTEX_INDEX.sub("", vertex_name)]
    while left:
        part = left.pop().strip()
        closes = _closing_brackets(part)
        if part.startswith("(") and closes.get(0) == len(part) - 1:
            left.append(part[1:-1])
            continue
        pieces = _pieces(part, closes)
        if len(pieces) > 1:
            left.extend(reversed(pieces))
        elif part:
            names.append(part)
    return names


def _pieces(text: str, closes: dict[int, int]) -> list[str]:
    """A name cut at what chains operators, outside of all brackets."""
    pieces, start, place = [], 0, 0
    while found := _CHAINED.search(text, place):
        place = found.end()
        if found[0] in _CLOSES:
            place = closes.get(found.start(), found.start()) + 1
        else:
            pieces.append(text[start : found.start()])
            start = place
    return [*pieces, text[start:]]


def _closing_brackets(text: str) -> dict[int, int]:
    """Where each bracket is closed. One that a user never closed is not in it, and hides nothing behind it."""
    opened: list[int] = []
    closes = {}
    for place, character in enumerate(text):
        if character in _CLOSES:
            opened.append(place)
        elif opened and character == _CLOSES[text[opened[-1]]]:
            closes[opened.pop()] = place
    return closes


def describe(vertex_name: str, description: str) -> Description:
    """Read a vertex: its chained names, and the planner's description where there is one.

    >>> found = describe("GlobalWindowAggregate[5]", "GlobalWindowAggregate(groupBy=[item], "
    ...     "window=[HOP(slice_end=[$e], size=[10 s], slide=[2 s])], select=[item, COUNT(*) AS c, start('w$') AS s])")
    >>> found.kind, found.window.length, found.window.slide, found.aggregate.function, found.width_out
    ('window_aggregate', 10.0, 2.0, 'count', 3)
    """
    text = html.unescape(description).replace("<br/>", "\n")
    is_sql = bool(_SQL_TEXT.search(text))
    names = chained_names(vertex_name)
    kinds = [kind_of(name, text) for name in names]
    kind = heaviest(kinds)
    if kind == "map" and is_sql and "where=[" in text:
        kind = "filter"  # the planner calls both Calc
    decisive = next((name for name, one in zip(names, kinds, strict=True) if one == kind), vertex_name)
    classes = field_classes(text)
    return Description(
        kind=kind,
        window=_window(text) or _window(vertex_name),
        aggregate=_aggregate(text, classes) if "aggregate" in kind and is_sql else None,
        join=Join(key_class=_join_key(text, classes)) if kind in {"join", "window_join", "lookup_join"} else None,
        width_out=_width(text) if is_sql else None,
        is_sql=is_sql,
        read_from=decisive,
    )


def field_classes(text: str) -> dict[str, str]:
    """Fields whose class a description gives away.

    >>> field_classes("Calc(select=[CAST(id AS BIGINT) AS user, COUNT(*) AS n])")
    {'user': 'long', 'n': 'long'}
    """
    found = {name: _CLASSES[kind] for kind, name in _CAST.findall(text) if kind in _CLASSES}
    found |= dict.fromkeys(_COUNT.findall(text), "long")
    return found | {name: "timestamp" for name in ("window_start", "window_end", "window_time") if name in text}


def _window(text: str) -> Window | None:
    if match := _SQL_WINDOW.search(text):
        lengths = {name: _duration(name, match[2]) for name in ("size", "slide", "gap", "max_size", "step", "maxSize")}
        size = lengths["size"] or lengths["gap"] or lengths["max_size"] or lengths["maxSize"]
        kind = {"TUMBLE": "tumbling", "HOP": "sliding", "CUMULATE": "cumulative", "SESSION": "session"}[match[1]]
        return _window_of(kind, size, lengths["slide"] or lengths["step"])
    group = _GROUP_WINDOW.search(text)
    if group is not None and min(int(one) for one in group.groups()[1:] if one) < _LEAST_GROUP_WINDOW_MS:
        return None
    if match := group or _JAVA_WINDOW.search(text):
        kind = match[1].lower() if match[1] in ("Tumbling", "Sliding") else "session"
        slide = int(match[3]) / 1000 if match[3] and kind == "sliding" else None
        return _window_of(kind, int(match[2]) / 1000, slide)
    return None


def _window_of(kind: str, length_s: float | None, slide_s: float | None) -> Window | None:
    if length_s is None or length_s <= 0:
        return None
    slides = kind in ("sliding", "cumulative")
    if slides and (slide_s is None or not 0 < slide_s <= length_s):
        return None
    return Window.model_validate(
        {"type": kind, "policy": "time", "length": length_s, "slide": slide_s if slides else None}
    )


def _duration(name: str, text: str) -> float | None:
    match = re.search(rf"\b{name}=\[([^\]]+)\]", text)
    if match is None:
        return None
    try:
        return float(str(parse_length(match[1])))
    except ValueError:
        return None


def _aggregate(text: str, classes: dict[str, str]) -> Aggregate | None:
    """All aggregates of a vertex as one: ``count+sum``, with ``_distinct`` and ``_filter`` where they are."""
    found: dict[str, None] = {}
    text = _of_aggregates(text)
    for name, distinct, filtered in _AGGREGATE.findall(text):
        found[f"{name.lower()}{'_distinct' if distinct else ''}{'_filter' if filtered else ''}"] = None
    if not found:
        return None
    grouped = re.search(r"(?:groupBy|partitionBy)=\[([^\]]+)\]", text)
    # A count is a BIGINT whatever it counts; of all other values the text does not give the class.
    counts = all(name.startswith("count") for name in found)
    key = None if grouped is None else _one_class(grouped[1].split(", "), classes)
    return Aggregate(function="+".join(sorted(found)), value_class="long" if counts else UNKNOWN, key_class=key)


def _of_aggregates(text: str) -> str:
    """What the aggregates of a chain say of themselves, without the projections beside them."""
    lines = (_TREE.sub("", line) for line in text.splitlines())
    return "\n".join(one for line in lines for one in chained_names(line) if "aggregate" in kind_of(one))


def _join_key(text: str, classes: dict[str, str]) -> str:
    """The class of what both sides are joined on, where the vertex' own text gives it away."""
    condition = re.search(r"where=\[\(?(\w+) = (\w+)", text)
    return UNKNOWN if condition is None else _one_class([condition[1], condition[2]], classes, any_of=True)


def _one_class(fields: list[str], classes: dict[str, str], *, any_of: bool = False) -> str:
    found = [classes[field] for field in fields if field in classes]
    known = bool(found) and (any_of or len(found) == len(fields))
    return found[0] if known and len(set(found)) == 1 else UNKNOWN


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
