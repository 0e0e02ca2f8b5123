"""Slow and plain: what the pipeline must give, transcribed from the rules."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

Record = dict[str, Any]


def tokens(text: str) -> list[str]:
    """Letters, digits and marks that are not accents; case and accents gone."""
    flat = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    kept = []
    for character in flat:
        category = unicodedata.category(character)
        if category == "Cf" or is_accent(ord(character)):
            continue
        kept.append(character if category[0] in "LNM" else " ")
    return "".join(kept).split(" ") and [token for token in "".join(kept).split(" ") if token]


def is_accent(code: int) -> bool:
    return (
        0x300 <= code <= 0x36F
        or 0x1AB0 <= code <= 0x1AFF
        or 0x1DC0 <= code <= 0x1DFF
        or 0x20D0 <= code <= 0x20FF
        or 0xFE20 <= code <= 0xFE2F
    )


def match(query: str, names: Iterable[tuple[str, int]]) -> set[int]:
    """At every place try all names, longest first."""
    split = [(tokens(name), entity) for name, entity in names]
    words, found, at = tokens(query), set[int](), 0
    while at < len(words):
        here = [(name, entity) for name, entity in split if name and words[at : at + len(name)] == name]
        if not here:
            at += 1
            continue
        longest = max(len(name) for name, _ in here)
        found |= {entity for name, entity in here if len(name) == longest}
        at += longest
    return found


def count_window(
    lines: Sequence[Record], entities: Sequence[Record], relations: Sequence[Record], day: str, window: int
) -> dict[tuple[str, str], dict[str, int]]:
    """Counts of every directed pair in a window, exactly."""
    ids = [entity["id"] for entity in entities]
    names = [(name, number) for number, entity in enumerate(entities) for name in entity["names"]]
    related = {frozenset((relation["from"], relation["to"])) for relation in relations}
    last = datetime.fromisoformat(day).date()
    events: dict[Any, int] = defaultdict(int)
    users: dict[Any, set[str]] = defaultdict(set)
    for line in lines:
        time = datetime.fromisoformat(line["time"])
        time = time.astimezone(UTC) if time.tzinfo else time
        if not last - timedelta(days=window) < time.date() <= last:
            continue
        found = sorted(ids[number] for number in match(line["query"], names))
        pairs = [frozenset(pair) for pair in combinations(found, 2) if frozenset(pair) in related]
        for key in [*found, *pairs]:
            events[key] += 1
            users[key].add(str(line["user"]))
    rows = {}
    for key in [key for key in events if isinstance(key, frozenset)]:
        for one, other in (sorted(key), sorted(key, reverse=True)):
            rows[one, other] = {
                "events": events[key],
                "users": len(users[key]),
                "entity_events": events[one],
                "entity_users": len(users[one]),
                "related_events": events[other],
                "related_users": len(users[other]),
            }
    return rows
