"""A small knowledge base with everything that is awkward in it, and logs over it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

Record = dict[str, Any]

ENTITIES: list[Record] = [
    {"id": "ny", "names": ["New York", "NYC"], "type": "place"},
    {"id": "nyc", "names": ["New York City"], "type": "place"},
    {"id": "york", "names": ["York"], "type": "place"},
    {"id": "hall", "names": ["City Hall"], "type": "building"},
    {"id": "village-1", "names": ["Å"], "type": "place"},
    {"id": "village-2", "names": ["Å", "Å i Lofoten"], "type": "place"},
    {"id": "beyonce", "names": ["Beyoncé"], "type": "person"},
    {"id": "jay", "names": ["Jay-Z", "JAY Z"], "type": "person"},
    {"id": "nobody", "names": ["!!!"], "type": "band"},
]
RELATIONS: list[Record] = [
    {"from": "hall", "to": "ny", "type": "located in"},
    {"from": "hall", "to": "nyc", "type": "located in"},
    {"from": "jay", "to": "beyonce", "type": "married to"},
    {"from": "beyonce", "to": "jay", "type": "married to"},
    {"from": "jay", "to": "nyc", "type": "born in"},
    {"from": "village-1", "to": "village-2", "type": "same name"},
    {"from": "york", "to": "atlantis", "type": "twin of"},
    {"from": "york", "to": "york", "type": "twin of"},
    {"from": "york", "to": "ny", "type": "namesake of"},
]
PHRASES = [
    "new york city hall",
    "New YORK, city-hall", "nyc", "BEYONCE", "Beyonce\u0301", "jay z", "Jay-Z", "a", "å i lofoten",
    "york", "new", "weather", "in", "city hall", "new york city", "\u202fthe", "é", "日本", "!!!",
]  # fmt: skip


def make_lines(count: int, seed: int = 0, days: int = 10) -> list[Record]:
    draw = random.Random(seed)
    return [
        {
            "user": f"user-{draw.randrange(40)}",
            "time": f"2014-01-{10 + draw.randrange(days):02d}T{draw.randrange(24):02d}:30:00"
            + draw.choice(["Z", "+00:00", "", ".25Z", "-01:00"]),
            "query": " ".join(draw.choices(PHRASES, k=draw.randrange(1, 5))),
        }
        for _ in range(count)
    ]


def write_knowledge(folder: Path, entities: list[Record], relations: list[Record]) -> Path:
    folder.mkdir(parents=True)
    for name, records in (("entities", entities), ("relations", relations)):
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder
